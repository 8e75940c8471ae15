// Stage 2 of 2: coefficients to pixels, one workgroup per segment of 24 blocks.
//
// in:       `list`, `segments`, `entry_dc` from huffman_decode; the quantisation tables
// out:      the texture
// dispatch: (segments_per_row, rows), 192 threads = 24 blocks x 8 lanes
// moves:    the list once, the pixels once
//
// DC is coded as differences along a row. The list has it summed up from its entry's start; the entries of the row before that one are
// added here, of which there are few.

#import decoder_frame
#import colour
#import dct

const WORKGROUP_SIZE = 192u;
const LANES = 8u;
const ROW = 9u;                 // padded by one so that columns hit different banks
const BLOCK = 72u;
const SAMPLES = 1728u;          // 24 blocks

struct Tables {
    multiplier: array<f32, 192>,    // quantiser * AAN scale by component and zigzag position
    natural: array<u32, 64>,        // natural index by zigzag position
}

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> tables: Tables;
@group(0) @binding(2) var<storage, read> list: array<u32>;
@group(0) @binding(3) var<storage, read> segments: array<vec2u>;
@group(0) @binding(4) var<storage, read> entry_dc: array<vec4i>;
@group(0) @binding(5) var picture: texture_storage_2d<rgba8unorm, write>;

var<workgroup> blocks: array<f32, SAMPLES>;
var<workgroup> dc_before: array<atomic<i32>, 3>;

fn sample(block: u32, y: u32, x: u32) -> f32 {
    return blocks[block * BLOCK + y * ROW + x];
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn reconstruct(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let segment = group.y * frame.segments_per_row + group.x;
    for (var i = thread; i < SAMPLES; i += WORKGROUP_SIZE) {
        blocks[i] = 0.0;
    }
    if (thread < 3u) {
        atomicStore(&dc_before[thread], 0);
    }
    workgroupBarrier();

    let entry = group.x * MCUS_PER_SEGMENT / frame.mcus_per_entry;
    for (var i = thread; i < entry; i += WORKGROUP_SIZE) {
        let dc = entry_dc[group.y * frame.entries_per_row + i];
        atomicAdd(&dc_before[0], dc.x);
        atomicAdd(&dc_before[1], dc.y);
        atomicAdd(&dc_before[2], dc.z);
    }
    workgroupBarrier();

    // Dequantise, each coefficient to its place.
    let part = segments[segment];
    let end = min(part.x + min(part.y, SEGMENT_COEFFICIENTS), frame.list_words);
    for (var i = part.x + thread; i < end; i += WORKGROUP_SIZE) {
        let element = list[i];
        let block = min(element >> 22u, SEGMENT_BLOCKS - 1u);
        let position = (element >> 16u) & 63u;
        let component = component_of(block);
        var level = i32(element << 16u) >> 16u;
        if (position == 0u) {
            level += atomicLoad(&dc_before[component]);
        }
        let natural = tables.natural[position];
        blocks[block * BLOCK + (natural >> 3u) * ROW + (natural & 7u)] =
            f32(level) * tables.multiplier[component * 64u + position];
    }
    workgroupBarrier();

    // Inverse DCT: columns, then rows.
    let base = (thread / LANES) * BLOCK;
    let lane = thread % LANES;
    var v: array<f32, 8>;
    for (var i = 0u; i < 8u; i++) {
        v[i] = blocks[base + i * ROW + lane];
    }
    v = idct8(v);
    for (var i = 0u; i < 8u; i++) {
        blocks[base + i * ROW + lane] = v[i];
    }
    workgroupBarrier();
    for (var i = 0u; i < 8u; i++) {
        v[i] = blocks[base + lane * ROW + i];
    }
    v = idct8(v);
    for (var i = 0u; i < 8u; i++) {
        // Samples are 8-bit numbers in the standard; colour conversion starts from these.
        blocks[base + lane * ROW + i] = clamp(round(v[i]), -128.0, 127.0);
    }
    workgroupBarrier();

    let tile = vec2u(MCUS_PER_SEGMENT * MCU_SIZE, MCU_SIZE);
    let corner = group.xy * tile;
    for (var i = thread; i < tile.x * tile.y; i += WORKGROUP_SIZE) {
        let x = i % tile.x;
        let y = i / tile.x;
        let first = (x / MCU_SIZE) * BLOCKS_PER_MCU;
        var ycc: vec3f;
        if (SUBSAMPLED) {
            let luma = first + ((y >> 3u) << 1u) + ((x >> 3u) & 1u);
            let cx = (x & 15u) >> 1u;
            ycc = vec3f(sample(luma, y & 7u, x & 7u), sample(first + 4u, y >> 1u, cx), sample(first + 5u, y >> 1u, cx));
        } else {
            ycc = vec3f(sample(first, y, x & 7u), sample(first + 1u, y, x & 7u), sample(first + 2u, y, x & 7u));
        }
        let at = corner + vec2u(x, y);
        if (at.x < frame.width && at.y < frame.height) {
            textureStore(picture, at, vec4f(rgb_of(ycc.x, ycc.y, ycc.z), 1.0));
        }
    }
}
