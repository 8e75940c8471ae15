// Stage 1 of 3: pixels to Huffman code, one workgroup per segment, one thread per block.
//
// in:       the texture; the tables
// out:      `scratch`: each segment's code, MSB first in 32-bit words, at a place of its own; `records`: where and how long
// dispatch: (segments_per_row, rows), 32 threads for 30 blocks
// moves:    the pixels once (plus one MCU a segment, from cache), the code once
//
// A thread holds its block's 64 coefficients in registers, so both passes of the DCT need no exchange and no barrier. What
// threads share goes through workgroup memory: samples in, the DC of the block before, the lengths.
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
const SHARED_WORDS = 2048u;     // 64 for each thread

struct Tables {
    reciprocal: array<f32, 128>,    // 1 / (quantiser * AAN scale * samples summed), zigzag order, luma then chroma
    ac: array<u32, 512>,            // code << 5 | length by symbol, luma then chroma
    dc: array<u32, 32>,             // likewise by size
}

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var source: texture_2d<f32>;
@group(0) @binding(2) var<storage, read> tables: Tables;
@group(0) @binding(3) var<storage, read_write> scratch: array<atomic<u32>>;
@group(0) @binding(4) var<storage, read_write> records: array<Record>;
@group(0) @binding(5) var<storage, read_write> result: array<atomic<u32>>;

// First the samples by block, then by thread: word k * 32 + thread is the thread's level at zigzag position k, and later word k of
// its code. Code never overtakes the levels that are still to be read: a coefficient takes at most 26 bits, its place has 32.
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

/// Loads 10 times two pixels side by side. All loads are written before their first use, so that they are under way together.
fn load_444(thread: u32, corner: vec2u) {
#unroll k 0..10
    let at$$k = corner + vec2u(((thread + $k * 32u) % 40u) * 2u, (thread + $k * 32u) / 40u);
    let a$$k = texel(at$$k);
    let b$$k = texel(at$$k + vec2u(1u, 0u));
#end
#unroll k 0..10
    {
        let pair = (thread + $k * 32u) % 40u;
        let y = (thread + $k * 32u) / 40u;
        let a = rgb_from(a$$k);
        let b = rgb_from(b$$k);
        let chroma_a = chroma_of(a);
        let chroma_b = chroma_of(b);
        let block = (pair >> 2u) * 3u;
        put_pair(block, y, pair & 3u, vec2i(luma_of(a), luma_of(b)));
        put_pair(block + 1u, y, pair & 3u, vec2i(chroma_a.x, chroma_b.x));
        put_pair(block + 2u, y, pair & 3u, vec2i(chroma_a.y, chroma_b.y));
    }
#end
}

/// Loads 5 times 4x2 pixels: four pairs of luma, and a pair of each chroma as sums of four.
fn load_420(thread: u32, corner: vec2u) {
#unroll k 0..5
    let at$$k = corner + vec2u(((thread + $k * 32u) % 20u) * 4u, ((thread + $k * 32u) / 20u) * 2u);
#unroll n 0..8
    let t$$k_$$n = texel(at$$k + vec2u($n & 3u, $n >> 2u));
#end
#end
#unroll k 0..5
    {
        let column = (thread + $k * 32u) % 20u;
        let y = (thread + $k * 32u) / 20u;
        let mcu = (column >> 2u) * 6u;
        let luma = mcu + ((y >> 2u) << 1u) + ((column >> 1u) & 1u);
        let row = (y & 3u) << 1u;
        let pair = (column & 1u) << 1u;
#unroll n 0..8
        let p$$n = rgb_from(t$$k_$$n);
#end
        put_pair(luma, row, pair, vec2i(luma_of(p0), luma_of(p1)));
        put_pair(luma, row, pair + 1u, vec2i(luma_of(p2), luma_of(p3)));
        put_pair(luma, row + 1u, pair, vec2i(luma_of(p4), luma_of(p5)));
        put_pair(luma, row + 1u, pair + 1u, vec2i(luma_of(p6), luma_of(p7)));
        let chroma_a = chroma_of(p0) + chroma_of(p1) + chroma_of(p4) + chroma_of(p5);
        let chroma_b = chroma_of(p2) + chroma_of(p3) + chroma_of(p6) + chroma_of(p7);
        put_pair(mcu + 4u, y, column & 3u, vec2i(chroma_a.x, chroma_b.x));
        put_pair(mcu + 5u, y, column & 3u, vec2i(chroma_a.y, chroma_b.y));
    }
#end
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
        let at = vec2u(corner.x - 16u + (thread & 1u) * 8u, corner.y + (thread >> 1u));
        let is_lower = select(0u, 1u, corner.y + 8u < frame.height);
        let is_last_luma = (thread & 1u) == 1u && (thread >> 4u) == is_lower;
        for (var x = 0u; x < 8u; x++) {
            let rgb = pixel(at + vec2u(x, 0u));
            luma += select(0, luma_of(rgb), is_last_luma);
            chroma += chroma_of(rgb);
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

// The code of this thread's block, as it grows.
var<private> pending: u32;          // bits of the word that is being filled, first bit highest
var<private> length: u32;           // bits in all
var<private> last_position: u32;

fn append(symbol: u32, thread: u32) {
    let count = symbol & 31u;
    let bits = symbol >> 5u;
    let end = (length & 31u) + count;
    if (end < 32u) {
        pending |= bits << (32u - end);
    } else {
        words[(length >> 5u) * WORKGROUP_SIZE + thread] = pending | (bits >> (end - 32u));
        // A shift by 32 is not defined; what it would leave is nothing.
        pending = select(bits << ((64u - end) & 31u), 0u, end == 32u);
    }
    length += count;
}

/// Codes the levels at the positions whose bits are set, from `first` on.
fn append_levels(present: u32, first: u32, ac: u32, thread: u32) {
    var rest = present;
    while (rest != 0u) {
        let position = first + countTrailingZeros(rest);
        rest &= rest - 1u;
        let level = bitcast<i32>(words[position * WORKGROUP_SIZE + thread]);
        var run = position - last_position - 1u;
        last_position = position;
        while (run > 15u) {
            append(tables.ac[ac + 0xf0u], thread);
            run -= 16u;
        }
        let size = size_of(level);
        append(symbol_of(tables.ac[ac + (run << 4u) + size], level, size), thread);
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

    // Quantise, and note which coefficients are not zero.
    var low = 0u;
    var high = 0u;
    let table = is_chroma * 64u;
#unroll x 0..8
    let column$$x = dct8(
        array<f32, 8>(row0[$x], row1[$x], row2[$x], row3[$x], row4[$x], row5[$x], row6[$x], row7[$x])
    );
#unroll y 0..8
    {
        let position = ZIGZAG_POSITION[$y * 8u + $x];
        let level = i32(round(column$$x[$y] * tables.reciprocal[table + position]));
        words[position * WORKGROUP_SIZE + thread] = bitcast<u32>(level);
        let bit = select(0u, 1u << (position & 31u), level != 0);
        low |= select(0u, bit, position < 32u);
        high |= select(bit, 0u, position < 32u);
    }
#end
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
            before_dc = bitcast<i32>(words[dc_source(corner, u32(before))]);
        } else if (group.x > 0u) {
            let sum = f32(atomicLoad(&left_dc[select(0u, component + 3u - BLOCKS_PER_MCU, is_chroma == 1u)]));
            before_dc = i32(round(sum * tables.reciprocal[is_chroma * 64u]));
        }
        dc_difference = bitcast<i32>(words[dc_source(corner, block)]) - before_dc;
    }
    workgroupBarrier();     // all have read the DC that they need
    pending = 0u;
    length = 0u;
    last_position = 0u;
    if (in_frame) {
        let size = size_of(dc_difference);
        append(symbol_of(tables.dc[is_chroma * 16u + size], dc_difference, size), thread);
        if (!is_beyond(corner, block)) {
            append_levels(low & 0xfffffffeu, 0u, ac, thread);
            append_levels(high, 32u, ac, thread);
        }
        if (last_position != 63u) {
            append(tables.ac[ac], thread);
        }
    }

    // Place: threads are in the order of the stream.
    let end = inclusive_sum(length, thread);
    let bits = workgroup_sum();
    let code_words = (bits + 31u) >> 5u;
    if (thread == 0u) {
        scratch_start = atomicAdd(&result[RESULT_SCRATCH_USED], code_words);
        records[group.y * frame.segments_per_row + group.x] = Record(bits, scratch_start);
        if (scratch_start + code_words > frame.scratch_words) {
            atomicOr(&result[RESULT_FLAGS], FLAG_OVERFLOW);
        }
    }
    workgroupBarrier();

    if (in_frame) {
        let start = end - length;
        let shift = start & 31u;
        var word = scratch_start + (start >> 5u);
        var carry = 0u;
        for (var k = 0u; k < (length >> 5u); k++) {
            let bits_here = words[k * WORKGROUP_SIZE + thread];
            put_scratch(word, carry | (bits_here >> shift));
            carry = (bits_here << 1u) << (31u - shift);
            word += 1u;
        }
        put_scratch(word, carry | (pending >> shift));
        put_scratch(word + 1u, (pending << 1u) << (31u - shift));
    }
}
