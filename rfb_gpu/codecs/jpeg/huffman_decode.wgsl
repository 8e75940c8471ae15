// Stage 1: Huffman code to a list of the coefficients that are not zero, one thread per entry of the index.
//
// in:       the stuffed stream; of every entry the bit position and the first segment; the Huffman tables
// out:      `list`: block in its segment << 22 | zigzag position << 16 | level, with DC summed up from the entry's start
//           `segments`: where each segment's part of the list begins, and its entry << 11 | its length
//           `entry_dc`: what each entry adds to DC of Y, Cb and Cr, and its first segment
// dispatch: entries / ENTRIES_PER_WORKGROUP, 64 threads
// moves:    the stream once, 4 bytes per coefficient
//
// Nothing here is parallel but the entries, of which there are a few thousand: a GPU has room for many more threads, so what counts is
// how long one symbol takes. It takes one lookup, in workgroup memory: the next 10 bits tell the length of the code, how many zeros
// it stands for, and how many bits of the level follow. All threads go through one loop, a symbol at a time, whatever the symbol
// is: with a loop per block inside, neighbours would wait for each other at the end of every block.
//
// The list needs no allocation: an entry's part begins at half its bit position plus the blocks before it. A coefficient takes at least
// two bits (a code and a sign) and DC one element per block, so the parts cannot meet. The bytes come from outside: the loop is
// bounded by the frame's size, every access by a capacity, whatever they say.

#import decoder_frame

const WORKGROUP_SIZE = 64u;
// Where entries are few, threads that have a subgroup to themselves need not wait for what their neighbours do: more subgroups, of
// which only some threads work.
const THREADS_PER_ENTRY = WORKGROUP_SIZE / ENTRIES_PER_WORKGROUP;

const FAST_BITS = 10u;
const FAST_SIZE = 1024u;
const FAST_WORDS = 4096u;       // DC luma, AC luma, DC chroma, AC chroma
// What a table says about the next bits: bits 0-4 the length of code and level together, 5-8 that of the level alone, 9-15 how many
// positions to go on before it, bit 16 whether there is a coefficient. A length of 0 stands for codes of more than FAST_BITS: the
// other bits then say where the words for the next 6 bits begin.
const TABLE_LENGTH = 0x1fu;
const TABLE_COEFFICIENT = 0x10000u;
const TABLE_POINTER_SHIFT = 5u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> stream: array<u32>;
@group(0) @binding(2) var<storage, read> entries: array<vec2u>;     // and one more, whose first segment is the number of segments
@group(0) @binding(3) var<storage, read> huffman: array<vec4u>;     // FAST_WORDS, then the words of the longer codes
@group(0) @binding(4) var<storage, read_write> list: array<u32>;
@group(0) @binding(5) var<storage, read_write> segments: array<vec2u>;
@group(0) @binding(6) var<storage, read_write> entry_dc: array<vec4i>;

var<workgroup> fast: array<u32, FAST_WORDS>;

// The next bits of the stream, without stuffing, first bit highest, and how many of the 64 are there.
var<private> window: u32;
var<private> window_rest: u32;
var<private> window_bits: u32;
// The next word as it stands in the stream, asked for ahead of its use; and whether its first byte is a stuffed one.
var<private> ahead: u32;
var<private> next_word: u32;
var<private> begins_stuffed: u32;

fn look_ahead() {
    next_word += 1u;
    ahead = 0u;
    if (next_word < frame.stream_words) {
        ahead = stream[next_word];
    }
}

/// Puts bits behind the window, which has fewer than 32.
fn append(bits: u32, count: u32) {
    window |= bits >> window_bits;
    window_rest = (bits << 1u) << (31u - window_bits);      // a shift by 32 is not defined
    window_bits += count;
}

/// Fills the window to 32 bits or more, byte by byte, from a byte of the word ahead on.
fn take_bytes(first_byte: u32) {
    var shift = first_byte * 8u;
    while (window_bits < 32u) {
        var bits = 0u;
        var count = 0u;
        for (; shift < 32u; shift += 8u) {
            // The byte after 0xFF is stuffed. Were it a marker's, nothing after it would be read.
            let byte = (ahead >> shift) & 0xffu;
            if (begins_stuffed != 0u) {
                begins_stuffed = 0u;
            } else {
                bits |= byte << (24u - count);
                count += 8u;
                begins_stuffed = u32(byte == 0xffu);
            }
        }
        append(bits, count);
        look_ahead();
        shift = 0u;
    }
}

/// Drops up to 31 bits, and sees to it that 32 are there.
fn consume(bits: u32) {
    window = (window << bits) | ((window_rest >> 1u) >> (31u - bits));
    window_rest <<= bits;
    window_bits -= bits;
    if (window_bits < 32u) {
        let has_ff = (~ahead - 0x01010101u) & ahead & 0x80808080u;
        if ((has_ff | begins_stuffed) == 0u) {
            let halves = (ahead << 16u) | (ahead >> 16u);
            append(((halves << 8u) & 0xff00ff00u) | ((halves >> 8u) & 0x00ff00ffu), 32u);
            look_ahead();
        } else {
            take_bytes(0u);
        }
    }
}

/// Starts at a bit position of the stream.
fn seek(position: u32) {
    window = 0u;
    window_rest = 0u;
    window_bits = 0u;
    begins_stuffed = 0u;
    next_word = (position >> 5u) - 1u;
    look_ahead();
    take_bytes((position >> 3u) & 3u);
    consume(position & 7u);
}

fn next_of_mcu(block: u32) -> u32 {
    return select(block + 1u, 0u, block + 1u == BLOCKS_PER_MCU);
}

/// Where the table for DC of the nth block of an MCU begins; that for AC follows it.
fn dc_table_of(block: u32) -> u32 {
    return select(2u * FAST_SIZE, 0u, component_of(block) == 0u);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn huffman_decode(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    // All loads are written before the first store, so that they are under way together.
#unroll k 0..16
    let words$$k = huffman[$k * WORKGROUP_SIZE + thread];
#end
#unroll k 0..16
#unroll c 0..4
    fast[($k * WORKGROUP_SIZE + thread) * 4u + $c] = words$$k[$c];
#end
#end
    workgroupBarrier();

    let entry = group.x * ENTRIES_PER_WORKGROUP + thread / THREADS_PER_ENTRY;
    if (thread % THREADS_PER_ENTRY != 0u || entry >= frame.entries) {
        return;
    }
    let position = entries[entry].x;
    let first_segment = entries[entry].y;
    let row = first_segment / frame.segments_per_row;
    let first_mcu = (first_segment % frame.segments_per_row) * MCUS_PER_SEGMENT;
    let mcus = (entries[entry + 1u].y - first_segment) * MCUS_PER_SEGMENT;
    seek(position);

    var at = (position >> 1u) + (row * frame.mcus_per_row + first_mcu) * BLOCKS_PER_MCU;
    var segment = first_segment;
    var segment_start = at;
    var blocks_left = min(mcus, frame.mcus_per_row - first_mcu) * BLOCKS_PER_MCU;
    var block = 0u;             // of the segment
    var block_of_mcu = 0u;
    var z = 0u;                 // zigzag position
    var dc = vec3i(0);          // of the component that is being decoded and of those to come
    var is_dc = true;
    var ac_table = FAST_SIZE;
    var next_dc_table = dc_table_of(1u % BLOCKS_PER_MCU);
    var word = fast[window >> (32u - FAST_BITS)];
    while (blocks_left > 0u) {
        if ((word & TABLE_LENGTH) == 0u) {
            let place = (word >> TABLE_POINTER_SHIFT) + ((window >> 16u) & 63u);
            word = huffman[place >> 2u][place & 3u];
        }
        let length = word & TABLE_LENGTH;
        let size = (word >> 5u) & 15u;
        let extra = window << (length - size);
        let has_coefficient = (word & TABLE_COEFFICIENT) != 0u;
        z += (word >> 9u) & 127u;
        let ends_block = z >= 63u;
        consume(length);
        // The next symbol's lookup is on its way while this one's level is dealt with.
        word = fast[select(ac_table, next_dc_table, ends_block) + (window >> (32u - FAST_BITS))];

        var level = i32((extra >> 1u) >> (31u - size));
        if (extra < 0x80000000u) {
            level -= i32((1u << size) - 1u);
        }
        if (is_dc) {
            // The difference to the block before of the same component.
            dc.x += level;
            level = dc.x;
        }
        // A broken file may go beyond position 63. Whoever reads the list takes 6 bits for the position and no block that is not there.
        if (has_coefficient && at < frame.list_words) {
            list[at] = (((block << 6u) | z) << 16u) | (u32(level) & 0xffffu);
            at += 1u;
        }
        z += 1u;
        is_dc = ends_block;
        if (ends_block) {
            z = 0u;
            block += 1u;
            blocks_left -= 1u;
            let component = component_of(block_of_mcu);
            block_of_mcu = next_of_mcu(block_of_mcu);
            if (component_of(block_of_mcu) != component) {
                dc = dc.yzx;
            }
            ac_table = next_dc_table + FAST_SIZE;
            next_dc_table = dc_table_of(next_of_mcu(block_of_mcu));
            if (block == SEGMENT_BLOCKS || blocks_left == 0u) {
                segments[segment] = vec2u(segment_start, (entry << SEGMENT_ENTRY_SHIFT) | (at - segment_start));
                segment += 1u;
                segment_start = at;
                block = 0u;
            }
        }
    }
    // A whole number of MCUs: Y is first again.
    entry_dc[entry] = vec4i(dc, i32(first_segment));
}
