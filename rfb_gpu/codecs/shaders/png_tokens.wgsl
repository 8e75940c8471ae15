// The tokens of a chunk: literals, and matches at distance 1, that is, runs of the byte before. After filtering, most of what is
// left of a synthetic picture are zeros.
//
// The stage declares `frame` and `filtered`, and on_token(token): a literal's token is its byte, that of a match of 3 to 258 bytes is
// 253 + its length.

const MATCH_TOKEN = 253u;
const SHORTEST_MATCH = 3u;
const LONGEST_MATCH = 258u;

fn end_run(run: u32, byte: u32) {
    if (run >= SHORTEST_MATCH) {
        on_token(MATCH_TOKEN + run);
    } else {
        for (var i = 0u; i < run; i++) {
            on_token(byte);
        }
    }
}

fn each_token(chunk: u32) {
    let row = chunk / frame.chunks_per_row;
    let first = (chunk % frame.chunks_per_row) * CHUNK_BYTES;
    let base = row * frame.row_words;
    let end = ROW_PADDING + min(first + CHUNK_BYTES, frame.row_bytes);
    var at = ROW_PADDING + first;
    var word = filtered[base + (at >> 2u)];
    var run = 0u;
    var byte = 0u;
    if (first == 0u) {
        byte = word >> 24u;         // the filter's number
        on_token(byte);
        at++;
    } else {
        byte = (filtered[base + ((at - 1u) >> 2u)] >> (((at - 1u) & 3u) * 8u)) & 0xffu;
    }
    while (at < end) {
        if ((at & 3u) == 0u) {
            word = filtered[base + (at >> 2u)];
            if (word == byte * 0x01010101u && at + 4u <= end && run + 4u <= LONGEST_MATCH) {
                run += 4u;
                at += 4u;
                continue;
            }
        }
        let next = (word >> ((at & 3u) * 8u)) & 0xffu;
        at++;
        if (next != byte) {
            end_run(run, byte);
            on_token(next);
            run = 0u;
            byte = next;
            continue;
        }
        if (run == LONGEST_MATCH) {
            on_token(MATCH_TOKEN + run);
            run = 0u;
        }
        run++;
    }
    end_run(run, byte);
}
