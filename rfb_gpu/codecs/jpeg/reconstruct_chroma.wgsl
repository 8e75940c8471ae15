// Stage 2 where chroma is subsampled: its coefficients to samples. A pixel's colour needs chroma from all around, so it is a stage of its
// own, after which all of it is there.
//
// in:       `list`, `segments`, `entry_dc` from huffman_decode; the quantisation tables
// out:      `chroma`: Cb and Cr of each chroma sample, minus 128, as two f16, rows of whole MCUs
// dispatch: (segments_per_row / GROUP_SEGMENTS, rows), 96 threads
// moves:    the list once, 4 bytes per chroma sample

#import blocks

const FIRST_TAKEN = LUMA_BLOCKS;
const TAKEN = 2u;
const TILE_WIDTH = GROUP_MCUS * 8u;

@group(0) @binding(5) var<storage, read_write> chroma: array<u32>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn reconstruct_chroma(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    decode_blocks(group.y, group.x * GROUP_SEGMENTS, thread);
    let stride = frame.mcus_per_row * 8u;
    for (var i = thread; i < TILE_WIDTH * 2u; i += WORKGROUP_SIZE) {
        let x = i % TILE_WIDTH;
        let half = i / TILE_WIDTH;
        let block = (x >> 3u) * 2u;
        let at = group.x * TILE_WIDTH + x;
        if (at < stride) {
            let cb = four_samples(block, x & 7u, half) - 128.0;
            let cr = four_samples(block + 1u, x & 7u, half) - 128.0;
            let first = (group.y * 8u + half * 4u) * stride + at;
#unroll y 0..4
            chroma[first + $y * stride] = pack2x16float(vec2f(cb[$y], cr[$y]));
#end
        }
    }
}
