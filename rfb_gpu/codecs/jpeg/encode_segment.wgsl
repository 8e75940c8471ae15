// Stage 1 of 3: pixels to Huffman code, one workgroup per segment, one thread per block.
//
// in:       the texture; the tables
// out:      `scratch`: each segment's code, MSB first in 32-bit words, at a place of its own; `records`: where and how long
// dispatch: (segments_per_row, rows), 32 threads for 30 blocks
// moves:    the pixels once (plus one MCU a segment, from cache), the code once
//
// A thread holds its block's 64 coefficients in registers, so both passes of the DCT need no exchange and no barrier. What
// threads share goes through workgroup memory: samples in, the DC of the block before, the lengths, the code out.
//
// The code of a block depends on its own coefficients and on one number from outside: the DC of the block before it. At a
// segment's start that block belongs to another workgroup, so its DC is computed again from its samples. Samples are whole
// numbers (sums of four for subsampled chroma) and DC is a sum without rounding, so both workgroups get the identical number.
//
// Byte stuffing depends on where bytes begin, which is known only after all lengths are. So 0xFF bytes are counted here for
// all eight possible beginnings, and stage 2 picks the count that turned out right.

#import encoder_frame
#import colour
#import dct
#import scan

const WORKGROUP_SIZE = 32u;
const BLOCK_WORDS = 33u;        // 64 samples as pairs of f16, padded by one so that blocks begin in different banks
const SHARED_WORDS = 2048u;     // 64 for each thread
const CODE_WORDS = 1558u;       // 30 blocks of at most 1,660 bits, and one word that may be read past the end

struct Tables {
    reciprocal: array<f32, 128>,    // 1 / (quantiser * AAN scale * samples summed), zigzag order, luma then chroma
    ac: array<u32, 512>,            // code << 5 | length by symbol, luma then chroma
    dc: array<u32, 32>,             // likewise by size
}

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var source: texture_2d<f32>;
@group(0) @binding(2) var<storage, read> tables: Tables;
@group(0) @binding(3) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(4) var<storage, read_write> records: array<u32>;
@group(0) @binding(5) var<storage, read_write> result: array<atomic<u32>>;

// First the samples by block, then by thread: word k * 32 + thread is the thread's level at zigzag position k, and later its
// k-th symbol. A symbol never overtakes the levels that are still to be read.
var<workgroup> words: array<u32, SHARED_WORDS>;
var<workgroup> code: array<atomic<u32>, CODE_WORDS>;
var<workgroup> left_dc: array<atomic<i32>, 3>;         // sample sums of the blocks left of the segment
var<workgroup> ff_counts: array<atomic<u32>, 8>;
var<workgroup> scratch_start: u32;

fn pixel(at: vec2u) -> vec3i {
    let inside = frame.origin + min(at, vec2u(frame.width, frame.height) - 1u);
    var rgb = textureLoad(source, inside, 0).rgb;
    if (LINEAR_SOURCE) {
        // An -srgb texture gives linear values. This brings its 8-bit numbers back, exactly.
        rgb = srgb_encode(rgb);
    }
    return vec3i(round(rgb * 255.0));
}

fn put_pair(block: u32, y: u32, pair: u32, samples: vec2i) {
    words[block * BLOCK_WORDS + y * 4u + pair] = pack2x16float(vec2f(samples));
}

/// Loads two pixels side by side.
fn load_444(thread: u32, corner: vec2u) {
    for (var i = thread; i < MCUS_PER_SEGMENT * 32u; i += WORKGROUP_SIZE) {
        let pair = i % (MCUS_PER_SEGMENT * 4u);
        let y = i / (MCUS_PER_SEGMENT * 4u);
        let at = corner + vec2u(pair * 2u, y);
        let a = pixel(at);
        let b = pixel(at + vec2u(1u, 0u));
        let chroma_a = chroma_of(a);
        let chroma_b = chroma_of(b);
        let block = (pair >> 2u) * 3u;
        put_pair(block, y, pair & 3u, vec2i(luma_of(a), luma_of(b)));
        put_pair(block + 1u, y, pair & 3u, vec2i(chroma_a.x, chroma_b.x));
        put_pair(block + 2u, y, pair & 3u, vec2i(chroma_a.y, chroma_b.y));
    }
}

/// Loads 4x2 pixels: four pairs of luma, and a pair of each chroma as sums of four.
fn load_420(thread: u32, corner: vec2u) {
    for (var i = thread; i < MCUS_PER_SEGMENT * 32u; i += WORKGROUP_SIZE) {
        let column = i % (MCUS_PER_SEGMENT * 4u);
        let y = i / (MCUS_PER_SEGMENT * 4u);
        let mcu = (column >> 2u) * 6u;
        let luma = mcu + ((y >> 2u) << 1u) + ((column >> 1u) & 1u);
        let at = corner + vec2u(column * 4u, y * 2u);
        var chroma_a = vec2i(0);
        var chroma_b = vec2i(0);
        for (var line = 0u; line < 2u; line++) {
            let p0 = pixel(at + vec2u(0u, line));
            let p1 = pixel(at + vec2u(1u, line));
            let p2 = pixel(at + vec2u(2u, line));
            let p3 = pixel(at + vec2u(3u, line));
            let row = ((y & 3u) << 1u) + line;
            let pair = (column & 1u) << 1u;
            put_pair(luma, row, pair, vec2i(luma_of(p0), luma_of(p1)));
            put_pair(luma, row, pair + 1u, vec2i(luma_of(p2), luma_of(p3)));
            chroma_a += chroma_of(p0) + chroma_of(p1);
            chroma_b += chroma_of(p2) + chroma_of(p3);
        }
        put_pair(mcu + 4u, y, column & 3u, vec2i(chroma_a.x, chroma_b.x));
        put_pair(mcu + 5u, y, column & 3u, vec2i(chroma_a.y, chroma_b.y));
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

/// 0x80 in every byte of `word` that is 0xFF, 0 elsewhere.
fn ff_bytes(word: u32) -> u32 {
    let x = ~word;
    return ~(((x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | x | 0x7f7f7f7fu);
}

var<private> last_position: u32;
var<private> symbol_count: u32;
var<private> length: u32;

/// Turns the levels at the positions whose bits are set, from `first` on, into symbols.
fn make_symbols(present: u32, first: u32, ac: u32, thread: u32) {
    var rest = present;
    while (rest != 0u) {
        let position = first + countTrailingZeros(rest);
        rest &= rest - 1u;
        var run = position - last_position - 1u;
        last_position = position;
        while (run > 15u) {
            symbol_count += 1u;
            words[symbol_count * WORKGROUP_SIZE + thread] = tables.ac[ac + 0xf0u];
            length += tables.ac[ac + 0xf0u] & 31u;
            run -= 16u;
        }
        let level = bitcast<i32>(words[position * WORKGROUP_SIZE + thread]);
        let size = size_of(level);
        let symbol = symbol_of(tables.ac[ac + (run << 4u) + size], level, size);
        symbol_count += 1u;
        words[symbol_count * WORKGROUP_SIZE + thread] = symbol;
        length += symbol & 31u;
    }
}

var<private> pending: u32;          // bits of the word that is being filled
var<private> pending_word: u32;
var<private> pending_bits: u32;

/// Appends a symbol to the code at this thread's place.
fn put_symbol(symbol: u32) {
    let count = symbol & 31u;
    let bits = symbol >> 5u;
    let end = pending_bits + count;
    if (end < 32u) {
        pending |= bits << (32u - end);
        pending_bits = end;
    } else {
        atomicOr(&code[pending_word], pending | (bits >> (end - 32u)));
        pending_word += 1u;
        pending_bits = end - 32u;
        // A shift by 32 is not defined; what it would leave is nothing.
        pending = select(bits << ((64u - end) & 31u), 0u, end == 32u);
    }
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

    // Symbols of this block, and their length.
    let in_frame = thread < mcus * BLOCKS_PER_MCU;
    let ac = is_chroma * 256u;
    var dc_symbol = 0u;
    var eob = 0u;
    length = 0u;
    last_position = 0u;
    symbol_count = 0u;
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
        if (is_beyond(corner, block)) {
            low = 0u;
            high = 0u;
        }
        let dc_difference = bitcast<i32>(words[dc_source(corner, block)]) - before_dc;
        let size = size_of(dc_difference);
        dc_symbol = symbol_of(tables.dc[is_chroma * 16u + size], dc_difference, size);
        length = dc_symbol & 31u;
        make_symbols(low & 0xfffffffeu, 0u, ac, thread);
        make_symbols(high, 32u, ac, thread);
        eob = select(tables.ac[ac], 0u, last_position == 63u);
        length += eob & 31u;
    }

    // Place: threads are in the order of the stream.
    let at = inclusive_sum(length, thread) - length;
    let bits = workgroup_sum();
    let code_words = (bits + 31u) >> 5u;
    for (var i = thread; i <= code_words; i += WORKGROUP_SIZE) {
        atomicStore(&code[i], 0u);
    }
    if (thread == 0u) {
        scratch_start = atomicAdd(&result[RESULT_SCRATCH_USED], code_words);
    }
    workgroupBarrier();

    if (in_frame) {
        pending = 0u;
        pending_word = at >> 5u;
        pending_bits = at & 31u;
        put_symbol(dc_symbol);
        for (var n = 1u; n <= symbol_count; n++) {
            put_symbol(words[n * WORKGROUP_SIZE + thread]);
        }
        put_symbol(eob);
        atomicOr(&code[pending_word], pending);
    }
    workgroupBarrier();

    // Out, counting 0xFF bytes on the way.
    for (var i = thread; i < code_words; i += WORKGROUP_SIZE) {
        let word = atomicLoad(&code[i]);
        let next = atomicLoad(&code[i + 1u]);
        if (scratch_start + i < frame.scratch_words) {
            scratch[scratch_start + i] = word;
        } else {
            atomicOr(&result[RESULT_FLAGS], FLAG_OVERFLOW);
        }
        // A byte of ones at any offset needs eight ones in a row: rare enough to look first.
        var ones = word & ((word << 1u) | (next >> 31u));
        ones &= (word << 2u) | (next >> 30u);
        ones &= (word << 3u) | (next >> 29u);
        ones &= (word << 4u) | (next >> 28u);
        ones &= (word << 5u) | (next >> 27u);
        ones &= (word << 6u) | (next >> 26u);
        ones &= (word << 7u) | (next >> 25u);
        // Bit 31 - k is set where a byte of ones begins k bits into the word.
        while (ones != 0u) {
            let k = countLeadingZeros(ones);
            ones &= 0x7fffffffu >> k;
            if (i * 32u + k + 8u <= bits) {
                atomicAdd(&ff_counts[k & 7u], 1u);
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
