// Stage 1 of 2: the compressed stream to rows of bytes, a thread per row, a workgroup per stripe, or half of one.
//
// in:       the zlib stream; the bit where each part of each row begins; what its codes say
// out:      `rows`
// dispatch: (stripes, parts of a row), a thread for each row
// moves:    the stream once, each byte of the rows once, and what matches copy once more
//
// Matches may reach into the row above, a little to the right of where they are, so each row goes two steps behind the one above it. What
// a thread has written lately stands in workgroup memory, for itself and for the thread below: storage takes ten times as long to
// answer, and all threads of a subgroup wait for the one that asks. Where matches stay in their row there is one step.
//
// The bytes come from outside: each turn of the loop fills a byte or more, whatever they say, every access is checked by the host's
// compiler, and what is no code stands for a zero.

#import png_rows

const WORKGROUP_SIZE = STRIPE_ROWS;

// What the tables say about the next bits: bits 0-3 the code's length, 4-6 (of a distance: 4-7) how many bits more follow, 7 whether it
// is the length of a match, and from 8 on the byte, or what the bits are added to.
const IS_MATCH = 0x80u;
const FAST_BITS = 10u;
const FAST_SIZE = 1024u;
const DISTANCES = 128u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> stream: array<u32>;
@group(0) @binding(2) var<storage, read> part_bits: array<u32>;
@group(0) @binding(3) var<storage, read> tables: array<u32>;    // of distances, DISTANCES words; and then of literals and lengths
@group(0) @binding(4) var<storage, read_write> rows: array<u32>;

var<workgroup> fast: array<u32, FAST_SIZE>;
var<workgroup> distances: array<u32, DISTANCES>;
// The latest words of each row. A row is up to three steps and some bytes ahead of the one below it.
const RECENT_WORDS = 64u;
const REACH_BACK = 128u;        // how far a match may reach back in its own row
const REACH = 16u;              // how far to either side one may reach in the row above
var<workgroup> recent: array<u32, RECENT_WORDS * STRIPE_ROWS>;

// The next bits of the stream, lowest first, how many of the first word are used up; a word asked for ahead of its use, and the number
// of the one after it.
var<private> low: u32;
var<private> high: u32;
var<private> used: u32;
var<private> ahead: u32;
var<private> next_word: u32;

fn stream_word(word: u32) -> u32 {
    if (word < frame.stream_words) {
        return stream[word];
    }
    return 0u;
}

fn peek() -> u32 {
    return (low >> used) | ((high << 1u) << (31u - used));
}

/// Drops up to 31 bits.
fn skip(bits: u32) {
    used += bits;
    if (used >= 32u) {
        used -= 32u;
        low = high;
        high = ahead;
        ahead = stream_word(next_word);
        next_word++;
    }
}

fn take(bits: u32) -> u32 {
    let value = peek() & ((1u << bits) - 1u);
    skip(bits);
    return value;
}

/// What the next code is of literals and lengths.
fn next_literal() -> u32 {
    let bits = peek();
    var entry = fast[bits & (FAST_SIZE - 1u)];
    if (entry == 0u) {
        entry = tables[DISTANCES + (bits & ((1u << frame.literal_bits) - 1u))];
    }
    skip(entry & 15u);
    return entry;
}

fn next_distance() -> u32 {
    let entry = distances[peek() & ((1u << frame.distance_bits) - 1u) & (DISTANCES - 1u)];
    skip(entry & 15u);
    return max((entry >> 8u) + take((entry >> 4u) & 15u), 1u);
}

// Where a match's bytes come from.
const NEAR = 0u;        // the four bytes before, which may repeat
const RECENT = 1u;      // the recent words of the row, or of the one above; the next bytes are in whole words already
const NOWHERE = 2u;     // what no file of ours asks for: zeros

/// Four bytes of the recent words of a thread's row, from a byte of the row on.
fn recent_bytes(thread: u32, byte: u32) -> u32 {
    let word = byte >> 2u;
    let shift = (byte & 3u) * 8u;
    let base = thread * RECENT_WORDS;
    let first = recent[base + word % RECENT_WORDS];
    let second = recent[base + (word + 1u) % RECENT_WORDS];
    return (first >> shift) | ((second << 1u) << (31u - shift));
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn inflate_rows(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    // Of a short code, the table that goes by more bits has the same entry many times.
    let fast_mask = min(1u << frame.literal_bits, FAST_SIZE) - 1u;
    for (var i = thread; i < FAST_SIZE; i += WORKGROUP_SIZE) {
        let entry = tables[DISTANCES + (i & fast_mask)];
        fast[i] = select(0u, entry, (entry & 15u) <= FAST_BITS);
    }
    for (var i = thread; i < DISTANCES; i += WORKGROUP_SIZE) {
        distances[i] = tables[i];
    }
    workgroupBarrier();

    let row = group.x * STRIPE_ROWS + thread;
    let part = group.y;
    let row_start = row * frame.row_words;
    let above = thread - min(thread, 1u);
    let row_end = ROW_PADDING + frame.row_bytes;        // these are all bytes from the row's first word on
    let start = select(ROW_PADDING, frame.cut, part == 1u);
    var end = select(frame.cut, row_end, part == 1u);
    if (row >= frame.height) {
        end = start;
    }
    if (start < end) {
        let bit = part_bits[select(row, 2u * row + part, frame.cut < row_end)];
        let word = bit >> 5u;
        low = stream_word(word);
        high = stream_word(word + 1u);
        ahead = stream_word(word + 2u);
        next_word = word + 3u;
        used = bit & 31u;
    }

    var at = start;                 // bytes that are there
    var pending = 0u;               // those of the word that is being filled
    var last = 0u;                  // the word before it
    var copying = 0u;               // bytes of a match that are not there yet
    var source_kind = NEAR;
    var distance = 1u;
    var repeated = 0u;              // times this, the bytes that repeat are four
    var source = thread;
    for (var step = 0u; step < frame.steps; step++) {
        let turn = i32(step) - i32(frame.lag * thread);
        let limit = min(end, start + u32(max(turn + 1, 0)) * frame.step_bytes);
        while (at < limit) {
            let shift = (at & 3u) * 8u;
            let word = at >> 2u;
            var bits = 0u;
            var count = 1u;
            if (copying == 0u) {
                let entry = next_literal();
                bits = entry >> 8u;
                if ((entry & IS_MATCH) != 0u) {
                    copying = bits + take((entry >> 4u) & 7u);
                    distance = next_distance();
                    bits = 0u;
                    count = 0u;
                    source_kind = NOWHERE;
                    if (distance <= min(at - start, REACH_BACK)) {
                        source_kind = RECENT;
                        source = thread;
                        if (distance <= 4u) {
                            source_kind = NEAR;
                            repeated = 1u | select(0u, 0x10000u, distance < 3u) | select(0u, 0x01000100u, distance == 1u)
                                | select(0u, 0x01000000u, distance == 3u);
                        }
                    } else if (thread > 0u && distance <= frame.row_bytes + REACH && distance + REACH >= frame.row_bytes) {
                        // To the left of what is to be filled, or to the right where it wraps around.
                        source_kind = RECENT;
                        source = above;
                        distance -= frame.row_bytes;
                    }
                } else {
                    // Often another one follows, which saves all threads a turn.
                    let next = fast[peek() & (FAST_SIZE - 1u)];
                    if (next != 0u && (next & IS_MATCH) == 0u && (at & 3u) < 3u && at + 1u < end) {
                        skip(next & 15u);
                        bits |= (next >> 8u) << 8u;
                        count = 2u;
                    }
                }
            } else {
                count = min(min(4u - (at & 3u), copying), end - at);
                if (source_kind == NEAR) {
                    let before = (last >> shift) | ((pending << 1u) << (31u - shift));
                    bits = (before >> (32u - 8u * distance)) * repeated;
                } else if (source_kind == RECENT) {
                    bits = recent_bytes(source, at - distance);
                }
                bits &= 0xffffffffu >> (32u - 8u * count);
                copying -= count;
            }
            pending |= bits << shift;
            at += count;
            if (at >> 2u != word || at == end) {
                rows[row_start + word] = pending;
                recent[thread * RECENT_WORDS + word % RECENT_WORDS] = pending;
                last = pending;
                pending = 0u;
            }
        }
        workgroupBarrier();
    }
}
