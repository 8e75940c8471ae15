// Stage 1 of 3: pixels to Huffman code, one workgroup per segment of 24 blocks.
//
// in:       the texture; the tables
// out:      `scratch`: each segment's code, MSB first in 32-bit words, at a place of its own; `records`: where and how long
// dispatch: (segments_per_row, rows), 192 threads = 24 blocks x 8 lanes
// moves:    the pixels once (plus one MCU a segment, from cache), the code once
//
// The code of a block depends on its own coefficients and on one number from outside: the DC of the block before it. At a
// segment's start that block belongs to another workgroup, so its DC is computed again from its samples. Samples are whole numbers
// (halves and quarters for subsampled chroma) and DC is a sum without rounding, so both workgroups get the identical number.
//
// Byte stuffing depends on where bytes begin, which is known only after all lengths are. So 0xFF bytes are counted here for all
// eight possible beginnings, and stage 2 picks the count that turned out right.

#import encoder_frame
#import colour
#import dct
#import scan

const WORKGROUP_SIZE = 192u;
const BLOCKS = 24u;
const LANES = 8u;               // per block: a row, then a column, then 8 coefficients in zigzag order
const ROW = 9u;                 // a block's row in workgroup memory, padded by one so that columns hit different banks
const BLOCK = 72u;              // 8 rows
const SAMPLES = 1728u;          // 24 blocks
const CODE_WORDS = 1281u;       // 24 blocks of at most 1,660 bits, and one word that may be read past the end

struct Tables {
    reciprocal: array<f32, 128>,    // 1 / (quantiser * AAN scale), natural order, luma then chroma
    zigzag: array<u32, 64>,         // zigzag position by natural index
    ac: array<u32, 512>,            // code << 5 | length by symbol, luma then chroma
    dc: array<u32, 32>,             // likewise by size
}

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var source: texture_2d<f32>;
@group(0) @binding(2) var<storage, read> tables: Tables;
@group(0) @binding(3) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(4) var<storage, read_write> records: array<u32>;
@group(0) @binding(5) var<storage, read_write> result: array<atomic<u32>>;

var<workgroup> blocks: array<f32, SAMPLES>;
var<workgroup> nonzero: array<atomic<u32>, 48>;        // 64 bits a block: which coefficients are not zero
var<workgroup> code: array<atomic<u32>, CODE_WORDS>;
var<workgroup> left_dc: array<atomic<i32>, 3>;         // sample sums of the blocks left of the segment
var<workgroup> ff_counts: array<atomic<u32>, 8>;
var<workgroup> scratch_start: u32;

fn pixel(x: u32, y: u32) -> vec3i {
    let at = frame.origin + vec2u(min(x, frame.width - 1u), min(y, frame.height - 1u));
    var rgb = textureLoad(source, at, 0).rgb;
    if (LINEAR_SOURCE) {
        // An -srgb texture gives linear values. This brings its 8-bit numbers back, exactly.
        rgb = srgb_encode(rgb);
    }
    return vec3i(round(rgb * 255.0));
}

fn put_sample(block: u32, y: u32, x: u32, sample: f32) {
    blocks[block * BLOCK + y * ROW + x] = sample;
}

fn load_444(thread: u32, corner: vec2u) {
    for (var i = thread; i < MCUS_PER_SEGMENT * 64u; i += WORKGROUP_SIZE) {
        let x = i % (MCUS_PER_SEGMENT * 8u);
        let y = i / (MCUS_PER_SEGMENT * 8u);
        let rgb = pixel(corner.x + x, corner.y + y);
        let chroma = chroma_of(rgb);
        let block = (x >> 3u) * 3u;
        put_sample(block, y, x & 7u, f32(luma_of(rgb)));
        put_sample(block + 1u, y, x & 7u, f32(chroma.x));
        put_sample(block + 2u, y, x & 7u, f32(chroma.y));
    }
}

/// One chroma sample of each kind from 2x2 pixels, whose luma goes to its place on the way.
fn load_420(thread: u32, corner: vec2u) {
    for (var i = thread; i < MCUS_PER_SEGMENT * 64u; i += WORKGROUP_SIZE) {
        let quad = vec2u(i % (MCUS_PER_SEGMENT * 8u), i / (MCUS_PER_SEGMENT * 8u));
        let mcu = (quad.x >> 3u) * 6u;
        let luma = mcu + (quad.y >> 2u) * 2u + ((quad.x >> 2u) & 1u);
        let x = (quad.x & 3u) * 2u;
        let y = (quad.y & 3u) * 2u;
        var chroma = vec2i(0);
        for (var k = 0u; k < 4u; k++) {
            let rgb = pixel(corner.x + quad.x * 2u + (k & 1u), corner.y + quad.y * 2u + (k >> 1u));
            put_sample(luma, y + (k >> 1u), x + (k & 1u), f32(luma_of(rgb)));
            chroma += chroma_of(rgb);
        }
        put_sample(mcu + 4u, quad.y, quad.x & 7u, f32(chroma.x) * 0.25);
        put_sample(mcu + 5u, quad.y, quad.x & 7u, f32(chroma.y) * 0.25);
    }
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
    if (thread >= 64u) {
        return;
    }
    let cell = vec2u(thread & 7u, thread >> 3u);
    if (SUBSAMPLED) {
        let at = vec2u(corner.x - 16u, corner.y) + cell * 2u;
        var luma = 0;
        var chroma = vec2i(0);
        for (var k = 0u; k < 4u; k++) {
            let rgb = pixel(at.x + (k & 1u), at.y + (k >> 1u));
            luma += luma_of(rgb);
            chroma += chroma_of(rgb);
        }
        // Block 3; in a last row whose lower half is beyond the frame, block 1 stands for it.
        let is_lower = select(0u, 1u, corner.y + 8u < frame.height);
        if (cell.x >= 4u && (cell.y >> 2u) == is_lower) {
            atomicAdd(&left_dc[0], luma);
        }
        atomicAdd(&left_dc[1], chroma.x);
        atomicAdd(&left_dc[2], chroma.y);
    } else {
        let rgb = pixel(corner.x - 8u + cell.x, corner.y + cell.y);
        let chroma = chroma_of(rgb);
        atomicAdd(&left_dc[0], luma_of(rgb));
        atomicAdd(&left_dc[1], chroma.x);
        atomicAdd(&left_dc[2], chroma.y);
    }
}

fn quantise(coefficient: f32, is_chroma: u32, natural: u32) -> i32 {
    return i32(round(coefficient * tables.reciprocal[is_chroma * 64u + natural]));
}

/// The number of bits of a level's magnitude: its "size" or category in the standard.
fn size_of(level: i32) -> u32 {
    return select(firstLeadingBit(u32(abs(level))) + 1u, 0u, level == 0);
}

/// A code word and its extra bits in one number: bits << 5 | length. At most 16 + 10 bits for AC, 11 + 11 for DC.
fn symbol_of(packed_code: u32, level: i32, size: u32) -> u32 {
    let extra = u32(select(level, level - 1, level < 0)) & low_bits(size);
    return ((((packed_code >> 5u) << size) | extra) << 5u) | ((packed_code & 31u) + size);
}

/// Writes a symbol at a bit position of `code`.
fn put_symbol(at: u32, symbol: u32) {
    let length = symbol & 31u;
    let bits = symbol >> 5u;
    let word = at >> 5u;
    let end = (at & 31u) + length;
    if (end <= 32u) {
        if (length > 0u) {
            atomicOr(&code[word], bits << (32u - end));
        }
    } else {
        atomicOr(&code[word], bits >> (end - 32u));
        atomicOr(&code[word + 1u], bits << (64u - end));
    }
}

/// 0x80 in every byte of `word` that is 0xFF, 0 elsewhere.
fn ff_bytes(word: u32) -> u32 {
    let x = ~word;
    return ~(((x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | x | 0x7f7f7f7fu);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn encode_segment(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let corner = vec2u(group.x * MCUS_PER_SEGMENT, frame.first_row + group.y) * MCU_SIZE;
    let mcus = min(MCUS_PER_SEGMENT, frame.mcus_per_row - group.x * MCUS_PER_SEGMENT);

    if (thread < 3u) {
        atomicStore(&left_dc[thread], 0);
    }
    if (thread < 8u) {
        atomicStore(&ff_counts[thread], 0u);
    }
    if (thread < 48u) {
        atomicStore(&nonzero[thread], 0u);
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

    // DCT: rows, then columns. Then quantise, into zigzag order.
    let block = thread / LANES;
    let lane = thread % LANES;
    let base = block * BLOCK;
    let component = block % BLOCKS_PER_MCU;
    let is_chroma = select(0u, 1u, component + 2u >= BLOCKS_PER_MCU);
    var v: array<f32, 8>;
    for (var i = 0u; i < 8u; i++) {
        v[i] = blocks[base + lane * ROW + i];
    }
    v = dct8(v);
    for (var i = 0u; i < 8u; i++) {
        blocks[base + lane * ROW + i] = v[i];
    }
    workgroupBarrier();
    for (var i = 0u; i < 8u; i++) {
        v[i] = blocks[base + i * ROW + lane];
    }
    v = dct8(v);
    workgroupBarrier();
    for (var i = 0u; i < 8u; i++) {
        let natural = i * 8u + lane;
        blocks[base + tables.zigzag[natural]] = f32(quantise(v[i], is_chroma, natural));
    }
    workgroupBarrier();

    // Which coefficients are not zero. This lane's are zigzag positions 8 * lane to 8 * lane + 7.
    let in_frame = block < mcus * BLOCKS_PER_MCU;
    var level: array<i32, 8>;
    var present = 0u;
    for (var i = 0u; i < 8u; i++) {
        level[i] = i32(blocks[base + lane * 8u + i]);
        present |= select(0u, 1u << i, level[i] != 0);
    }
    if (is_beyond(corner, block)) {
        present = 0u;
    }
    var dc_difference = 0;
    if (lane == 0u) {
        present &= 0xfeu;
        // The block before it in its component: in the MCU before, but for luma blocks 1 to 3 of a 4:2:0 MCU.
        var before = i32(block) - i32(BLOCKS_PER_MCU);
        if (SUBSAMPLED && is_chroma == 0u) {
            before = i32(block) - select(1, 3, component == 0u);
        }
        var before_dc = 0;
        if (before >= 0) {
            before_dc = i32(blocks[dc_source(corner, u32(before)) * BLOCK]);
        } else if (group.x > 0u) {
            let sum = f32(atomicLoad(&left_dc[select(0u, component + 3u - BLOCKS_PER_MCU, is_chroma == 1u)]));
            before_dc = quantise(sum * select(1.0, 0.25, SUBSAMPLED && is_chroma == 1u), is_chroma, 0u);
        }
        dc_difference = i32(blocks[dc_source(corner, block) * BLOCK]) - before_dc;
    }
    if (present != 0u && in_frame) {
        atomicOr(&nonzero[block * 2u + (lane >> 2u)], present << ((lane & 3u) * 8u));
    }
    workgroupBarrier();

    // Symbols of this lane, and their length.
    let low = atomicLoad(&nonzero[block * 2u]) | 1u;    // DC counts as present: runs start after it
    let high = atomicLoad(&nonzero[block * 2u + 1u]);
    let ac = is_chroma * 256u;
    let zrl = tables.ac[ac + 0xf0u];
    let eob = tables.ac[ac];
    let has_eob = lane == 7u && (high >> 31u) == 0u;
    var dc_symbol = 0u;
    var symbols: array<u32, 8>;
    var zrls = 0u;                                      // 2 bits for each coefficient: runs of 16 zeros before it
    var length = 0u;
    if (in_frame) {
        if (lane == 0u) {
            let size = size_of(dc_difference);
            dc_symbol = symbol_of(tables.dc[is_chroma * 16u + size], dc_difference, size);
            length = dc_symbol & 31u;
        }
        // The last coefficient that is present before this lane's.
        var last = 0u;
        let high_before = select(high & low_bits((lane & 3u) * 8u), 0u, lane < 4u);
        let low_before = select(low, low & low_bits((lane & 3u) * 8u), lane < 4u);
        if (high_before != 0u) {
            last = 32u + firstLeadingBit(high_before);
        } else if (low_before != 0u) {
            last = firstLeadingBit(low_before);
        }
        for (var i = 0u; i < 8u; i++) {
            symbols[i] = 0u;
            if (((present >> i) & 1u) == 1u) {
                let run = lane * 8u + i - last - 1u;
                last = lane * 8u + i;
                zrls |= (run >> 4u) << (i * 2u);
                let size = size_of(level[i]);
                symbols[i] = symbol_of(tables.ac[ac + ((run & 15u) << 4u) + size], level[i], size);
                length += (run >> 4u) * (zrl & 31u) + (symbols[i] & 31u);
            }
        }
        length += select(0u, eob & 31u, has_eob);
    }

    // Place: threads are in the order of the stream.
    var at = inclusive_sum(length, thread) - length;
    let bits = workgroup_sum();
    let words = (bits + 31u) >> 5u;
    for (var i = thread; i <= words; i += WORKGROUP_SIZE) {
        atomicStore(&code[i], 0u);
    }
    if (thread == 0u) {
        scratch_start = atomicAdd(&result[RESULT_SCRATCH_USED], words);
    }
    workgroupBarrier();

    if (in_frame) {
        put_symbol(at, dc_symbol);
        at += dc_symbol & 31u;
        for (var i = 0u; i < 8u; i++) {
            if (symbols[i] != 0u) {
                for (var n = (zrls >> (i * 2u)) & 3u; n > 0u; n--) {
                    put_symbol(at, zrl);
                    at += zrl & 31u;
                }
                put_symbol(at, symbols[i]);
                at += symbols[i] & 31u;
            }
        }
        if (has_eob) {
            put_symbol(at, eob);
        }
    }
    workgroupBarrier();

    // Out, counting 0xFF bytes on the way.
    for (var i = thread; i < words; i += WORKGROUP_SIZE) {
        let word = atomicLoad(&code[i]);
        let next = atomicLoad(&code[i + 1u]);
        if (scratch_start + i < frame.scratch_words) {
            scratch[scratch_start + i] = word;
        } else {
            atomicOr(&result[RESULT_FLAGS], FLAG_OVERFLOW);
        }
        for (var offset = 0u; offset < 8u; offset++) {
            var shifted = word;
            if (offset > 0u) {
                shifted = (word << offset) | (next >> (32u - offset));
            }
            var found = ff_bytes(shifted);
            let start = i * 32u + offset;
            if (start + 32u > bits) {                   // the last word: whole bytes only
                let whole = select((bits - start) >> 3u, 0u, start > bits);
                found &= select(0u, ~(0xffffffffu >> (whole * 8u)), whole > 0u);
            }
            if (found != 0u) {
                atomicAdd(&ff_counts[offset], countOneBits(found));
            }
        }
    }
    workgroupBarrier();

    if (thread == 0u) {
        let record = (group.y * frame.segments_per_row + group.x) * RECORD_WORDS;
        records[record + RECORD_BITS] = bits;
        records[record + RECORD_SCRATCH] = scratch_start;
        for (var i = 0u; i < 4u; i++) {
            records[record + RECORD_FF_COUNTS + i] =
                atomicLoad(&ff_counts[i * 2u]) | (atomicLoad(&ff_counts[i * 2u + 1u]) << 16u);
        }
        // Every segment has 8 bits or more: an MCU's three blocks take at least 14.
        let tail = bits - 8u;
        var tail_bits = atomicLoad(&code[tail >> 5u]) << (tail & 31u);
        if ((tail & 31u) > 0u) {
            tail_bits |= atomicLoad(&code[(tail >> 5u) + 1u]) >> (32u - (tail & 31u));
        }
        records[record + RECORD_ENDS] = (atomicLoad(&code[0]) >> 24u) | ((tail_bits >> 24u) << 8u);
    }
}
