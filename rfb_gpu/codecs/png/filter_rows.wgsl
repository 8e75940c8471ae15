// Stage 1 of 4: the residuals of every row after the filter that suits it best, and its bytes as they are, one workgroup per row.
//
// in:       `source`: the texture
// out:      `filtered`, `unfiltered`; `statistics`: the rows' sums for Adler-32
// dispatch: (rows), 64 threads, four pixels a thread at a time
// moves:    each texel twice (and those above), each byte twice
//
// The filters are Sub, Up and Paeth (PNG specification, section 9). The first row of a stripe takes nothing from the row above, so that
// a decoder can begin there. Which filter suits best tells a sum over the residuals of about as many bits as they take: the usual sum
// of magnitudes values zeros too little where most of a row is zeros.

#import png_frame
#import png_pixels
#import srgb

const WORKGROUP_SIZE = 64u;
const SUB = 1u;
const UP = 2u;
const PAETH = 4u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var source: texture_2d<f32>;
@group(0) @binding(2) var<storage, read_write> filtered: array<u32>;
@group(0) @binding(3) var<storage, read_write> unfiltered: array<u32>;
@group(0) @binding(4) var<storage, read_write> statistics: array<u32>;

var<workgroup> costs: array<atomic<u32>, 3>;
var<workgroup> sums: array<atomic<u32>, 4>;

/// The channels of a pixel; zeros outside of the frame.
fn pixel(x: u32, y: u32) -> vec4i {
    if (x >= frame.width || y >= frame.height) {
        return vec4i(0);
    }
    let texel = textureLoad(source, frame.origin + vec2u(x, y), 0);
    var rgb = select(texel.rgb, srgb_encode(texel.rgb), LINEAR_SOURCE);
    if (PREMULTIPLIED) {
        rgb = straight_colour(texel, LINEAR_SOURCE);
    }
    let value = vec4i(vec4f(rgb, texel.a) * 255.0 + 0.5);
    if (CHANNELS == 1u) {
        // BT.601 with 16 fractional bits, which leaves grays as they are.
        return vec4i((19595 * value.r + 38470 * value.g + 7471 * value.b + 0x8000) >> 16u, 0, 0, 0);
    }
    return value;
}

fn cost(residual: vec4i) -> u32 {
    let magnitude = abs((residual << vec4u(24u)) >> vec4u(24u));
    let bits = 32u - countLeadingZeros(vec4u(magnitude));
    var sum = bits.x;
    if (CHANNELS > 1u) {
        sum += bits.y + bits.z;
    }
    if (CHANNELS > 3u) {
        sum += bits.w;
    }
    return sum;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn filter_rows(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let y = group.x;
    let is_first = y % STRIPE_ROWS == 0u;
    let quads = (frame.width + 3u) / 4u;
    if (thread < 4u) {
        atomicStore(&costs[min(thread, 2u)], 0u);
        atomicStore(&sums[thread], 0u);
    }
    workgroupBarrier();
    // Above the first row lie zeros. Off its left end they lie too, which outside() gives: x is -1, so beyond the width.
    let above = y - 1u;

    var filter_kind = SUB;
    if (!is_first) {
        var cost_here = vec3u(0u);
        for (var quad = thread; quad < quads; quad += WORKGROUP_SIZE) {
            var left = pixel(quad * 4u - 1u, y);
            var corner = pixel(quad * 4u - 1u, above);
            for (var k = 0u; k < 4u; k++) {
                let x = quad * 4u + k;
                let here = pixel(x, y);
                let up = pixel(x, above);
                if (x < frame.width) {
                    cost_here += vec3u(cost(here - up), cost(here - left), cost(here - paeth(left, up, corner)));
                }
                left = here;
                corner = up;
            }
        }
        atomicAdd(&costs[0], cost_here.x);
        atomicAdd(&costs[1], cost_here.y);
        atomicAdd(&costs[2], cost_here.z);
        workgroupBarrier();
        let up_cost = atomicLoad(&costs[0]);
        let sub_cost = atomicLoad(&costs[1]);
        let paeth_cost = atomicLoad(&costs[2]);
        if (up_cost <= sub_cost && up_cost <= paeth_cost) {
            filter_kind = UP;
        } else if (paeth_cost < sub_cost) {
            filter_kind = PAETH;
        }
    }

    let base = y * frame.row_words;
    var sum = vec2u(0u);            // of residuals, and of bytes
    var weighted = vec2u(0u);
    for (var quad = thread; quad < quads; quad += WORKGROUP_SIZE) {
        var words = vec4u(0u);      // CHANNELS of them
        var plain_words = vec4u(0u);
        var left = pixel(quad * 4u - 1u, y);
        var corner = vec4i(0);
        if (!is_first) {
            corner = pixel(quad * 4u - 1u, above);
        }
        for (var k = 0u; k < 4u; k++) {
            let x = quad * 4u + k;
            let here = pixel(x, y);
            var prediction = left;
            if (!is_first) {
                let up = pixel(x, above);
                prediction = select(prediction, up, filter_kind == UP);
                prediction = select(prediction, paeth(left, up, corner), filter_kind == PAETH);
                corner = up;
            }
            left = here;
            let residual = vec4u(here - prediction) & vec4u(0xffu);
            if (x >= frame.width) {
                continue;
            }
            for (var channel = 0u; channel < CHANNELS; channel++) {
                let byte = k * CHANNELS + channel;
                let both = vec2u(residual[channel], u32(here[channel]));
                words[byte >> 2u] |= both.x << ((byte & 3u) * 8u);
                plain_words[byte >> 2u] |= both.y << ((byte & 3u) * 8u);
                sum += both;
                // Times the bytes from this one to the row's end.
                weighted += both * (frame.row_bytes - 1u - x * CHANNELS - channel);
            }
        }
        weighted %= vec2u(ADLER_BASE);
        for (var i = 0u; i < CHANNELS; i++) {
            if (quad * CHANNELS + i + 1u < frame.row_words) {
                filtered[base + 1u + quad * CHANNELS + i] = words[i];
                unfiltered[base + 1u + quad * CHANNELS + i] = plain_words[i];
            }
        }
    }
    if (thread == 0u) {
        filtered[base] = filter_kind << 24u;
        unfiltered[base] = 0u;
        sum.x += filter_kind;
        weighted.x = (weighted.x + filter_kind * frame.row_bytes) % ADLER_BASE;
    }
    atomicAdd(&sums[0], sum.x);
    atomicAdd(&sums[1], weighted.x);
    atomicAdd(&sums[2], sum.y);
    atomicAdd(&sums[3], weighted.y);
    workgroupBarrier();
    if (thread < 4u) {
        statistics[STATISTICS_ROWS + 6u * y + thread] = atomicLoad(&sums[thread]) % ADLER_BASE;
    }
}
