// Stage 1: Huffman code to a list of the coefficients that are not zero, one thread per entry of the index.
//
// in:       the stuffed stream; of every entry the bit position and the first segment; the Huffman tables
// out:      `list`: the coefficients, with DC summed up from the entry's start
//           `segments`: where each segment's part of the list begins, and its entry << SEGMENT_ENTRY_SHIFT | its length; if chroma
//           is subsampled, these are luma's, and the same of chroma follows, without the entry
//           `entry_dc`: what each entry adds to DC of Y, Cb and Cr
// dispatch: entries * frame.threads_per_entry / 128, 128 threads
// moves:    the stream once, 4 bytes per coefficient
//
// Nothing here is parallel but the entries, of which there are a few thousand: a GPU has room for many more threads, so what counts is
// how long one symbol takes. It takes one lookup, in workgroup memory: the next 10 bits tell the length of the code, how many zeros
// it stands for, and how many bits of the level follow. All threads go through one loop, a symbol at a time, whatever the symbol
// is: with a loop per block inside, neighbours would wait for each other at the end of every block. Where the end of the block follows
// a level within the 10 bits, it is taken with it, which saves a third of all steps, and half in a flat picture.
//
// The list needs no allocation: an entry's part begins at half its bit position plus the blocks before it, since a coefficient takes at
// least two bits (a code and a sign) and DC one element per block. So the parts cannot meet. Subsampled chroma, which another stage
// takes, goes from the part's end backwards. The bytes come from outside: the loop is bounded by the frame's size, every
// access by the buffers' sizes, whatever they say.

#import decoder_frame

const WORKGROUP_SIZE = 128u;
const FAST_BITS = 10u;
const FAST_WORDS = 1024u;       // of a table
const ALL_FAST_WORDS = 4096u;   // DC luma, AC luma, DC chroma, AC chroma
// What a table says about the next bits: bits 0-4 the length of code and level; 5-9 that length with the code for the end of the block, if
// that follows; 10-14 the length of the code alone; 15-18 that of the level; 19 whether the block ends; 20 whether there is a coefficient;
// 28-31 how many zeros come before it. All 0 stands for codes of more than FAST_BITS: what these say is at frame.long_codes plus the
// next 16 bits.
const TABLE_ENDS_BLOCK = 0x80000u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> stream: array<u32>;
@group(0) @binding(2) var<storage, read> entries: array<vec2u>;     // and one more: the end of the stream, the number of segments
@group(0) @binding(3) var<storage, read> huffman: array<u32>;       // ALL_FAST_WORDS, then a word for each 16 bits of longer codes
@group(0) @binding(4) var<storage, read_write> list: array<u32>;
@group(0) @binding(5) var<storage, read_write> segments: array<vec4u>;
@group(0) @binding(6) var<storage, read_write> entry_dc: array<vec4i>;

var<workgroup> fast: array<u32, ALL_FAST_WORDS>;

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
fn skip(bits: u32) {
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
    skip(position & 7u);
}

fn next_of_mcu(block: u32) -> u32 {
    return select(block + 1u, 0u, block + 1u == BLOCKS_PER_MCU);
}

/// Where the table for DC of the nth block of an MCU begins; that for AC follows it.
fn dc_table_of(block: u32) -> u32 {
    return select(2u * FAST_WORDS, 0u, component_of(block) == 0u);
}

/// What a table says about the next bits, if their code is short.
fn look_up(table: u32) -> u32 {
    return fast[(table | (window >> (32u - FAST_BITS))) & (ALL_FAST_WORDS - 1u)];
}

/// Where an entry's part of the list begins.
fn list_start(entry: vec2u) -> u32 {
    let row = entry.y / frame.segments_per_row;
    let mcu = row * frame.mcus_per_row + (entry.y % frame.segments_per_row) * MCUS_PER_SEGMENT;
    return (entry.x >> 1u) + mcu * BLOCKS_PER_MCU;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn huffman_decode(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    // All loads are written before the first store, so that they are under way together.
#unroll k 0..32
    let words$$k = huffman[$k * WORKGROUP_SIZE + thread];
#end
#unroll k 0..32
    fast[$k * WORKGROUP_SIZE + thread] = words$$k;
#end
    workgroupBarrier();

    // Threads of a subgroup wait for what their neighbours do, so some stay idle where entries are few.
    let entry = (group.x * WORKGROUP_SIZE + thread) / frame.threads_per_entry;
    if (thread % frame.threads_per_entry != 0u || entry >= frame.entries) {
        return;
    }
    let here = entries[entry];
    let next = entries[entry + 1u];
    let first_mcu = (here.y % frame.segments_per_row) * MCUS_PER_SEGMENT;
    let mcus = (next.y - here.y) * MCUS_PER_SEGMENT;
    seek(here.x);

    var element_block = (first_mcu * BLOCKS_PER_MCU) << ELEMENT_BLOCK_SHIFT;
    var segment = here.y;
    var at = list_start(here);
    var segment_start = at;
    var chroma_end = list_start(next);
    var segment_chroma_end = chroma_end;
    var blocks_left = min(mcus, frame.mcus_per_row - first_mcu) * BLOCKS_PER_MCU;
    var block = 0u;             // of the segment
    var block_of_mcu = 0u;
    var z = 0u;                 // zigzag position
    var dc = vec3i(0);          // of the component that is being decoded and of those to come
    var is_dc = true;
    var table = 0u;
    var ac_table = FAST_WORDS;
    var next_dc_table = dc_table_of(1u % BLOCKS_PER_MCU);
    var word = look_up(table);
    while (blocks_left > 0u) {
        if (word == 0u) {
            word = huffman[frame.long_codes[table / FAST_WORDS] + (window >> 16u)];
        }
        let zeros = word >> 28u;
        let size = (word >> 15u) & 15u;
        let has_coefficient = (word >> 20u) & 1u;
        // No code for the end follows the last position.
        let is_last = zeros >= 63u - z;
        z += zeros;
        let ends_block = is_last || (word & TABLE_ENDS_BLOCK) != 0u;
        let extra = window << ((word >> 10u) & 31u);
        skip(select(word >> 5u, word, is_last) & 31u);
        // The next symbol's lookup is on its way while this one's level is dealt with.
        table = select(ac_table, next_dc_table, ends_block);
        word = look_up(table);

        var level = i32((extra >> 1u) >> (31u - size));
        level -= select(0, i32((1u << size) - 1u), extra < 0x80000000u);
        // DC is the difference to the block before of the same component.
        dc.x += select(0, level, is_dc);
        level = select(level, dc.x, is_dc);
        // Where there is no coefficient, the next one takes this place; an entry's part has room for one more. A broken file may go
        // beyond position 63; whoever reads the list takes 6 bits for the position.
        let is_apart = SUBSAMPLED && component_of(block_of_mcu) > 0u;
        list[select(at, chroma_end - 1u, is_apart)] = element_block | ((z & 63u) << 16u) | (u32(level) & 0xffffu);
        at += select(has_coefficient, 0u, is_apart);
        chroma_end -= select(0u, has_coefficient, is_apart);
        // All of this is cheaper for everyone than a branch is that one of the neighbours takes.
        is_dc = ends_block;
        z = select(z + 1u, 0u, ends_block);
        let step = select(0u, 1u, ends_block);
        block += step;
        element_block += step << ELEMENT_BLOCK_SHIFT;
        blocks_left -= step;
        let next_block = next_of_mcu(block_of_mcu);
        let turns = ends_block && component_of(next_block) != component_of(block_of_mcu);
        dc = select(dc, dc.yzx, turns);
        block_of_mcu = select(block_of_mcu, next_block, ends_block);
        ac_table = dc_table_of(block_of_mcu) + FAST_WORDS;
        next_dc_table = dc_table_of(next_of_mcu(block_of_mcu));
        if (block == SEGMENT_BLOCKS || blocks_left == 0u) {
            segments[segment] = vec4u(
                segment_start, (entry << SEGMENT_ENTRY_SHIFT) | (at - segment_start),
                chroma_end, segment_chroma_end - chroma_end,
            );
            segment += 1u;
            segment_start = at;
            segment_chroma_end = chroma_end;
            block = 0u;
        }
    }
    // A whole number of MCUs: Y is first again.
    entry_dc[entry] = vec4i(dc, 0);
}
