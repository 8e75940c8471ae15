// Stage 1 of 2: the compressed stream to rows of bytes, a thread per row, a workgroup per stripe.
//
// in:       the zlib stream; the bit where each row begins; what its codes say
// out:      `rows`
// dispatch: (stripes), 64 threads
// moves:    the stream once, each byte of the rows once, and what matches copy once more
//
// Matches may reach into the row above, a little to the right of where they are, so each row goes some steps behind the one above it. What
// the thread above has written by then, the barrier between steps makes visible. Where matches stay in their row there is one step.
//
// The bytes come from outside: each turn of the loop fills a byte or more, whatever they say, every access is checked by the host's
// compiler, and what is no code stands for a zero.

#import png_rows

const WORKGROUP_SIZE = 64u;

// What the tables say about the next bits: bits 0-3 the code's length, 4-6 (of a distance: 4-7) how many bits more follow, 7 whether it
// is the length of a match, and from 8 on the byte, or what the bits are added to.
const IS_MATCH = 0x80u;
const FAST_BITS = 10u;
const FAST_SIZE = 1024u;
const DISTANCES = 128u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> stream: array<u32>;
@group(0) @binding(2) var<storage, read> row_bits: array<u32>;
@group(0) @binding(3) var<storage, read> tables: array<u32>;    // of distances, DISTANCES words; and then of literals and lengths
@group(0) @binding(4) var<storage, read_write> rows: array<u32>;

var<workgroup> fast: array<u32, FAST_SIZE>;
var<workgroup> distances: array<u32, DISTANCES>;

// The next bits of the stream, lowest first, how many of the first word are used up, and the number of the word after them.
var<private> low: u32;
var<private> high: u32;
var<private> used: u32;
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
        high = stream_word(next_word);
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

/// Four bytes from a byte of `rows` on.
fn four_bytes(at: u32) -> u32 {
    let word = at >> 2u;
    let shift = (at & 3u) * 8u;
    return (rows[word] >> shift) | ((rows[word + 1u] << 1u) << (31u - shift));
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
    let stride = frame.row_words * 4u;
    let start = row * stride + ROW_PADDING;
    let has_above = thread > 0u;
    var row_end = 0u;
    if (row < frame.height) {
        row_end = frame.row_bytes;
        let bit = row_bits[row];
        low = stream_word(bit >> 5u);
        high = stream_word((bit >> 5u) + 1u);
        next_word = (bit >> 5u) + 2u;
        used = bit & 31u;
    }

    var at = 0u;            // bytes of the row that are there
    var pending = 0u;       // those of the word that is being filled
    var copying = 0u;       // bytes of a match that are not there yet
    var distance = 1u;
    // Bytes to copy one by one, until what repeats after fewer than four bytes also repeats after a multiple of that, four or more.
    var single = 0u;
    for (var step = 0u; step < frame.steps; step++) {
        let turn = i32(step) - i32(frame.lag * thread);
        let limit = min(row_end, u32(max(turn + 1, 0)) * frame.step_bytes);
        while (at < limit) {
            let byte = start + at;
            let shift = (byte & 3u) * 8u;
            var bits = 0u;
            var count = 1u;
            if (copying == 0u) {
                let entry = next_literal();
                if ((entry & IS_MATCH) == 0u) {
                    bits = entry >> 8u;
                } else {
                    copying = (entry >> 8u) + take((entry >> 4u) & 7u);
                    distance = next_distance();
                    single = select(select(0u, 2u, distance == 2u), 3u, (distance & 1u) == 1u && distance < 4u);
                    count = 0u;
                }
            } else {
                var source = byte - distance;
                var is_there = distance <= at;
                if (!is_there) {
                    // It ends as far from the row's end as it would begin before the row.
                    source = start - stride + frame.row_bytes + at - distance;
                    is_there = has_above && distance <= at + frame.row_bytes;
                }
                if (single == 0u) {
                    count = min(min(4u - (byte & 3u), copying), row_end - at);
                    bits = four_bytes(source) & (0xffffffffu >> (32u - 8u * count));
                } else {
                    // It may lie in the word that is being filled.
                    let word = select(rows[source >> 2u], pending, (source >> 2u) == (byte >> 2u));
                    bits = (word >> ((source & 3u) * 8u)) & 0xffu;
                    single--;
                    if (single == 0u) {
                        distance = select(4u, 6u, distance == 3u);
                    }
                }
                bits = select(0u, bits, is_there);
                copying -= count;
            }
            pending |= bits << shift;
            at += count;
            if (((start + at) ^ byte) >= 4u || at == row_end) {
                rows[byte >> 2u] = pending;
                pending = 0u;
            }
        }
        storageBarrier();
    }
}
