// Stage 1 of 3: pixels to Huffman code, one workgroup per span, one thread per block.
//
// in:       the texture; the tables; the length of the stream that `result` held before
// out:      `scratch`: each span's code, MSB first in 32-bit words, at a place of its own; `records`: how long it is, and what
//           place_spans needs to know of its bits; `result`: zero where that stream was; with COUNT_SYMBOLS the histogram
// dispatch: (spans_per_row, rows), 96 threads
// moves:    the pixels once (plus one MCU a span, from cache), the code once
//
// A thread holds its block's 64 coefficients in registers, so both passes of the DCT need no exchange and no barrier. Threads
// are ordered by component, luma first, because those that run side by side wait for each other and chroma has much less to code.
// What threads share goes through workgroup memory: samples in, the DC of the block before, lengths, and the code on its way
// out. There is little of it, since it decides how many workgroups a GPU keeps under way.
//
// The code of a block depends on its own coefficients and on one number from outside: the DC of the block before it. At a span's
// start that block belongs to another workgroup, so its DC is computed again from its samples. Samples are whole numbers and DC is
// a sum without rounding, so both workgroups get the identical number.

#import encoder_frame
#import samples
#import dct
#import scan

const WORKGROUP_SIZE = SPAN_BLOCKS;
const LUMA_BLOCKS = LUMA_ACROSS * LUMA_DOWN;
const LUMA_THREADS = MCUS_PER_SPAN * LUMA_BLOCKS;
const IS_GRAY = BLOCKS_PER_MCU == 1u;
const CHROMA_PIXELS = LUMA_BLOCKS;      // whose chroma is summed up to one sample

const BLOCK_WORDS = 17u;        // 64 samples, padded by one so that blocks begin in different banks

// Levels at zigzag positions below WIDE_POSITIONS, which the host puts in front, have 16 bits; the others have 8, where the quantisers
// are such that no picture needs more. A level's word comes LEVELS_START words later than in the table of all levels, so that code
// that goes over the levels has room before them.
const LEVELS_START = 1u;
const BYTES_START = LEVELS_START + WIDE_POSITIONS / 4u;
const COLUMN_WORDS = BYTES_START + 16u;
const SHARED_WORDS = COLUMN_WORDS * WORKGROUP_SIZE;

// The code of a span is put together in tiles. The first word of a tile is the last of the one before, the last word the first of
// the one after it: bytes of ones may lie across.
const TILE_WORDS = 256u;
const TILE_STEP = TILE_WORDS - 2u;

struct Tables {
    // 1 / (quantiser * AAN scale * pixels summed), luma then chroma: row by row, two vectors each.
    reciprocal: array<vec4f, 32>,
    // By symbol, luma then chroma: the code followed by as many zeros as it has extra bits, << 5 | the length with these.
    ac: array<u32, 512>,
    dc: array<u32, 32>,
}

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var source: texture_2d<f32>;
@group(0) @binding(2) var<storage, read> tables: Tables;
@group(0) @binding(3) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(4) var<storage, read_write> records: array<Record>;
@group(0) @binding(5) var<storage, read_write> result: array<atomic<u32>>;

// First the samples by block: words 0..7 have the upper four of each column, words 8..15 the lower four. Then the levels by thread, word k
// of a thread at k * WORKGROUP_SIZE + thread, and later its code.
var<workgroup> words: array<u32, SHARED_WORDS>;
var<workgroup> left_sums: array<atomic<u32>, 3>;    // of the samples of the blocks left of the span
var<workgroup> tile: array<atomic<u32>, TILE_WORDS>;
var<workgroup> stuffing: array<atomic<u32>, 8>;
var<workgroup> code_words: u32;

// ---- pixels to samples

fn texel(at: vec2u) -> vec3f {
    let value = textureLoad(source, min(at, frame.last), 0);
    if (ALPHA_PLANE) {
        return value.aaa;
    }
    if (PREMULTIPLIED) {
        return straight_colour(value, LINEAR_SOURCE) * value.a;
    }
    if (LINEAR_SOURCE) {
        // An -srgb texture gives linear values. This brings its 8-bit numbers back, exactly.
        return srgb_encode(value.rgb);
    }
    return value.rgb;
}

fn pixel(at: vec2u) -> vec3u {
    let corner = frame.origin + SCALE * at;
    if (SCALE == 1u) {
        return channels(texel(corner));
    }
    // The mean of the encoded values, as image libraries do it; beyond the frame's edge its last texels count again.
    var sum = vec3f(0.0);
    for (var y = 0u; y < SCALE; y++) {
        for (var x = 0u; x < SCALE; x++) {
            sum += texel(corner + vec2u(x, y));
        }
    }
    return channels(sum / f32(SCALE * SCALE));
}

/// The upper one of the two rows of pixels that the frame's last row of 4:2:0 chroma stands for.
fn last_chroma_row() -> u32 {
    return (frame.height - 1u) & 0xfffffffeu;
}

// Threads side by side load pixels side by side: a texture's cache serves a row of neighbours at once, and pixels 32 bytes apart
// one after the other. Each thread loads eight at a time, all under way together, and puts samples that lie one below the other in
// a word.

/// Loads columns of 8 pixels, for MCUs of one block of each component.
fn load_columns(thread: u32, corner: vec2u) {
    for (var x = thread; x < MCUS_PER_SPAN * 8u; x += WORKGROUP_SIZE) {
        let at = corner + vec2u(x, 0u);
#unroll y 0..8
        let p$$y = pixel(at + vec2u(0u, $y));
#end
        let luma = (x >> 3u) * BLOCK_WORDS + (x & 7u);
        words[luma] = four_samples(luma_of(p0), luma_of(p1), luma_of(p2), luma_of(p3));
        words[luma + 8u] = four_samples(luma_of(p4), luma_of(p5), luma_of(p6), luma_of(p7));
        if (!IS_GRAY) {
            let cb = luma + LUMA_THREADS * BLOCK_WORDS;
            let cr = cb + MCUS_PER_SPAN * BLOCK_WORDS;
#unroll y 0..8
            let c$$y = chroma_of(p$$y);
#end
            words[cb] = four_samples(c0.x, c1.x, c2.x, c3.x);
            words[cb + 8u] = four_samples(c4.x, c5.x, c6.x, c7.x);
            words[cr] = four_samples(c0.y, c1.y, c2.y, c3.y);
            words[cr + 8u] = four_samples(c4.y, c5.y, c6.y, c7.y);
        }
    }
}

/// Loads 2x4 samples of luma in 4:2:2, or 2x8 in 4:2:0: always 1x4 of chroma, for MCUs of two luma blocks side by side.
fn load_pairs_of_columns(thread: u32, corner: vec2u) {
    let columns = MCUS_PER_SPAN * 8u;
    for (var i = thread; i < columns * 2u; i += WORKGROUP_SIZE) {
        let x = i % columns;            // of chroma
        let half = i / columns;         // the upper or the lower four rows of a chroma block
        let at = corner + vec2u(2u * x, half * 4u * LUMA_DOWN);
        let mcu = x >> 3u;
        var luma = (mcu * LUMA_BLOCKS + ((x >> 2u) & 1u)) * BLOCK_WORDS + 2u * (x & 3u);
        var cb: vec4u;
        var cr: vec4u;
        if (LUMA_DOWN == 2u) {
            luma += 2u * half * BLOCK_WORDS;
#unroll n 0..2
            // Below the frame, luma repeats the last row of pixels, and chroma its own last row: that of the last two rows.
            let rows$$n = at.y + 4u * $n + vec2u(0u, 2u);
            let upper$$n = min(rows$$n, vec2u(last_chroma_row()));
            let is_below$$n = rows$$n > upper$$n;
#unroll x 0..2
            let p$$n_$$x_0 = pixel(vec2u(at.x + $x, upper$$n.x));
            let p$$n_$$x_1 = pixel(vec2u(at.x + $x, upper$$n.x + 1u));
            let p$$n_$$x_2 = pixel(vec2u(at.x + $x, upper$$n.y));
            let p$$n_$$x_3 = pixel(vec2u(at.x + $x, upper$$n.y + 1u));
#end
#unroll x 0..2
            let a$$n_$$x = luma_of(p$$n_$$x_1);
            let b$$n_$$x = luma_of(p$$n_$$x_3);
            words[luma + $n * 8u + $x] = four_samples(
                select(luma_of(p$$n_$$x_0), a$$n_$$x, is_below$$n.x), a$$n_$$x,
                select(luma_of(p$$n_$$x_2), b$$n_$$x, is_below$$n.y), b$$n_$$x,
            );
#end
            let c$$n_0 = chroma_of(p$$n_0_0 + p$$n_0_1 + p$$n_1_0 + p$$n_1_1);
            let c$$n_1 = chroma_of(p$$n_0_2 + p$$n_0_3 + p$$n_1_2 + p$$n_1_3);
            cb[2u * $n] = c$$n_0.x;
            cr[2u * $n] = c$$n_0.y;
            cb[2u * $n + 1u] = c$$n_1.x;
            cr[2u * $n + 1u] = c$$n_1.y;
#end
        } else {
#unroll x 0..2
#unroll y 0..4
            let p$$x_$$y = pixel(at + vec2u($x, $y));
#end
            words[luma + half * 8u + $x] = four_samples(luma_of(p$$x_0), luma_of(p$$x_1), luma_of(p$$x_2), luma_of(p$$x_3));
#end
#unroll y 0..4
            let c$$y = chroma_of(p0_$$y + p1_$$y);
            cb[$y] = c$$y.x;
            cr[$y] = c$$y.y;
#end
        }
        let chroma = (LUMA_THREADS + mcu) * BLOCK_WORDS + half * 8u + (x & 7u);
        words[chroma] = four_samples(cb.x, cb.y, cb.z, cb.w);
        words[chroma + MCUS_PER_SPAN * BLOCK_WORDS] = four_samples(cr.x, cr.y, cr.z, cr.w);
    }
}

/// Sums the samples of the last luma and the two chroma blocks of the MCU left of the span: a thread for each sample of chroma.
fn sum_left_mcu(thread: u32, corner: vec2u) {
    let sample = vec2u(thread & 7u, thread >> 3u);
    var at = vec2u(corner.x - MCU_WIDTH, corner.y) + sample * vec2u(LUMA_ACROSS, LUMA_DOWN);
    if (LUMA_DOWN == 2u) {
        let is_below = at.y > last_chroma_row();
        at.y = min(at.y, last_chroma_row());
        let p0 = pixel(at);
        let p1 = pixel(at + vec2u(1u, 0u));
        let p2 = pixel(at + vec2u(0u, 1u));
        let p3 = pixel(at + vec2u(1u, 1u));
        add_left_chroma(chroma_of(p0 + p1 + p2 + p3));
        // Its lower right block; where that is beyond the frame, the upper right one stands for it.
        let is_lower_in_frame = corner.y + 8u < frame.height;
        if (sample.x >= 4u && (sample.y >= 4u) == is_lower_in_frame) {
            let lower = (luma_of(p2) >> 16u) + (luma_of(p3) >> 16u);
            let upper = (luma_of(p0) >> 16u) + (luma_of(p1) >> 16u);
            atomicAdd(&left_sums[0], lower + select(upper, lower, is_below));
        }
    } else if (LUMA_ACROSS == 2u) {
        let p0 = pixel(at);
        let p1 = pixel(at + vec2u(1u, 0u));
        add_left_chroma(chroma_of(p0 + p1));
        if (sample.x >= 4u) {
            atomicAdd(&left_sums[0], (luma_of(p0) >> 16u) + (luma_of(p1) >> 16u));
        }
    } else {
        let p = pixel(at);
        atomicAdd(&left_sums[0], luma_of(p) >> 16u);
        if (!IS_GRAY) {
            add_left_chroma(chroma_of(p));
        }
    }
}

fn add_left_chroma(chroma: vec2u) {
    atomicAdd(&left_sums[1], chroma.x >> 16u);
    atomicAdd(&left_sums[2], chroma.y >> 16u);
}

// ---- blocks and their DC

/// Where several luma blocks make an MCU, whether one of them lies beyond the frame's right or lower edge. Such blocks are never seen;
/// they get the DC of the block coded before and no AC, which is the shortest code.
fn is_beyond(corner: vec2u, luma: u32) -> bool {
    let in_mcu = luma % LUMA_BLOCKS;
    let at = corner + vec2u((luma / LUMA_BLOCKS) * LUMA_ACROSS + in_mcu % LUMA_ACROSS, in_mcu / LUMA_ACROSS) * 8u;
    return LUMA_BLOCKS > 1u && luma < LUMA_THREADS && any(at >= vec2u(frame.width, frame.height));
}

/// The thread whose DC stands for this block's: its own, or that of the last block before it that is in the frame.
fn dc_thread(corner: vec2u, thread: u32) -> u32 {
    var source = thread;
    while (is_beyond(corner, source)) {
        source -= 1u;
    }
    return source;
}

/// DC from the sum of a block's samples. No multiplication may be fused with an addition here, as two workgroups have to get the same.
fn quantised_dc(sum: f32, is_chroma: u32) -> i32 {
    return i32(round(sum * tables.reciprocal[is_chroma * 16u].x));
}

// ---- levels to code

/// A float that has the rounded value of a small one in its low bits, as two's complement.
const ROUNDING = 12582912.0;
const ZERO_LEVEL = 0x4b400000u;

/// The number of bits of a level's magnitude: its "size" or category in the standard.
fn size_of(level: i32) -> u32 {
    return firstLeadingBit(u32(abs(level))) + 1u;
}

/// A code word and its extra bits in one number, and the length of both: bits << 5 | length. At most 16 + 11 bits.
fn symbol_of(entry: u32, level: i32, size: u32) -> u32 {
    return entry + ((u32(level + (level >> 31u)) & low_bits(size)) << 5u);
}

// A block on its way to code.
var<private> rest: vec2u;           // a bit for each AC level that is not zero and not coded, that of `position` highest in x
var<private> position: u32;         // in zigzag order, of the next level
var<private> pending: u32;          // bits of the word that is being filled, first bit highest
var<private> length: u32;           // bits in all, from where the first word begins

// What becomes of a word that is full.
const TO_WORDS = 0u;                // over the block's levels
const TO_NOWHERE = 1u;              // only the length is wanted
const TO_TILE = 2u;                 // to its place in the span

fn append(symbol: u32, thread: u32, sink: u32, base: u32) {
    let count = symbol & 31u;
    let bits = symbol >> 5u;
    let end = (length & 31u) + count;
    if (end < 32u) {
        pending |= bits << (32u - end);
    } else {
        let word = pending | (bits >> (end - 32u));
        if (sink == TO_WORDS) {
            words[(length >> 5u) * WORKGROUP_SIZE + thread] = word;
        } else if (sink == TO_TILE) {
            put_in_tile(base + (length >> 5u), word);
        }
        // A shift by 32 is not defined; what it would leave is nothing.
        pending = select(bits << ((64u - end) & 31u), 0u, end == 32u);
    }
    length += count;
}

/// A word counted from the tile's beginning; beyond its end it is another tile's.
fn put_in_tile(word: u32, bits: u32) {
    if (bits != 0u && word < TILE_WORDS) {
        atomicOr(&tile[word], bits);
    }
}

/// The word of a thread's column that has the level.
fn level_word(position: u32) -> u32 {
    return select(BYTES_START + (position >> 2u), LEVELS_START + (position >> 1u), position < WIDE_POSITIONS);
}

fn level_at(position: u32, thread: u32) -> i32 {
    let levels = words[level_word(position) * WORKGROUP_SIZE + thread];
    let bits = select(8u, 16u, position < WIDE_POSITIONS);
    let place = select(position & 3u, position & 1u, position < WIDE_POSITIONS) + 1u;
    return i32(levels << ((32u - bits * place) & 31u)) >> (32u - bits);
}

fn count_symbol(place: u32, is_counted: bool) {
    if (COUNT_SYMBOLS && is_counted) {
        atomicAdd(&result[RESULT_HISTOGRAM + place], 1u);
    }
}

/// Codes the levels that are left. Code that goes over the levels stops before the word that has the next one. That happens to blocks
/// that need more bits for a level than it has there.
fn append_levels(ac: u32, thread: u32, sink: u32, base: u32, is_counted: bool) {
    while ((rest.x | rest.y) != 0u) {
        // A run of 16 zeros or more: the 16th has size 0, and run 15 with size 0 is the symbol that stands for 16 zeros.
        let run = min(31u - firstLeadingBit(rest.x), 15u);
        if (sink == TO_WORDS && length >> 5u >= level_word(position + run)) {
            return;
        }
        let level = level_at(position + run, thread);
        let size = size_of(level);
        let symbol = ac + ((run << 4u) | size);
        count_symbol(symbol, is_counted);
        append(symbol_of(tables.ac[symbol], level, size), thread, sink, base);
        rest = vec2u((rest.x << (run + 1u)) | (rest.y >> (31u - run)), rest.y << (run + 1u));
        position += run + 1u;
    }
}

/// Says that only zeros follow, where they do.
fn append_end(ac: u32, thread: u32, sink: u32, base: u32, is_counted: bool) {
    if (position < 64u) {
        count_symbol(ac, is_counted);
        append(tables.ac[ac], thread, sink, base);
    }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn encode_span(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let span = group.y * frame.spans_per_row + group.x;
    let corner = vec2u(group.x * MCUS_PER_SPAN * MCU_WIDTH, (frame.first_row + group.y) * MCU_HEIGHT);
    let mcus = min(MCUS_PER_SPAN, frame.mcus_per_row - group.x * MCUS_PER_SPAN);
    let bytes_before = atomicLoad(&result[RESULT_STREAM_BYTES]);
    if (thread < 3u) {
        atomicStore(&left_sums[thread], 0u);
    }
    if (thread < 8u) {
        atomicStore(&stuffing[thread], 0u);
    }
    workgroupBarrier();

    // Samples.
    if (LUMA_ACROSS == 2u) {
        load_pairs_of_columns(thread, corner);
    } else {
        load_columns(thread, corner);
    }
    if (group.x > 0u && thread < 64u) {
        sum_left_mcu(thread, corner);
    }

    // This workgroup's share of what the stream before left in `result`.
    let share = bytes_before / (4u * frame.spans_per_row * frame.rows) + 1u;
    for (var i = thread; i < share; i += WORKGROUP_SIZE) {
        let word = span * share + i;
        if (word * 4u < bytes_before) {
            atomicStore(&result[(frame.stream_start >> 2u) + word], 0u);
        }
    }
    if (span == 0u && thread == 0u) {
        atomicStore(&result[RESULT_FLAGS], 0u);
    }
    workgroupBarrier();

    // DCT: columns, then rows, in registers: values that have names, not places in an array, stay there.
    let is_chroma = select(0u, 1u, thread >= LUMA_THREADS);
    let samples = thread * BLOCK_WORDS;
#unroll x 0..8
    let upper$$x = words[samples + $x];
    let lower$$x = words[samples + $x + 8u];
    let column$$x = dct8(array<f32, 8>(
        sample_of(upper$$x, 0u), sample_of(upper$$x, 1u), sample_of(upper$$x, 2u), sample_of(upper$$x, 3u),
        sample_of(lower$$x, 0u), sample_of(lower$$x, 1u), sample_of(lower$$x, 2u), sample_of(lower$$x, 3u),
    ));
#end
    workgroupBarrier();     // all samples are read: their memory is the levels' now

    // Quantise, and note which levels are not zero.
    var level: array<u32, 64>;
#unroll y 0..8
    let row$$y = dct8(array<f32, 8>(
        column0[$y], column1[$y], column2[$y], column3[$y], column4[$y], column5[$y], column6[$y], column7[$y],
    ));
    let left$$y = tables.reciprocal[is_chroma * 16u + 2u * $y];
    let right$$y = tables.reciprocal[is_chroma * 16u + 2u * $y + 1u];
#unroll x 0..4
    level[ZIGZAG_POSITION[$y * 8u + $x]] = bitcast<u32>(fma(row$$y[$x], left$$y[$x], ROUNDING));
    level[ZIGZAG_POSITION[$y * 8u + $x + 4u]] = bitcast<u32>(fma(row$$y[$x + 4u], right$$y[$x], ROUNDING));
#end
#end
    level[0] = bitcast<u32>(quantised_dc(row0[0] - f32(64u * SAMPLE_OFFSET), is_chroma));
    var present = vec2u(0u);
#unroll k 0..32
    if (2u * $k < WIDE_POSITIONS) {
        words[(LEVELS_START + $k) * WORKGROUP_SIZE + thread] = (level[2u * $k] & 0xffffu) | (level[2u * $k + 1u] << 16u);
    }
    present.x |= select(0u, 0x80000000u >> $k, level[$k + 1u] != ZERO_LEVEL);
    present.y |= select(0u, 0x80000000u >> $k, $k < 31u && level[min($k + 33u, 63u)] != ZERO_LEVEL);
#end
#unroll k 0..16
    if (4u * $k >= WIDE_POSITIONS) {
        words[(BYTES_START + $k) * WORKGROUP_SIZE + thread] = (level[4u * $k] & 0xffu) | ((level[4u * $k + 1u] & 0xffu) << 8u)
            | ((level[4u * $k + 2u] & 0xffu) << 16u) | (level[4u * $k + 3u] << 24u);
    }
#end
    workgroupBarrier();

    // The code of this block, over its levels.
    let of_chroma = thread - select(LUMA_THREADS, 0u, is_chroma == 0u);
    let component = select(1u + of_chroma / MCUS_PER_SPAN, 0u, is_chroma == 0u);
    let mcu = select(of_chroma % MCUS_PER_SPAN, thread / LUMA_BLOCKS, is_chroma == 0u);
    let in_mcu = select(LUMA_BLOCKS + component - 1u, thread % LUMA_BLOCKS, is_chroma == 0u);
    let in_frame = mcu < mcus;
    var dc_difference = 0;
    if (in_frame) {
        let is_first = thread == 0u || (is_chroma == 1u && mcu == 0u);
        var before_dc = 0;
        if (!is_first) {
            before_dc = level_at(0u, dc_thread(corner, thread - 1u));
        } else if (group.x > 0u) {
            before_dc = quantised_dc(f32(i32(atomicLoad(&left_sums[component])) - i32(64u * SAMPLE_OFFSET)), is_chroma);
        }
        dc_difference = level_at(0u, dc_thread(corner, thread)) - before_dc;
        if (is_beyond(corner, thread)) {
            present = vec2u(0u);
        }
    }
    workgroupBarrier();     // all have read the DC that they need
    let ac = is_chroma * 256u;
    let dc = is_chroma * 16u + size_of(dc_difference);
    let is_counted = in_frame && (span * SPAN_BLOCKS + thread) % frame.count_every == 0u;
    position = 1u;
    rest = select(vec2u(0u), present, in_frame);
    pending = 0u;
    length = 0u;
    if (in_frame) {
        count_symbol(512u + dc, is_counted);
        append(symbol_of(tables.dc[dc], dc_difference, size_of(dc_difference)), thread, TO_WORDS, 0u);
        append_levels(ac, thread, TO_WORDS, 0u, is_counted);
    }
    let is_whole = (rest.x | rest.y) == 0u;
    if (in_frame && is_whole) {
        append_end(ac, thread, TO_WORDS, 0u, is_counted);
    }
    let done_rest = rest;
    let done_position = position;
    let done_pending = pending;
    let done_length = length;
    if (!is_whole) {
        append_levels(ac, thread, TO_NOWHERE, 0u, is_counted);
        append_end(ac, thread, TO_NOWHERE, 0u, is_counted);
    }

    // Place: its own among the blocks of the span.
    let order = mcu * BLOCKS_PER_MCU + in_mcu;
    let sum = inclusive_sum(length, order);
    let start = sum.inclusive - length;
    if (order % SEGMENT_BLOCKS == SEGMENT_BLOCKS - 1u) {
        records[span].segment_ends[order / SEGMENT_BLOCKS] = sum.inclusive;
    }
    if (thread == 0u) {
        code_words = (sum.total + 31u) >> 5u;
    }
    let whole_words = workgroupUniformLoad(&code_words);

    let scratch_start = span * frame.span_words;
    for (var first = 0u; first < whole_words; first += TILE_STEP) {
        // Word `first` of the span is the tile's word 1.
        let used = min(TILE_WORDS, whole_words - first + 2u);
        for (var i = thread; i < used; i += WORKGROUP_SIZE) {
            atomicStore(&tile[i], 0u);
        }
        workgroupBarrier();
        if (in_frame) {
            let shift = start & 31u;
            var word = (start >> 5u) + 1u - first;
            var carry = 0u;
            for (var k = 0u; k < (done_length >> 5u); k++) {
                let bits = words[k * WORKGROUP_SIZE + thread];
                put_in_tile(word, carry | (bits >> shift));
                carry = (bits << 1u) << (31u - shift);
                word += 1u;
            }
            pending = carry | (done_pending >> shift);
            carry = (done_pending << 1u) << (31u - shift);
            length = shift + (done_length & 31u);
            if (length >= 32u) {
                put_in_tile(word, pending);
                pending = carry;
                word += 1u;
                length -= 32u;
            }
            if (!is_whole) {
                // The rest of a block that would have overtaken its levels, now that its place is known.
                rest = done_rest;
                position = done_position;
                append_levels(ac, thread, TO_TILE, word, false);
                append_end(ac, thread, TO_TILE, word, false);
            }
            put_in_tile(word + (length >> 5u), pending);
        }
        workgroupBarrier();
        for (var i = thread + 1u; i < used - 1u; i += WORKGROUP_SIZE) {
            let here = atomicLoad(&tile[i]);
            let next = atomicLoad(&tile[i + 1u]);
            let index = first + i - 1u;
            scratch[scratch_start + index] = here;
            // Bit 31 - k is set where two, four, eight ones begin k bits into the word.
            let two = here & window(here, next, 1u);
            let two_next = next & (next << 1u);
            let four = two & window(two, two_next, 2u);
            let four_next = two_next & (two_next << 2u);
            let ones = four & window(four, four_next, 4u);
            if (ones != 0u) {
                for (var k = 0u; k < 8u; k++) {
                    atomicAdd(&stuffing[k], countOneBits(ones & (0x80808080u >> k)));
                }
            }
            if (index == 0u) {
                records[span].head = here >> 24u;
            }
            if (index == whole_words - 1u) {
                // Ends `rest` bits into the word, or with it.
                let rest = sum.total & 31u;
                records[span].tail = select(window(atomicLoad(&tile[i - 1u]), here, rest), here, rest == 0u) & 0xffu;
            }
        }
        workgroupBarrier();
    }
    if (thread < 4u) {
        records[span].stuffing[thread] = atomicLoad(&stuffing[2u * thread]) | (atomicLoad(&stuffing[2u * thread + 1u]) << 16u);
    }
}
