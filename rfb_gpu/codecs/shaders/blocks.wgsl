// The blocks of some segments, from the list to samples, one thread per block: dequantisation and inverse DCT.
// The stage says which blocks of each MCU it takes: TAKEN of them from FIRST_TAKEN on.
//
// A thread holds its block's 64 values in registers, so that both passes of the inverse DCT need no exchange and no barrier. Workgroup
// memory brings the coefficients there: the list has them in the stream's order.
//
// DC is coded as differences along a row. The list has it summed up from its entry's start; the entries of the row before that one are
// added here, of which there are few.

#import decoder_frame
#import dct
#import rounding

const WORKGROUP_SIZE = 32u;
const BLOCK_WORDS = 65u;        // 64 coefficients, padded by one so that blocks begin in different banks; then the samples as pairs of f16
const SHARED_WORDS = 2080u;
const GROUP_SEGMENTS = WORKGROUP_SIZE / (TAKEN * MCUS_PER_SEGMENT);
const GROUP_MCUS = GROUP_SEGMENTS * MCUS_PER_SEGMENT;

struct Tables {
    // By component and zigzag position: quantiser * AAN scale / 255, so that samples are 0..1.
    multiplier: array<f32, 192>,
    natural: array<u32, 64>,        // natural index by zigzag position
}

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> tables: Tables;
@group(0) @binding(2) var<storage, read> list: array<u32>;
@group(0) @binding(3) var<storage, read> segments: array<vec2u>;
@group(0) @binding(4) var<storage, read> entry_dc: array<vec4i>;

var<workgroup> words: array<u32, SHARED_WORDS>;
var<workgroup> dc_before: array<atomic<i32>, 12>;       // by segment of the workgroup and component

/// What DC stands for when it is 0. The fraction is larger than all rounding errors: halves go up, as in libjpeg, where to the nearest
/// even number would make white grey at one quality in eight.
const MIDDLE = (128.0 + 1.0 / 1024.0) / 255.0;

/// Samples are 8-bit numbers in the standard, and what follows starts from these. `middle` is what chroma is counted from.
fn sample_of(value: f32, middle: f32) -> f32 {
    return rounded(saturate(value) * 255.0) - middle;
}

/// Adds up DC over the entries of the row before the one that each segment lies in.
fn sum_dc_before(row: u32, first_segment: u32, thread: u32) {
    let end = min(first_segment + GROUP_SEGMENTS, frame.segments_per_row);
    let row_start = row * frame.segments_per_row;
    for (var segment = first_segment; segment < end; segment++) {
        let entry = segments[row_start + segment].y >> SEGMENT_ENTRY_SHIFT;
        let place = (segment - first_segment) * 3u;
        for (var back = thread + 1u; back <= entry; back += WORKGROUP_SIZE) {
            let dc = entry_dc[entry - back];
            if (u32(dc.w) < row_start) {
                break;
            }
            atomicAdd(&dc_before[place], dc.x);
            atomicAdd(&dc_before[place + 1u], dc.y);
            atomicAdd(&dc_before[place + 2u], dc.z);
        }
    }
}

/// Dequantises, each coefficient to its place.
fn place_coefficients(row: u32, first_segment: u32, thread: u32) {
    let end = min(first_segment + GROUP_SEGMENTS, frame.segments_per_row);
    for (var segment = first_segment; segment < end; segment++) {
        let part = segments[row * frame.segments_per_row + segment];
        let length = part.y & ((1u << SEGMENT_ENTRY_SHIFT) - 1u);
        let part_end = min(part.x + min(length, SEGMENT_COEFFICIENTS), frame.list_words);
        let group_segment = segment - first_segment;
        for (var i = part.x + thread; i < part_end; i += WORKGROUP_SIZE) {
            let element = list[i];
            let block = min(element >> 22u, SEGMENT_BLOCKS - 1u);
            let block_of_mcu = block % BLOCKS_PER_MCU;
            let taken = block_of_mcu - FIRST_TAKEN;         // beyond TAKEN if it is one before these
            if (taken < TAKEN) {
                let component = component_of(block_of_mcu);
                let position = (element >> 16u) & 63u;
                var level = i32(element << 16u) >> 16u;
                var middle = 0.0;
                if (position == 0u) {
                    level = ((level + atomicLoad(&dc_before[group_segment * 3u + component])) << 16u) >> 16u;
                    middle = MIDDLE;
                }
                let mcu = group_segment * MCUS_PER_SEGMENT + block / BLOCKS_PER_MCU;
                words[(mcu * TAKEN + taken) * BLOCK_WORDS + tables.natural[position]] =
                    bitcast<u32>(fma(float_of(level), tables.multiplier[component * 64u + position], middle));
            }
        }
    }
}

/// Inverse DCT of this thread's block: columns, then rows. Leaves the samples in place of the coefficients.
fn transform_block(thread: u32) {
    let base = thread * BLOCK_WORDS;
    let middle = select(128.0, 0.0, component_of(FIRST_TAKEN + thread % TAKEN) == 0u);
#unroll x 0..8
    let column$$x = idct8(array<f32, 8>(
#unroll y 0..8
        bitcast<f32>(words[base + $y * 8u + $x]),
#end
    ));
#end
#unroll y 0..8
    let row$$y = idct8(array<f32, 8>(
#unroll x 0..8
        column$$x[$y],
#end
    ));
#unroll pair 0..4
    words[base + $y * 4u + $pair] =
        pack2x16float(vec2f(sample_of(row$$y[2u * $pair], middle), sample_of(row$$y[2u * $pair + 1u], middle)));
#end
#end
}

/// Decodes the workgroup's blocks. Every thread must call it; `sample` gives what came of it.
fn decode_blocks(row: u32, first_segment: u32, thread: u32) {
    // WGSL says that workgroup memory begins as zeros, but wgpu-native leaves that out.
#unroll i 0..64
    words[thread * BLOCK_WORDS + $i] = 0u;
#end
    if (thread < 12u) {
        atomicStore(&dc_before[thread], 0);
    }
    workgroupBarrier();
    sum_dc_before(row, first_segment, thread);
    workgroupBarrier();
    place_coefficients(row, first_segment, thread);
    workgroupBarrier();
    transform_block(thread);
    workgroupBarrier();
}

/// A sample of the nth block taken: of luma 0..255, of chroma minus 128.
fn sample(block: u32, x: u32, y: u32) -> f32 {
    let pair = unpack2x16float(words[block * BLOCK_WORDS + y * 4u + (x >> 1u)]);
    return select(pair.x, pair.y, (x & 1u) == 1u);
}
