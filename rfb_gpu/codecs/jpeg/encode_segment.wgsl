// Stage 1 of 3: pixels to Huffman code, one workgroup per segment, one thread per block.
//
// in:       the texture; the tables
// out:      `scratch`: each segment's code, MSB first in 32-bit words, at a place of its own; `records`: where and how long
// dispatch: (segments_per_row, rows), 32 threads for 24 blocks
// moves:    the pixels once (plus one MCU a segment, from cache), the code once
//
// A thread holds its block's 64 coefficients in registers, so both passes of the DCT need no exchange and no barrier. What
// threads share goes through workgroup memory: samples in, the DC of the block before, the lengths. There is little of it, since
// it decides how many workgroups a GPU keeps under way.
//
// The code of a block depends on its own coefficients and on one number from outside: the DC of the block before it. At a
// segment's start that block belongs to another workgroup, so its DC is computed again from its samples. Samples are whole
// numbers (sums of four for subsampled chroma) and DC is a sum without rounding, so both workgroups get the identical number.
//
// `scratch` must be zero: neighbouring blocks share words, so code is put in by atomicOr. write_stream leaves it zero again.

#import encoder_frame
#import colour
#import dct
#import scan

const WORKGROUP_SIZE = 32u;
const BLOCK_WORDS = 33u;        // 64 samples as pairs of f16, padded by one so that blocks begin in different banks
const SHARED_WORDS = 1024u;     // 32 for each thread

struct Tables {
    reciprocal: array<f32, 128>,    // 1 / (quantiser * AAN scale * samples summed), zigzag order, luma then chroma
    ac: array<u32, 512>,            // code << 5 | length by symbol, luma then chroma
    dc: array<u32, 32>,             // likewise by size
    // A block whose levels are all below this, DC aside, takes at most 16 bits a coefficient. So its code, at 32 bits a word, never
    // overtakes the levels that are still to be read, at two to a word.
    safe_level: u32,
}

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var source: texture_2d<f32>;
@group(0) @binding(2) var<storage, read> tables: Tables;
@group(0) @binding(3) var<storage, read_write> scratch: array<atomic<u32>>;
@group(0) @binding(4) var<storage, read_write> records: array<Record>;
@group(0) @binding(5) var<storage, read_write> result: array<atomic<u32>>;

// First the samples by block, then by thread: word k * 32 + thread has the thread's levels at zigzag positions 2k (low half) and
// 2k + 1, and later word k of its code.
var<workgroup> words: array<u32, SHARED_WORDS>;
var<workgroup> left_dc: array<atomic<i32>, 3>;         // sample sums of the blocks left of the segment
var<workgroup> scratch_start: u32;

fn texel(at: vec2u) -> vec3f {
    return textureLoad(source, frame.origin + min(at, vec2u(frame.width, frame.height) - 1u), 0).rgb;
}

fn rgb_from(linear: vec3f) -> vec3i {
    var rgb = linear;
    if (LINEAR_SOURCE) {
        // An -srgb texture gives linear values. This brings its 8-bit numbers back, exactly.
        rgb = srgb_encode(rgb);
    }
    return vec3i(round(rgb * 255.0));
}

fn pixel(at: vec2u) -> vec3i {
    return rgb_from(texel(at));
}

fn put_pair(block: u32, y: u32, pair: u32, samples: vec2i) {
    words[block * BLOCK_WORDS + y * 4u + pair] = pack2x16float(vec2f(samples));
}

fn put_pixels(block: u32, y: u32, pair: u32, a: vec3i, b: vec3i) {
    let chroma_a = chroma_of(a);
    let chroma_b = chroma_of(b);
    put_pair(block, y, pair, vec2i(luma_of(a), luma_of(b)));
    put_pair(block + 1u, y, pair, vec2i(chroma_a.x, chroma_b.x));
    put_pair(block + 2u, y, pair, vec2i(chroma_a.y, chroma_b.y));
}

/// Loads four pixels side by side at a time.
fn load_444(thread: u32, corner: vec2u) {
    for (var i = thread; i < MCUS_PER_SEGMENT * 16u; i += WORKGROUP_SIZE) {
        let column = i % (MCUS_PER_SEGMENT * 2u);
        let y = i / (MCUS_PER_SEGMENT * 2u);
        let at = corner + vec2u(column * 4u, y);
        // All four are written before the first is used, so that they are under way together.
        let t0 = texel(at);
        let t1 = texel(at + vec2u(1u, 0u));
        let t2 = texel(at + vec2u(2u, 0u));
        let t3 = texel(at + vec2u(3u, 0u));
        let block = (column >> 1u) * 3u;
        let pair = (column & 1u) << 1u;
        put_pixels(block, y, pair, rgb_from(t0), rgb_from(t1));
        put_pixels(block, y, pair + 1u, rgb_from(t2), rgb_from(t3));
    }
}

/// Loads 4x2 pixels at a time: four pairs of luma, and a pair of each chroma as sums of four.
fn load_420(thread: u32, corner: vec2u) {
    for (var i = thread; i < MCUS_PER_SEGMENT * 32u; i += WORKGROUP_SIZE) {
        let column = i % (MCUS_PER_SEGMENT * 4u);
        let y = i / (MCUS_PER_SEGMENT * 4u);
        let mcu = (column >> 2u) * 6u;
        let luma = mcu + ((y >> 2u) << 1u) + ((column >> 1u) & 1u);
        let at = corner + vec2u(column * 4u, y * 2u);
        // Below the frame, luma repeats the last row of pixels, and chroma its own last row: that of the last two rows.
        let is_below = at.y > last_chroma_row();
        let upper = vec2u(at.x, min(at.y, last_chroma_row()));
        let t0 = texel(upper);
        let t1 = texel(upper + vec2u(1u, 0u));
        let t2 = texel(upper + vec2u(2u, 0u));
        let t3 = texel(upper + vec2u(3u, 0u));
        let t4 = texel(upper + vec2u(0u, 1u));
        let t5 = texel(upper + vec2u(1u, 1u));
        let t6 = texel(upper + vec2u(2u, 1u));
        let t7 = texel(upper + vec2u(3u, 1u));
        let row = (y & 3u) << 1u;
        let pair = (column & 1u) << 1u;
        let chroma_a = put_luma(luma, row, pair, rgb_from(t0), rgb_from(t1), rgb_from(t4), rgb_from(t5), is_below);
        let chroma_b = put_luma(luma, row, pair + 1u, rgb_from(t2), rgb_from(t3), rgb_from(t6), rgb_from(t7), is_below);
        put_pair(mcu + 4u, y, column & 3u, vec2i(chroma_a.x, chroma_b.x));
        put_pair(mcu + 5u, y, column & 3u, vec2i(chroma_a.y, chroma_b.y));
    }
}

/// The upper one of the two rows of pixels that the frame's last row of chroma stands for.
fn last_chroma_row() -> u32 {
    return (frame.height - 1u) & 0xfffffffeu;
}

/// Puts the luma of 2x2 pixels, or below the frame of the lower two twice; gives the sum of the chroma of all four.
fn put_luma(block: u32, y: u32, pair: u32, a: vec3i, b: vec3i, c: vec3i, d: vec3i, is_below: bool) -> vec2i {
    let lower = vec2i(luma_of(c), luma_of(d));
    put_pair(block, y, pair, select(vec2i(luma_of(a), luma_of(b)), lower, is_below));
    put_pair(block, y + 1u, pair, lower);
    return chroma_of(a) + chroma_of(b) + chroma_of(c) + chroma_of(d);
}

/// In 4:2:0, whether a luma block lies beyond the frame's right or lower edge. Such blocks are never seen; they get the DC
/// of the block coded before and no AC, which is the shortest code.
fn is_beyond(corner: vec2u, block: u32) -> bool {
    let component = block % 6u;
    let at = corner + vec2u((block / 6u) * 16u + (component & 1u) * 8u, (component >> 1u) * 8u);
    return SUBSAMPLED && component < 4u && any(at >= vec2u(frame.width, frame.height));
}

/// The block whose DC stands for this luma block's: itself, or the last one before it that is in the frame.
fn dc_source(corner: vec2u, block: u32) -> u32 {
    var source = block;
    while (is_beyond(corner, source)) {
        source -= 1u;
    }
    return source;
}

/// Sums the samples of the last luma and the two chroma blocks of the MCU left of the segment.
fn sum_left_mcu(thread: u32, corner: vec2u) {
    var luma = 0;
    var chroma = vec2i(0);
    if (SUBSAMPLED) {
        // A row of 8 pixels. Block 3; in a last row whose lower half is beyond the frame, block 1 stands for it.
        let row = thread >> 1u;
        let x = corner.x - 16u + (thread & 1u) * 8u;
        let chroma_row = min(corner.y + (row & 14u), last_chroma_row()) + (row & 1u);
#unroll x 0..8
        let p$$x = pixel(vec2u(x + $x, chroma_row));
#end
        chroma = chroma_of(p0) + chroma_of(p1) + chroma_of(p2) + chroma_of(p3)
            + chroma_of(p4) + chroma_of(p5) + chroma_of(p6) + chroma_of(p7);
        let is_lower = select(0u, 1u, corner.y + 8u < frame.height);
        if ((thread & 1u) == 1u && (row >> 3u) == is_lower) {
            if (corner.y + 16u <= frame.height) {
                luma = luma_of(p0) + luma_of(p1) + luma_of(p2) + luma_of(p3) + luma_of(p4) + luma_of(p5) + luma_of(p6) + luma_of(p7);
            } else {
                // The frame's last row of MCUs: below the frame, luma and chroma come from different rows.
                for (var k = 0u; k < 8u; k++) {
                    luma += luma_of(pixel(vec2u(x + k, corner.y + row)));
                }
            }
        }
    } else {
        let at = vec2u(corner.x - 8u + (thread & 3u) * 2u, corner.y + (thread >> 2u));
        let a = pixel(at);
        let b = pixel(at + vec2u(1u, 0u));
        luma = luma_of(a) + luma_of(b);
        chroma = chroma_of(a) + chroma_of(b);
    }
    atomicAdd(&left_dc[0], luma);
    atomicAdd(&left_dc[1], chroma.x);
    atomicAdd(&left_dc[2], chroma.y);
}

/// The number of bits of a level's magnitude: its "size" or category in the standard.
fn size_of(level: i32) -> u32 {
    return 32u - countLeadingZeros(u32(abs(level)));
}

/// A code word and its extra bits in one number: bits << 5 | length. At most 16 + 10 bits for AC, 11 + 11 for DC.
fn symbol_of(packed_code: u32, level: i32, size: u32) -> u32 {
    let extra = u32(level + (level >> 31u)) & low_bits(size);
    return ((((packed_code >> 5u) << size) | extra) << 5u) | ((packed_code & 31u) + size);
}

var<private> present: vec2u;        // bit k of the 64: the level at zigzag position k is not zero

// The code of this thread's block, as it grows.
var<private> pending: u32;          // bits of the word that is being filled, first bit highest
var<private> length: u32;           // bits in all, from where the first word begins
var<private> last_position: u32;

// What becomes of a word that is full.
const TO_WORDS = 0u;                // over the block's levels
const TO_NOWHERE = 1u;              // only the length is wanted
const TO_SCRATCH = 2u;              // to its place in `scratch`

fn append(symbol: u32, sink: u32, base: u32) {
    let count = symbol & 31u;
    let bits = symbol >> 5u;
    let end = (length & 31u) + count;
    if (end < 32u) {
        pending |= bits << (32u - end);
    } else {
        let word = pending | (bits >> (end - 32u));
        if (sink == TO_WORDS) {
            words[(length >> 5u) * WORKGROUP_SIZE + base] = word;
        } else if (sink == TO_SCRATCH) {
            put_scratch(base + (length >> 5u), word);
        }
        // A shift by 32 is not defined; what it would leave is nothing.
        pending = select(bits << ((64u - end) & 31u), 0u, end == 32u);
    }
    length += count;
}

fn level_at(position: u32, thread: u32) -> i32 {
    let pair = words[(position >> 1u) * WORKGROUP_SIZE + thread];
    return i32(pair << (16u - ((position & 1u) << 4u))) >> 16u;
}

/// Codes the levels at the positions whose bits are set, from `first` on.
fn append_levels(positions: u32, first: u32, ac: u32, thread: u32, sink: u32, base: u32) {
    var rest = positions;
    while (rest != 0u) {
        let position = first + countTrailingZeros(rest);
        rest &= rest - 1u;
        let level = level_at(position, thread);
        var run = position - last_position - 1u;
        last_position = position;
        while (run > 15u) {
            append(tables.ac[ac + 0xf0u], sink, base);
            run -= 16u;
        }
        let size = size_of(level);
        append(symbol_of(tables.ac[ac + (run << 4u) + size], level, size), sink, base);
    }
}

/// Codes the whole block, from bit `start` of its first word on.
fn append_block(dc_symbol: u32, ac: u32, thread: u32, start: u32, sink: u32, base: u32) {
    pending = 0u;
    length = start;
    last_position = 0u;
    append(dc_symbol, sink, base);
    append_levels(present.x & 0xfffffffeu, 0u, ac, thread, sink, base);
    append_levels(present.y, 32u, ac, thread, sink, base);
    if (last_position != 63u) {
        append(tables.ac[ac], sink, base);
    }
}

fn put_scratch(word: u32, bits: u32) {
    if (bits != 0u && word < frame.scratch_words) {
        atomicOr(&scratch[word], bits);
    }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn encode_segment(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let corner = vec2u(group.x * MCUS_PER_SEGMENT, frame.first_row + group.y) * MCU_SIZE;
    let mcus = min(MCUS_PER_SEGMENT, frame.mcus_per_row - group.x * MCUS_PER_SEGMENT);
    if (thread < 3u) {
        atomicStore(&left_dc[thread], 0);
    }
    workgroupBarrier();

    // Colour.
    if (SUBSAMPLED) {
        load_420(thread, corner);
    } else {
        load_444(thread, corner);
    }
    if (group.x > 0u) {
        sum_left_mcu(thread, corner);
    }
    workgroupBarrier();

    // DCT: rows, then columns, in registers: values that have names, not places in an array, stay there.
    let block = min(thread, SEGMENT_BLOCKS - 1u);
    let component = block % BLOCKS_PER_MCU;
    let is_chroma = select(0u, 1u, component + 2u >= BLOCKS_PER_MCU);
    let samples = block * BLOCK_WORDS;
#unroll y 0..8
    let p$$y_0 = unpack2x16float(words[samples + $y * 4u]);
    let p$$y_1 = unpack2x16float(words[samples + $y * 4u + 1u]);
    let p$$y_2 = unpack2x16float(words[samples + $y * 4u + 2u]);
    let p$$y_3 = unpack2x16float(words[samples + $y * 4u + 3u]);
    let row$$y = dct8(array<f32, 8>(p$$y_0.x, p$$y_0.y, p$$y_1.x, p$$y_1.y, p$$y_2.x, p$$y_2.y, p$$y_3.x, p$$y_3.y));
#end
    workgroupBarrier();     // all samples are read: their memory is the levels' now

    // Quantise, and note which levels are not zero.
    let table = is_chroma * 64u;
    var level: array<i32, 64>;
#unroll x 0..8
    let column$$x = dct8(
        array<f32, 8>(row0[$x], row1[$x], row2[$x], row3[$x], row4[$x], row5[$x], row6[$x], row7[$x])
    );
#unroll y 0..8
    level[ZIGZAG_POSITION[$y * 8u + $x]] =
        i32(round(column$$x[$y] * tables.reciprocal[table + ZIGZAG_POSITION[$y * 8u + $x]]));
#end
#end
    var magnitude = 0u;
    present = vec2u(0u);
#unroll k 0..32
    words[$k * WORKGROUP_SIZE + thread] = (u32(level[2u * $k]) & 0xffffu) | (u32(level[2u * $k + 1u]) << 16u);
    present.x |= select(0u, 1u << $k, level[$k] != 0);
    present.y |= select(0u, 1u << $k, level[$k + 32u] != 0);
    magnitude |= select(u32(abs(level[$k])), 0u, $k == 0u) | u32(abs(level[$k + 32u]));
#end
    workgroupBarrier();

    // The code of this block, over its levels.
    let in_frame = thread < mcus * BLOCKS_PER_MCU;
    let ac = is_chroma * 256u;
    var dc_difference = 0;
    if (in_frame) {
        // The block before it in its component: in the MCU before, but for luma blocks 1 to 3 of a 4:2:0 MCU.
        var before = i32(block) - i32(BLOCKS_PER_MCU);
        if (SUBSAMPLED && is_chroma == 0u) {
            before = i32(block) - select(1, 3, component == 0u);
        }
        var before_dc = 0;
        if (before >= 0) {
            before_dc = level_at(0u, dc_source(corner, u32(before)));
        } else if (group.x > 0u) {
            let sum = f32(atomicLoad(&left_dc[select(0u, component + 3u - BLOCKS_PER_MCU, is_chroma == 1u)]));
            before_dc = i32(round(sum * tables.reciprocal[is_chroma * 64u]));
        }
        dc_difference = level_at(0u, dc_source(corner, block)) - before_dc;
        if (is_beyond(corner, block)) {
            present = vec2u(0u);
        }
    }
    workgroupBarrier();     // all have read the DC that they need
    let is_safe = magnitude < tables.safe_level;
    let dc_size = size_of(dc_difference);
    let dc_symbol = symbol_of(tables.dc[is_chroma * 16u + dc_size], dc_difference, dc_size);
    length = 0u;
    if (in_frame) {
        append_block(dc_symbol, ac, thread, 0u, select(TO_NOWHERE, TO_WORDS, is_safe), thread);
    }

    // Place: threads are in the order of the stream.
    let end = inclusive_sum(length, thread);
    let bits = workgroup_sum();
    let code_words = (bits + 31u) >> 5u;
    if (thread == 0u) {
        var start = atomicAdd(&result[RESULT_SCRATCH_USED], code_words);
        if (start + code_words > frame.scratch_words) {
            // Cannot be, by how the host sizes `scratch`. Should it be, the frame is lost, but no stage reads beyond the end.
            atomicOr(&result[RESULT_FLAGS], FLAG_OVERFLOW);
            start = 0u;
        }
        scratch_start = start;
        records[group.y * frame.segments_per_row + group.x] = Record(bits, start);
    }
    workgroupBarrier();

    if (in_frame) {
        let start = end - length;
        let shift = start & 31u;
        var word = scratch_start + (start >> 5u);
        if (is_safe) {
            var carry = 0u;
            for (var k = 0u; k < (length >> 5u); k++) {
                let bits_here = words[k * WORKGROUP_SIZE + thread];
                put_scratch(word, carry | (bits_here >> shift));
                carry = (bits_here << 1u) << (31u - shift);
                word += 1u;
            }
            put_scratch(word, carry | (pending >> shift));
            put_scratch(word + 1u, (pending << 1u) << (31u - shift));
        } else {
            // Once more, now that its place is known: its levels are still there.
            append_block(dc_symbol, ac, thread, shift, TO_SCRATCH, word);
            put_scratch(word + (length >> 5u), pending);
        }
    }
}
