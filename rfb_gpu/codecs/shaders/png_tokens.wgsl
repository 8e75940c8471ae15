// The tokens of a chunk: literals, and matches with what stands at one of a few candidate places. After filtering, most of what is left
// of a synthetic picture are zeros; without, its rows look like those above, with edges a little to the side.
//
// The stage declares `frame`, `rows` and on_token(token): a literal's token is its byte, that of a match of 3 to 258 bytes is 253 + its
// length, and after it comes 512 + the number of its candidate.

const MATCH_TOKEN = 253u;
const CANDIDATE_TOKEN = 512u;
const SHORTEST_MATCH = 3u;
const LONGEST_MATCH = 258u;
const LONG_ENOUGH = 32u;        // to look no further

/// Four bytes from a byte of the buffer on. The buffer has a word more than its rows.
fn four_bytes(at: u32) -> u32 {
    let word = at >> 2u;
    let shift = (at & 3u) * 8u;
    return (rows[word] >> shift) | ((rows[word + 1u] << 1u) << (31u - shift));
}

/// How many bytes are the same from two places on, where the first four are.
fn same_bytes(a: u32, b: u32, most: u32) -> u32 {
    // Whole words of the first; of the second, two halves, of which one was read before.
    let skip = 4u - (a & 3u);
    var word = (a + skip) >> 2u;
    let there = b + skip;
    let shift = (there & 3u) * 8u;
    var other = there >> 2u;
    var low = rows[other];
    var length = skip;
    while (length < most) {
        other++;
        let high = rows[other];
        let different = rows[word] ^ ((low >> shift) | ((high << 1u) << (31u - shift)));
        if (different != 0u) {
            length += countTrailingZeros(different) >> 3u;
            break;
        }
        low = high;
        word++;
        length += 4u;
    }
    return min(length, most);
}

fn each_token(chunk: u32) {
    let row = chunk / frame.chunks_per_row;
    let first = (chunk % frame.chunks_per_row) * CHUNK_BYTES;
    let end = min(first + CHUNK_BYTES, frame.row_bytes);
    let row_start = row * frame.row_words * 4u + ROW_PADDING;
    let has_above = row % STRIPE_ROWS != 0u;
    var at = first;
    while (at < end) {
        let here = row_start + at;
        let room = min(end - at, LONGEST_MATCH);
        let these = four_bytes(here);
        var length = SHORTEST_MATCH - 1u;
        var found = 0u;
        if (room >= SHORTEST_MATCH) {
            for (var i = 0u; i < frame.candidates && length < LONG_ENOUGH; i++) {
                let candidate = frame.candidate[i];
                let there = i32(at) - candidate.y;
                if (there < 0 || there >= i32(frame.row_bytes) || (candidate.x > 0 && !has_above)) {
                    continue;
                }
                let place = here - u32(candidate.x * i32(frame.row_words * 4u) + candidate.y);
                let different = these ^ four_bytes(place);
                // Most end here.
                if ((different & 0xffffffu) != 0u) {
                    continue;
                }
                let most = select(room, min(room, frame.row_bytes - u32(there)), candidate.x > 0);
                var same = min(SHORTEST_MATCH, most);
                if (different == 0u) {
                    same = same_bytes(here, place, most);
                }
                // They come in the order of what they cost: a later one must be better.
                if (same > length + u32(candidate.z)) {
                    length = same;
                    found = i;
                }
            }
        }
        if (length >= SHORTEST_MATCH) {
            on_token(MATCH_TOKEN + length);
            on_token(CANDIDATE_TOKEN + found);
            at += length;
        } else {
            on_token(these & 0xffu);
            at++;
        }
    }
}
