// Stage 1 of 2: Huffman code to a list of the coefficients that are not zero, one thread per entry of the index.
//
// in:       the stuffed stream; the bit position of every entry; the Huffman tables
// out:      `list`: block << 22 | zigzag position << 16 | level, with DC summed up from the entry's start
//           `segments`: where each segment's part of the list lies; `entry_dc`: what each entry adds to DC
// dispatch: entries / 64, 64 threads
// moves:    the stream once, 4 bytes per coefficient
//
// The list needs no allocation: an entry's part begins at half its bit position plus the blocks before it. A coefficient takes at least
// two bits (a code and a sign) and DC one element per block, so the parts cannot meet. The bytes come from outside: every loop is
// bounded by the frame's size, every access by a capacity, whatever they say.

#import decoder_frame

const FAST_BITS = 9u;
const FAST_SIZE = 512u;
// A table: FAST_SIZE words by the next 9 bits (length << 8 | symbol, 0 for longer codes); then for each length 1..16 the first
// 16-bit window that is too large for it, and what to add to a code for its symbol's place; then the symbols.
const TABLE_LIMITS = FAST_SIZE;
const TABLE_OFFSETS = 528u;
const TABLE_SYMBOLS = 544u;
const TABLE_WORDS = 800u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> stream: array<u32>;
@group(0) @binding(2) var<storage, read> entries: array<u32>;
@group(0) @binding(3) var<storage, read> huffman: array<u32>;       // DC luma, AC luma, DC chroma, AC chroma
@group(0) @binding(4) var<storage, read_write> list: array<u32>;
@group(0) @binding(5) var<storage, read_write> segments: array<vec2u>;
@group(0) @binding(6) var<storage, read_write> entry_dc: array<vec4i>;

var<private> next_byte: u32;
var<private> window: u32;           // the next bits, first bit highest
var<private> window_bits: u32;

fn byte_at(position: u32) -> u32 {
    if (position >= frame.stream_bytes) {
        return 0u;
    }
    return (stream[position >> 2u] >> ((position & 3u) * 8u)) & 0xffu;
}

/// Fills the window up to 25 bits or more. After 0xFF comes a stuffed byte; a marker's second byte is never reached.
fn refill() {
    while (window_bits <= 24u) {
        let byte = byte_at(next_byte);
        next_byte += select(1u, 2u, byte == 0xffu);
        window |= byte << (24u - window_bits);
        window_bits += 8u;
    }
}

fn skip(bits: u32) {
    window <<= bits;
    window_bits -= bits;
}

fn next_symbol(table: u32) -> u32 {
    refill();
    let start = table * TABLE_WORDS;
    let fast = huffman[start + (window >> (32u - FAST_BITS))];
    if (fast != 0u) {
        skip(fast >> 8u);
        return fast & 0xffu;
    }
    let code = window >> 16u;
    for (var length = FAST_BITS + 1u; length <= 16u; length++) {
        if (code < huffman[start + TABLE_LIMITS + length - 1u]) {
            let place = (code >> (16u - length)) + huffman[start + TABLE_OFFSETS + length - 1u];
            skip(length);
            return huffman[start + TABLE_SYMBOLS + (place & 0xffu)] & 0xffu;
        }
    }
    skip(16u);      // no such code
    return 0u;
}

/// A level of the given size from its extra bits.
fn next_level(size: u32) -> i32 {
    if (size == 0u) {
        return 0;
    }
    refill();
    let bits = i32(window >> (32u - size));
    skip(size);
    return select(bits, bits - i32((1u << size) - 1u), bits < i32(1u << (size - 1u)));
}

@compute @workgroup_size(64)
fn huffman_decode(@builtin(global_invocation_id) id: vec3u) {
    let entry = id.x;
    if (entry >= frame.entries_per_row * frame.rows) {
        return;
    }
    let row = entry / frame.entries_per_row;
    let first_mcu = (entry % frame.entries_per_row) * frame.mcus_per_entry;
    let mcus = min(frame.mcus_per_entry, frame.mcus_per_row - first_mcu);

    let position = entries[entry];
    next_byte = position >> 3u;
    window = 0u;
    window_bits = 0u;
    refill();
    skip(position & 7u);

    var at = (position >> 1u) + (row * frame.mcus_per_row + first_mcu) * BLOCKS_PER_MCU;
    var segment = row * frame.segments_per_row + first_mcu / MCUS_PER_SEGMENT;
    var segment_start = at;
    var block = 0u;                 // within the segment
    var dc = array<i32, 3>(0, 0, 0);
    for (var n = 0u; n < mcus * BLOCKS_PER_MCU; n++) {
        let component = component_of(block);
        let table = select(2u, 0u, component == 0u);
        dc[component] += next_level(min(next_symbol(table), 15u));
        if (at < frame.list_words) {
            list[at] = (block << 22u) | (u32(dc[component]) & 0xffffu);
        }
        at += 1u;
        for (var z = 1u; z < 64u; z++) {
            let symbol = next_symbol(table + 1u);
            let size = symbol & 15u;
            if (size == 0u) {
                if (symbol != 0xf0u) {
                    break;          // end of block
                }
                z += 15u;           // 16 zeros
                continue;
            }
            z += symbol >> 4u;
            let level = next_level(size);
            if (z < 64u && at < frame.list_words) {
                list[at] = (block << 22u) | (z << 16u) | (u32(level) & 0xffffu);
                at += 1u;
            }
        }
        block += 1u;
        if (block == SEGMENT_BLOCKS || n + 1u == mcus * BLOCKS_PER_MCU) {
            segments[segment] = vec2u(segment_start, at - segment_start);
            segment += 1u;
            segment_start = at;
            block = 0u;
        }
    }
    entry_dc[entry] = vec4i(dc[0], dc[1], dc[2], 0);
}
