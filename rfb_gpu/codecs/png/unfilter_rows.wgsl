// Stage 2 of 2: rows of residuals to pixels, a thread per row, a workgroup per stripe.
//
// in:       `rows`; `palette`
// out:      `picture`
// dispatch: (stripes, parts of a row), a thread for each row
// moves:    each byte once, each texel once
//
// A pixel needs the one to its left and two of the row above. So each row goes a step behind the one above it, four pixels a step, and
// finds what that one made in the step before in workgroup memory. Where no row of a stripe is filtered, nothing waits: threads go along
// each row together, and parts of rows have workgroups of their own.

#import png_rows
#import png_pixels

const WORKGROUP_SIZE = STRIPE_ROWS;
const SUB = 1u;
const UP = 2u;
const AVERAGE = 3u;
const PAETH = 4u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> rows: array<u32>;
@group(0) @binding(2) var<storage, read> palette: array<u32>;
@group(0) @binding(3) var picture: texture_storage_2d<rgba8unorm, write>;

// Four pixels of each row, from this step and from the one before.
var<workgroup> made: array<vec4u, 2 * STRIPE_ROWS>;
var<workgroup> kinds: array<u32, STRIPE_ROWS>;
var<workgroup> is_filtered: u32;

fn unpacked(pixel: u32) -> vec4i {
    return vec4i((vec4u(pixel) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(0xffu));
}

fn packed(pixel: vec4i) -> u32 {
    let bytes = vec4u(pixel) & vec4u(0xffu);
    return bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u);
}

/// The bytes of four pixels.
fn four_pixels(at: u32) -> vec4u {
    if (CHANNELS == 4u) {
        return vec4u(rows[at], rows[at + 1u], rows[at + 2u], rows[at + 3u]);
    }
    if (CHANNELS == 3u) {
        return vec4u(rows[at], rows[at + 1u], rows[at + 2u], 0u);
    }
    return vec4u(rows[at], 0u, 0u, 0u);
}

/// Pixel k of them.
fn residual(words: vec4u, k: u32) -> u32 {
    if (CHANNELS == 4u) {
        return words[k];
    }
    if (CHANNELS == 3u) {
        return colour_of(words.xyz, k);
    }
    return (words.x >> (8u * k)) & 0xffu;
}

fn texel(pixel: vec4i) -> vec4f {
    var rgba = pixel;
    if (HAS_PALETTE) {
        rgba = unpacked(palette[u32(pixel.x)]);
    } else if (CHANNELS == 3u) {
        rgba.w = 255;
    } else if (CHANNELS == 1u) {
        rgba = vec4i(pixel.xxx, 255);
    }
    if (PREMULTIPLIED) {
        rgba = vec4i((rgba.rgb * rgba.a + 127) / 255, rgba.a);
    }
    return vec4f(rgba) / 255.0;
}

/// Whether any row of the stripe is filtered; every thread of the workgroup must call it, with its row's filter.
fn find_filters(filter_kind: u32, thread: u32) -> bool {
    kinds[thread] = filter_kind;
    workgroupBarrier();
    if (thread == 0u) {
        var any = 0u;
        for (var row = 0u; row < STRIPE_ROWS; row++) {
            any |= kinds[row];
        }
        // Not added up there: what workgroup memory holds at first is left from others, where wgpu's own library runs the shader.
        is_filtered = any;
    }
    return workgroupUniformLoad(&is_filtered) != 0u;
}

/// Rows of pixels as they are.
fn copy_rows(group: vec2u, parts: u32, thread: u32) {
    let quads = (frame.width + 3u) / 4u;
    let end = quads * (group.y + 1u) / parts;
    let rows_end = min((group.x + 1u) * STRIPE_ROWS, frame.height);
    for (var y = group.x * STRIPE_ROWS; y < rows_end; y++) {
        for (var quad = quads * group.y / parts + thread; quad < end; quad += WORKGROUP_SIZE) {
            let words = four_pixels(y * frame.row_words + 1u + quad * CHANNELS);
#unroll k 0..4
            if (quad * 4u + $k < frame.width) {
                textureStore(picture, vec2u(quad * 4u + $k, y + frame.top), texel(unpacked(residual(words, $k))));
            }
#end
        }
    }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn unfilter_rows(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) group_count: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let y = group.x * STRIPE_ROWS + thread;
    let quads = (frame.width + 3u) / 4u;
    let base = y * frame.row_words;
    var filter_kind = 0u;
    if (y < frame.height) {
        filter_kind = rows[base] >> 24u;
    }
    if (!find_filters(filter_kind, thread)) {
        copy_rows(group.xy, group_count.y, thread);
        return;
    }
    if (group.y > 0u) {
        return;
    }
    var left = vec4i(0);
    var corner = vec4i(0);
    // Asked for a step ahead of their use. Behind the last row is room for what is read too much.
    var ahead = four_pixels(base + 1u);
    for (var step = 0u; step < quads + STRIPE_ROWS - 1u; step++) {
        let quad = step - thread;           // beyond all others where it is negative
        let half = (step & 1u) * STRIPE_ROWS;
        if (quad < quads && y < frame.height) {
            var above = vec4u(0u);
            if (thread > 0u) {
                above = made[(STRIPE_ROWS - half) + thread - 1u];
            }
            var here = vec4u(0u);
            let words = ahead;
            ahead = four_pixels(base + 1u + (quad + 1u) * CHANNELS);
#unroll k 0..4
            {
                let up = unpacked(above[$k]);
                var prediction = vec4i(0);
                switch (filter_kind) {
                    case SUB: { prediction = left; }
                    case UP: { prediction = up; }
                    case AVERAGE: { prediction = (left + up) >> vec4u(1u); }
                    case PAETH: { prediction = paeth(left, up, corner); }
                    default: {}
                }
                left = (unpacked(residual(words, $k)) + prediction) & vec4i(0xff);
                corner = up;
                here[$k] = packed(left);
                let x = quad * 4u + $k;
                if (x < frame.width) {
                    textureStore(picture, vec2u(x, y + frame.top), texel(left));
                }
            }
#end
            made[half + thread] = here;
        }
        workgroupBarrier();
    }
}
