// The last stage: coefficients to pixels.
//
// in:       `list`, `segments`, `entry_dc` from huffman_decode; the quantisation tables; `chroma` from reconstruct_chroma, if subsampled
// out:      the texture
// dispatch: (segments_per_row / GROUP_SEGMENTS, rows), 96 threads
// moves:    the list once, chroma once, the pixels once
//
// Subsampled chroma is interpolated as libjpeg's "fancy upsampling" does, and with it all browsers: chroma samples sit in the middle of
// the pixels that they stand for, so a pixel takes 3/4 of the nearer and 1/4 of the farther one, in each direction; at the edges
// of the picture the last sample is repeated.

#import blocks
#import colour

const FIRST_TAKEN = 0u;
const TAKEN = select(BLOCKS_PER_MCU, LUMA_BLOCKS, SUBSAMPLED);
const TILE_WIDTH = GROUP_MCUS * MCU_WIDTH;

@group(0) @binding(5) var<storage, read> chroma: array<u32>;
@group(0) @binding(6) var picture: texture_storage_2d<rgba8unorm, write>;

/// Of chroma as coded, without what fills up the last MCU.
fn chroma_size() -> vec2u {
    return (vec2u(frame.width, frame.height) + vec2u(LUMA_ACROSS, LUMA_DOWN) - 1u) / vec2u(LUMA_ACROSS, LUMA_DOWN);
}

/// The weight of the farther sample. As libjpeg does, a picture of one or two chroma columns is not interpolated.
fn far_weight() -> f32 {
    return select(0.25, 0.0, chroma_size().x <= 2u);
}

/// Cb and Cr for a column of pixels between the chroma columns `near` and `far`, in a row of chroma.
fn chroma_at(near: u32, far: u32, y: i32) -> vec2f {
    let row = u32(clamp(y, 0, i32(chroma_size().y) - 1)) * frame.mcus_per_row * 8u;
    return mix(unpack2x16float(chroma[row + near]), unpack2x16float(chroma[row + far]), far_weight());
}

fn put_pixel(at: vec2u, luma: f32, cbcr: vec2f) {
    if (at.y < frame.height) {
        textureStore(picture, at, vec4f(rgb_of(luma, cbcr.x, cbcr.y), 1.0));
    }
}

/// Four of the tile's pixels, one below the other, from chroma of their own or none.
fn put_four(corner: vec2u, x: u32, half: u32) {
    let block = (x >> 3u) * TAKEN;
    let luma = four_samples(block, x & 7u, half);
    var cb = vec4f(0.0);
    var cr = vec4f(0.0);
    if (HAS_CHROMA) {
        cb = four_samples(block + 1u, x & 7u, half) - 128.0;
        cr = four_samples(block + 2u, x & 7u, half) - 128.0;
    }
#unroll y 0..4
    put_pixel(corner + vec2u(x, half * 4u + $y), luma[$y], vec2f(cb[$y], cr[$y]));
#end
}

/// The same for pixels of four rows of subsampled chroma, each of which is one or two rows of pixels.
fn put_four_subsampled(corner: vec2u, x: u32, half: u32) {
    let near = (corner.x + x) >> 1u;
    let far = select(max(near, 1u) - 1u, min(near + 1u, chroma_size().x - 1u), (x & 1u) == 1u);
    let block = (x / MCU_WIDTH) * TAKEN + ((x >> 3u) & 1u);
    let first_row = i32(corner.y / LUMA_DOWN + half * 4u);
    if (LUMA_DOWN == 1u) {
        let luma = four_samples(block, x & 7u, half);
#unroll y 0..4
        let c$$y = chroma_at(near, far, first_row + i32($y));
#end
#unroll y 0..4
        put_pixel(corner + vec2u(x, half * 4u + $y), luma[$y], c$$y);
#end
    } else {
        // All are written before the first is used, so that they are under way together. The first is that of the row above.
#unroll y 0..6
        let c$$y = chroma_at(near, far, first_row + i32($y) - 1);
#end
        let upper = four_samples(block + 2u * half, x & 7u, 0u);
        let lower = four_samples(block + 2u * half, x & 7u, 1u);
        let luma = array<f32, 8>(upper.x, upper.y, upper.z, upper.w, lower.x, lower.y, lower.z, lower.w);
        let weight = far_weight();
        let at = corner + vec2u(x, half * 8u);
        put_pixel(at, luma[0], mix(c1, c0, weight));
        put_pixel(at + vec2u(0u, 1u), luma[1], mix(c1, c2, weight));
        put_pixel(at + vec2u(0u, 2u), luma[2], mix(c2, c1, weight));
        put_pixel(at + vec2u(0u, 3u), luma[3], mix(c2, c3, weight));
        put_pixel(at + vec2u(0u, 4u), luma[4], mix(c3, c2, weight));
        put_pixel(at + vec2u(0u, 5u), luma[5], mix(c3, c4, weight));
        put_pixel(at + vec2u(0u, 6u), luma[6], mix(c4, c3, weight));
        put_pixel(at + vec2u(0u, 7u), luma[7], mix(c4, c5, weight));
    }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn reconstruct(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    decode_blocks(group.y, group.x * GROUP_SEGMENTS, thread);
    let corner = vec2u(group.x * TILE_WIDTH, group.y * MCU_HEIGHT);
    // Neighbouring threads write neighbouring pixels.
    for (var i = thread; i < TILE_WIDTH * 2u; i += WORKGROUP_SIZE) {
        let x = i % TILE_WIDTH;
        if (corner.x + x < frame.width) {
            if (SUBSAMPLED) {
                put_four_subsampled(corner, x, i / TILE_WIDTH);
            } else {
                put_four(corner, x, i / TILE_WIDTH);
            }
        }
    }
}
