// The last stage: coefficients to pixels.
//
// in:       `list`, `segments`, `entry_dc` from huffman_decode; the quantisation tables; `chroma` from reconstruct_chroma, if subsampled
// out:      the texture
// dispatch: (segments_per_row / GROUP_SEGMENTS, rows), 32 threads
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

/// A column of the tile's pixels, `x` from its left edge, from chroma of their own or none.
fn put_column(corner: vec2u, x: u32) {
    let block = (x >> 3u) * TAKEN;
    for (var y = 0u; y < 8u; y++) {
        let luma = sample(block, x & 7u, y);
        var cbcr = vec2f(0.0);
        if (HAS_CHROMA) {
            cbcr = vec2f(sample(block + 1u, x & 7u, y), sample(block + 2u, x & 7u, y));
        }
        put_pixel(corner + vec2u(x, y), luma, cbcr);
    }
}

/// The same with subsampled chroma, a row of which is one or two rows of pixels.
fn put_column_subsampled(corner: vec2u, x: u32) {
    let near = (corner.x + x) >> 1u;
    let far = select(max(near, 1u) - 1u, min(near + 1u, chroma_size().x - 1u), (x & 1u) == 1u);
    let block = (x / MCU_WIDTH) * TAKEN + ((x >> 3u) & 1u);
    let first_row = i32(corner.y / LUMA_DOWN);
    var above = chroma_at(near, far, first_row - 1);
    var here = chroma_at(near, far, first_row);
    for (var y = 0u; y < 8u; y++) {
        let below = chroma_at(near, far, first_row + i32(y) + 1);
        if (LUMA_DOWN == 1u) {
            put_pixel(corner + vec2u(x, y), sample(block, x & 7u, y), here);
        } else {
            let at = corner + vec2u(x, 2u * y);
            let luma_block = block + ((y >> 2u) << 1u);
            let luma_y = (y & 3u) << 1u;
            put_pixel(at, sample(luma_block, x & 7u, luma_y), mix(here, above, far_weight()));
            put_pixel(at + vec2u(0u, 1u), sample(luma_block, x & 7u, luma_y + 1u), mix(here, below, far_weight()));
        }
        above = here;
        here = below;
    }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn reconstruct(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    decode_blocks(group.y, group.x * GROUP_SEGMENTS, thread);
    let corner = vec2u(group.x * TILE_WIDTH, group.y * MCU_HEIGHT);
    // Neighbouring threads write neighbouring pixels.
    for (var x = thread; x < TILE_WIDTH && corner.x + x < frame.width; x += WORKGROUP_SIZE) {
        if (SUBSAMPLED) {
            put_column_subsampled(corner, x);
        } else {
            put_column(corner, x);
        }
    }
}
