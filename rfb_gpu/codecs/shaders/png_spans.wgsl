// A span to tokens, by a workgroup: literals, and matches with what stands at one of a few candidate places. After filtering, most of
// what is left of a synthetic picture are zeros; without, its rows look like those above, with edges a little to the side.
//
// The stage declares `frame`, `rows` and on_token(token): a literal's token is its byte, that of a match of 3 to 258 bytes is 253 + its
// length, and after it comes 512 + the number of its candidate.
//
// Each thread has a piece of 32 bytes. For each candidate a word of bits says which of these are the same there; so how long a match
// is tells the first zero from its place on. What is left is to find where tokens begin. Each thread takes them one after the other
// as if one began with its piece. Then one thread goes from where a piece's tokens end to the piece where that is, and so on: what it
// passes over has no tokens, and a piece that it reaches elsewhere than thought finds its own anew. After some rounds this is what
// one thread for the whole span would find, nearly always. If not, what a thread has too much is cut off, and what is missing it adds.

#import png_residuals

const PIECE_BYTES = 32u;
const MARGIN_WORDS = 4u;        // before a span, which candidates reach into
const MOST_CANDIDATES = 8u;
const FULL_WORDS = 5u;          // a bit for each thread, and zeros
const MATCH_TOKEN = 253u;
const CANDIDATE_TOKEN = 512u;
const SHORTEST_MATCH = 3u;
const LONGEST_MATCH = 258u;
const ROUNDS = 3u;
const NOWHERE = 0xffffffffu;

// Words of a row, with one left out after each eight, so that threads do not wait for each other. One row at a time.
var<workgroup> bytes: array<u32, 1168>;
// Which bytes of each piece are the same, by candidate; and which pieces are so as a whole.
var<workgroup> same: array<u32, MOST_CANDIDATES * SPAN_THREADS>;
var<workgroup> full: array<atomic<u32>, MOST_CANDIDATES * FULL_WORDS>;
// Where each piece's tokens end, and in the high half where the first one begins; and where it should, NOWHERE if it has none.
var<workgroup> ends: array<u32, SPAN_THREADS>;
var<workgroup> entries: array<u32, SPAN_THREADS>;
var<workgroup> all_meet: u32;

// All places are bytes from the span's beginning on.
var<private> own: array<u32, 8>;        // the piece
var<private> matches: u32;              // where in the piece some match begins
// Where one with each candidate does; with numbers written out, so that they are in registers.
#unroll j 0..8
var<private> matches_of$$j: u32;
#end
var<private> piece_start: u32;
var<private> piece_end: u32;
var<private> entry: u32;                // where the thread's first token begins
var<private> exit: u32;                 // where that of the next one does
var<private> tokens: u32;               // where in the piece its tokens begin
var<private> tokens_end: u32;           // and where the last of these ends
var<private> picks: vec3u;              // where a match among them begins, a bit in each of its candidate's number

fn spread(word: u32) -> u32 {
    return word + (word >> 3u);
}

/// The low `count` bits set.
fn low_bits(count: i32) -> u32 {
    return select((1u << u32(clamp(count, 0, 31))) - 1u, 0xffffffffu, count > 31);
}

/// A word of the stream's bytes of a row; zeros beyond its end.
fn row_word(row: u32, word: u32) -> u32 {
    if (word >= frame.row_words) {
        return 0u;
    }
    let base = row * frame.row_words;
    if (frame.is_filtered == 0u) {
        return pixel_bytes(base, word);
    }
    let filter_kind = rows[base] >> 24u;
    if (word == 0u) {
        return filter_kind << 24u;
    }
    let here = rows[base + word];
    let left = left_bytes(pixel_bytes(base, word - 1u), here);
    var prediction = unpacked(left);
    if (filter_kind != SUB) {
        let above = base - frame.row_words;
        let up = rows[above + word];
        prediction = unpacked(up);
        if (filter_kind == PAETH) {
            let corner = left_bytes(pixel_bytes(above, word - 1u), up);
            prediction = paeth(unpacked(left), prediction, unpacked(corner));
        }
    }
    let end = ROW_PADDING + frame.row_bytes;
    return packed(unpacked(here) - prediction) & low_bits(8 * i32(end - 4u * word));
}

/// Puts a row's words where the span is, and a few to either side, into workgroup memory.
fn stage_row(row: u32, first_word: u32, thread: u32) {
    for (var i = thread; i < SPAN_WORDS + 2u * MARGIN_WORDS; i += SPAN_THREADS) {
        var word = 0u;
        if (first_word + i >= MARGIN_WORDS) {
            word = row_word(row, first_word + i - MARGIN_WORDS);
        }
        bytes[spread(i)] = word;
    }
}

/// Which bytes of the piece stand at a candidate's place as well.
fn find_same(number: u32, first: u32, thread: u32) {
    let left = frame.candidate[number].y;
    let place = u32(i32(4u * MARGIN_WORDS) - left);
    let word = place >> 2u;
    let shift = (place & 3u) * 8u;
    let base = 9u * thread;
    var low = bytes[base + spread(word)];
    var mask = 0u;
#unroll j 0..8
    let high$$j = bytes[base + spread(word + $j + 1u)];
    let different$$j = own[$j] ^ ((low >> shift) | ((high$$j << 1u) << (31u - shift)));
    low = high$$j;
    // The top bit of each byte that is zero; then the four of them side by side.
    let zeros$$j = ~(((different$$j & 0x7f7f7f7fu) + 0x7f7f7f7fu) | different$$j | 0x7f7f7f7fu);
    mask |= (((zeros$$j >> 7u) * 0x10204080u) >> 28u) << (4u * $j);
#end
    let row_end = i32(ROW_PADDING + frame.row_bytes);
    let start = i32(first + thread * PIECE_BYTES);
    mask &= low_bits(min(row_end, row_end + left) - start) & ~low_bits(max(i32(ROW_PADDING), i32(ROW_PADDING) + left) - start);
    // No match goes across the cut, or takes from the other side of it. One with what is right above ends a byte before.
    let cut = i32(frame.cut) - start;
    mask &= ~(low_bits(cut + max(left, 0)) & ~low_bits(cut + select(min(left, -1), 0, left > 0)));
    same[number * SPAN_THREADS + thread] = mask;
    if (mask == 0xffffffffu) {
        atomicOr(&full[number * FULL_WORDS + (thread >> 5u)], 1u << (thread & 31u));
    }
}

/// How many bytes from a place on are the same at a candidate's, up to the span's end.
fn same_bytes(number: u32, place: u32) -> u32 {
    let piece = place / PIECE_BYTES;
    let at = place % PIECE_BYTES;
    let ones = countTrailingZeros(~(same[number * SPAN_THREADS + piece] >> at));
    if (at + ones < PIECE_BYTES) {
        return ones;
    }
    let next = piece + 1u;
    var word = next >> 5u;
    var partly = ~atomicLoad(&full[number * FULL_WORDS + word]) & (0xffffffffu << (next & 31u));
    while (partly == 0u) {
        word++;
        partly = ~atomicLoad(&full[number * FULL_WORDS + word]);
    }
    let last = word * 32u + countTrailingZeros(partly);
    if (last >= SPAN_THREADS) {
        return SPAN_BYTES - place;
    }
    return last * PIECE_BYTES + countTrailingZeros(~same[number * SPAN_THREADS + last]) - place;
}

/// The longest of some candidates' matches at a place: its length, or less than the shortest, and its candidate. `wanted` has a bit
/// for each that is to be looked at.
fn best_match_of(wanted: u32, place: u32) -> vec2u {
    var best = vec2u(0u);
    for (var rest = wanted; rest != 0u && best.x < LONGEST_MATCH; rest &= rest - 1u) {
        let i = countTrailingZeros(rest);
        let candidate = frame.candidate[i];
        var length = same_bytes(i, place);
        // Further on, one in the same row may do, which takes fewer bits.
        length = select(length, min(length, LONGEST_MATCH), candidate.x > 0);
        // They come in the order of what they cost: a later one must be better.
        if (length >= SHORTEST_MATCH && length > best.x + u32(candidate.z)) {
            best = vec2u(length, i);
        }
    }
    return best;
}

/// The match at a place, of all candidates.
fn best_match(place: u32) -> vec2u {
    return best_match_of(low_bits(i32(frame.candidates)), place);
}

/// The match at a place in the thread's piece, where there is one.
fn best_own_match(place: u32) -> vec2u {
    let at = place % PIECE_BYTES;
    var wanted = 1u;
    if (frame.candidates > 1u) {
        wanted = 0u;
#unroll j 0..8
        wanted |= ((matches_of$$j >> at) & 1u) << $j;
#end
    }
    return best_match_of(wanted, place);
}

/// Finds the piece's tokens, if the first one begins at `entry`; sets `tokens`, `tokens_end` and `picks`. From a place on where one of
/// those begins that it has already, they stay.
fn find_piece_tokens() {
    let tokens_before = tokens;
    let picks_before = picks;
    tokens = 0u;
    picks = vec3u(0u);
    var place = entry;
    while (place < piece_end) {
        let at = place % PIECE_BYTES;
        if (((tokens_before >> at) & 1u) != 0u) {
            let rest = 0xffffffffu << at;
            tokens |= tokens_before & rest;
            picks |= picks_before & vec3u(rest);
            return;
        }
        let literals = min(countTrailingZeros(matches >> at), piece_end - place);
        if (literals > 0u) {
            tokens |= low_bits(i32(literals)) << at;
            place += literals;
        } else {
            let found = best_own_match(place);
            tokens |= 1u << at;
            picks |= ((vec3u(found.y) >> vec3u(0u, 1u, 2u)) & vec3u(1u)) << vec3u(at);
            place += found.x;
        }
    }
    tokens_end = place;
}

/// Finds which pieces have tokens, and where their first ones begin: sets `entries`. Whether all began there already. Every thread of
/// the workgroup must call it.
fn meet(span_end: u32, thread: u32) -> bool {
    ends[thread] = (entry << 16u) | tokens_end;
    entries[thread] = NOWHERE;
    workgroupBarrier();
    if (thread == 0u) {
        var differ = 0u;
        var place = entry;
        while (place < span_end) {
            let piece = place / PIECE_BYTES;
            let found = ends[piece];
            entries[piece] = place;
            differ |= place ^ (found >> 16u);
            place = found & 0xffffu;
        }
        all_meet = select(0u, 1u, differ == 0u);
    }
    return workgroupUniformLoad(&all_meet) != 0u;
}

/// Finds the span's tokens; every thread of the workgroup must call it.
fn find_tokens(row: u32, span: u32, thread: u32) {
    let first = span * SPAN_BYTES;
    if (thread < MOST_CANDIDATES * FULL_WORDS) {
        atomicStore(&full[thread], 0u);
    }
    stage_row(row, span * SPAN_WORDS, thread);
    workgroupBarrier();
#unroll j 0..8
    own[$j] = bytes[9u * thread + spread(MARGIN_WORDS + $j)];
#end
    var number = 0u;
    for (; number < frame.candidates && frame.candidate[number].x == 0; number++) {
        find_same(number, first, thread);
    }
    if (number < frame.candidates) {
        if (row % STRIPE_ROWS == 0u) {
            for (; number < frame.candidates; number++) {
                same[number * SPAN_THREADS + thread] = 0u;
            }
        } else {
            workgroupBarrier();
            stage_row(row - 1u, span * SPAN_WORDS, thread);
            workgroupBarrier();
            for (; number < frame.candidates; number++) {
                find_same(number, first, thread);
            }
            workgroupBarrier();
#unroll j 0..8
            bytes[9u * thread + spread(MARGIN_WORDS + $j)] = own[$j];
#end
        }
    }
    workgroupBarrier();

    matches = 0u;
#unroll j 0..8
    matches_of$$j = 0u;
    if ($j < frame.candidates) {
        let here = same[$j * SPAN_THREADS + thread];
        var next = 0u;
        if (thread + 1u < SPAN_THREADS) {
            next = same[$j * SPAN_THREADS + thread + 1u];
        }
        matches_of$$j = here & ((here >> 1u) | (next << 31u)) & ((here >> 2u) | (next << 30u));
        matches |= matches_of$$j;
    }
#end
    let span_end = min(SPAN_BYTES, ROW_PADDING + frame.row_bytes - first);
    piece_start = select(min(thread * PIECE_BYTES, span_end), ROW_PADDING, first + thread == 0u);
    piece_end = min((thread + 1u) * PIECE_BYTES, span_end);
    entry = piece_start;
    tokens = 0u;
    find_piece_tokens();
    for (var round = 0u; round < ROUNDS; round++) {
        let is_found = meet(span_end, thread);
        exit = tokens_end;
        if (is_found) {
            break;
        }
        let first_token = entries[thread];
        if (first_token != NOWHERE && first_token != entry) {
            entry = first_token;
            find_piece_tokens();
        }
    }
    if (entries[thread] == NOWHERE) {
        tokens_end = entry;
        exit = entry;
    }
    if (tokens_end > exit) {
        // The last one is cut off. What is too short for a match are literals.
        let last = PIECE_BYTES * thread + 31u - countLeadingZeros(tokens);
        tokens_end = exit;
        if (exit - last < SHORTEST_MATCH) {
            tokens_end = piece_end;
            tokens |= low_bits(i32(piece_end - last)) << (last % PIECE_BYTES);
        }
    }
}

fn on_literal(place: u32) {
    let word = bytes[spread(MARGIN_WORDS + (place >> 2u))];
    on_token((word >> ((place & 3u) * 8u)) & 0xffu);
}

fn on_match(length: u32, candidate: u32) {
    var rest = length;
    while (rest > 0u) {
        var part = min(rest, LONGEST_MATCH);
        if (part < rest && rest - part < SHORTEST_MATCH) {
            part = rest - SHORTEST_MATCH;
        }
        on_token(MATCH_TOKEN + part);
        on_token(CANDIDATE_TOKEN + candidate);
        rest -= part;
    }
}

/// Hands the thread's tokens to on_token.
fn each_token() {
    var place = entry;
    while (place < tokens_end) {
        let at = place % PIECE_BYTES;
        let after = (tokens >> at) >> 1u;
        let next = select(tokens_end, place + 1u + countTrailingZeros(after), after != 0u);
        if (next == place + 1u) {
            on_literal(place);
        } else {
            let candidate = ((picks >> vec3u(at)) & vec3u(1u)) << vec3u(0u, 1u, 2u);
            on_match(next - place, candidate.x | candidate.y | candidate.z);
        }
        place = next;
    }
    while (place < exit) {
        let found = best_match(place);
        let length = min(found.x, exit - place);
        if (length < SHORTEST_MATCH) {
            on_literal(place);
            place++;
        } else {
            on_match(length, found.y);
            place += length;
        }
    }
}
