// The blocks of some segments, from the list to samples, one thread per block: dequantisation and inverse DCT.
// The stage says which blocks of each MCU it takes: TAKEN of them from FIRST_TAKEN on.
//
// A thread holds its block's 64 values in registers, so that both passes of the inverse DCT need no exchange and no barrier. Workgroup
// memory brings the levels there, since the list has them in the stream's order, and then the samples to whoever needs them. There
// is little of it, since it decides how many workgroups a GPU keeps under way: levels are pairs of 16 bits, samples four bytes.
//
// DC is coded as differences along a row. The list has it summed up from its entry's start; the entries of the row before that one are
// added here.

#import decoder_frame
#import dct

const WORKGROUP_SIZE = 96u;
const BLOCK_WORDS = 33u;        // 64 levels as pairs, padded by one so that blocks begin in different banks
const SHARED_WORDS = WORKGROUP_SIZE * BLOCK_WORDS;
const SAMPLE_WORDS = 17u;       // 64 samples: words 0..7 have the upper four of each column, words 8..15 the lower four
const GROUP_SEGMENTS = WORKGROUP_SIZE / (TAKEN * MCUS_PER_SEGMENT);
const GROUP_MCUS = GROUP_SEGMENTS * MCUS_PER_SEGMENT;
const GROUP_BLOCKS = GROUP_SEGMENTS * SEGMENT_BLOCKS;
const TAKES_CHROMA = FIRST_TAKEN > 0u;

struct Tables {
    // By component, row by row, two vectors each: quantiser * AAN scale / 255, so that samples are 0..1.
    multiplier: array<vec4f, 48>,
}

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> tables: Tables;
@group(0) @binding(2) var<storage, read> list: array<u32>;
@group(0) @binding(3) var<storage, read> segments: array<vec4u>;
@group(0) @binding(4) var<storage, read> entry_dc: array<vec4i>;

var<workgroup> words: array<atomic<u32>, SHARED_WORDS>;
// A part is what the workgroup has of an entry: these begin and end in the list.
var<workgroup> part_starts: array<u32, GROUP_SEGMENTS>;
var<workgroup> part_ends: array<u32, GROUP_SEGMENTS>;
var<workgroup> part_dc: array<vec3i, GROUP_SEGMENTS>;       // what the entry adds to DC
var<workgroup> dc_before: array<atomic<i32>, 3>;            // the sum of that over the row's entries before the first part's

/// What DC stands for when it is 0. The fraction is larger than all rounding errors: halves go up, as in libjpeg, where to the nearest
/// even number would make white grey at one quality in eight.
const MIDDLE = (128.0 + 1.0 / 1024.0) / 255.0;

fn entry_of(segment: u32) -> u32 {
    return segments[segment].y >> SEGMENT_ENTRY_SHIFT;
}

/// Puts a coefficient to its place, if it is one of the blocks that are taken.
fn place(element: u32, first_block: u32) {
    let block = ((element >> ELEMENT_BLOCK_SHIFT) - first_block) & (ELEMENT_BLOCKS - 1u);
    let taken = block % BLOCKS_PER_MCU - FIRST_TAKEN;       // beyond TAKEN if it is one before these
    if (block < GROUP_BLOCKS && taken < TAKEN) {
        let position = (element >> 16u) & 63u;
        let word = (block / BLOCKS_PER_MCU * TAKEN + taken) * BLOCK_WORDS + (position >> 1u);
        atomicOr(&words[word], (element & 0xffffu) << ((position & 1u) << 4u));
    }
}

/// The levels of a part of the list.
fn place_levels(start: u32, end: u32, first_block: u32, step: u32) {
    for (var i = start; i < end; i += 4u * step) {
        // Four at a time, under way together.
        let a = list[i];
        let b = list[min(i + step, end - 1u)];
        let c = list[min(i + 2u * step, end - 1u)];
        let d = list[min(i + 3u * step, end - 1u)];
        place(a, first_block);
        if (i + step < end) {
            place(b, first_block);
        }
        if (i + 2u * step < end) {
            place(c, first_block);
        }
        if (i + 3u * step < end) {
            place(d, first_block);
        }
    }
}

/// Decodes the workgroup's blocks. Every thread must call it; `four_samples` gives what came of it.
fn decode_blocks(row: u32, first_segment: u32, thread: u32) {
    // WGSL says that workgroup memory begins as zeros, but wgpu-native leaves that out.
#unroll i 0..32
    atomicStore(&words[thread * BLOCK_WORDS + $i], 0u);
#end
    if (thread < 3u) {
        atomicStore(&dc_before[thread], 0);
    }
    let row_start = row * frame.segments_per_row;
    let first = row_start + first_segment;
    let last = row_start + min(first_segment + GROUP_SEGMENTS, frame.segments_per_row) - 1u;
    let first_entry = entry_of(first);
    let row_entry = entry_of(row_start);
    let parts = min(entry_of(last) - first_entry, GROUP_SEGMENTS - 1u) + 1u;
    let block_part = entry_of(min(first + thread / (TAKEN * MCUS_PER_SEGMENT), last)) - first_entry;
    if (first + thread <= last) {
        let segment = segments[first + thread];
        let entry = segment.y >> SEGMENT_ENTRY_SHIFT;
        let part = entry - first_entry;
        let length = segment.y & ((1u << SEGMENT_ENTRY_SHIFT) - 1u);
        if (thread == 0u || entry_of(first + thread - 1u) != entry) {
            if (TAKES_CHROMA) {
                part_ends[part] = segment.z + segment.w;
            } else {
                part_starts[part] = segment.x;
            }
            part_dc[part] = entry_dc[entry].xyz;
        }
        if (first + thread == last || entry_of(first + thread + 1u) != entry) {
            if (TAKES_CHROMA) {
                part_starts[part] = segment.z;
            } else {
                part_ends[part] = segment.x + length;
            }
        }
    }
    workgroupBarrier();
    for (var entry = row_entry + thread; entry < first_entry; entry += WORKGROUP_SIZE) {
        let dc = entry_dc[entry];
        atomicAdd(&dc_before[0], dc.x);
        atomicAdd(&dc_before[1], dc.y);
        atomicAdd(&dc_before[2], dc.z);
    }
    // The parts are about equally long, so each gets equally many threads.
    let step = WORKGROUP_SIZE / parts;
    let part = thread / step;
    let lane = thread % step;
    if (part < parts) {
        let end = min(part_ends[part], frame.list_words);
        place_levels(part_starts[part] + lane, end, first_segment * SEGMENT_BLOCKS, step);
    }
    workgroupBarrier();

    // Inverse DCT of this thread's block: rows, then columns.
    let component = component_of(FIRST_TAKEN + thread % TAKEN);
    let base = thread * BLOCK_WORDS;
#unroll k 0..32
    let pair$$k = atomicLoad(&words[base + $k]);
#end
    // Two levels to a word; the names are those of their zigzag positions.
#unroll k 0..32
    let level$$k_0 = f32(i32(pair$$k << 16u) >> 16u);
    let level$$k_1 = f32(i32(pair$$k) >> 16u);
#end
    let zigzag = array<f32, 64>(
#unroll k 0..32
        level$$k_0, level$$k_1,
#end
    );
    var dc_sum = atomicLoad(&dc_before[component]);
    for (var part = 0u; part < min(block_part, GROUP_SEGMENTS); part++) {
        dc_sum += part_dc[part][component];
    }
    let dc = f32((i32((pair0 & 0xffffu) + u32(dc_sum)) << 16u) >> 16u);
#unroll y 0..8
    let left$$y = tables.multiplier[component * 16u + 2u * $y];
    let right$$y = tables.multiplier[component * 16u + 2u * $y + 1u];
    let row$$y = idct8(array<f32, 8>(
        select(zigzag[ZIGZAG_POSITION[$y * 8u]] * left$$y.x, fma(dc, left$$y.x, MIDDLE), $y == 0u),
        zigzag[ZIGZAG_POSITION[$y * 8u + 1u]] * left$$y.y,
        zigzag[ZIGZAG_POSITION[$y * 8u + 2u]] * left$$y.z,
        zigzag[ZIGZAG_POSITION[$y * 8u + 3u]] * left$$y.w,
        zigzag[ZIGZAG_POSITION[$y * 8u + 4u]] * right$$y.x,
        zigzag[ZIGZAG_POSITION[$y * 8u + 5u]] * right$$y.y,
        zigzag[ZIGZAG_POSITION[$y * 8u + 6u]] * right$$y.z,
        zigzag[ZIGZAG_POSITION[$y * 8u + 7u]] * right$$y.w,
    ));
#end
    workgroupBarrier();     // all levels are read: their memory is the samples' now
#unroll x 0..8
    let column$$x = idct8(array<f32, 8>(
        row0[$x], row1[$x], row2[$x], row3[$x], row4[$x], row5[$x], row6[$x], row7[$x],
    ));
    // Samples are 8-bit numbers in the standard, and what follows starts from these.
    atomicStore(
        &words[thread * SAMPLE_WORDS + $x],
        pack4x8unorm(vec4f(column$$x[0], column$$x[1], column$$x[2], column$$x[3])),
    );
    atomicStore(
        &words[thread * SAMPLE_WORDS + $x + 8u],
        pack4x8unorm(vec4f(column$$x[4], column$$x[5], column$$x[6], column$$x[7])),
    );
#end
    workgroupBarrier();
}

/// Four samples of the nth block taken, 0..255, one below the other: the upper or the lower half of column x.
fn four_samples(block: u32, x: u32, half: u32) -> vec4f {
    let bytes = atomicLoad(&words[block * SAMPLE_WORDS + half * 8u + x]);
    return vec4f(f32(bytes & 0xffu), f32((bytes >> 8u) & 0xffu), f32((bytes >> 16u) & 0xffu), f32(bytes >> 24u));
}
