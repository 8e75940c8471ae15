// Stage 1 of 5: the texture as rows of bytes, and of RGB which colours there are, one workgroup per row.
//
// in:       `source`: the texture
// out:      `rows`; `statistics`: colours at their places, and at the end how many, or just more than can be; must be zeros before
// dispatch: (rows), 128 threads, four pixels a thread at a time
// moves:    each texel once, each byte once
//
// The host puts in front: LINEAR_SOURCE, PREMULTIPLIED.

#import png_frame
#import png_palette
#import srgb

const WORKGROUP_SIZE = 128u;
const COLOUR_COUNT = STATISTICS_COLOURS + PLACES;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var source: texture_2d<f32>;
@group(0) @binding(2) var<storage, read_write> rows: array<u32>;
@group(0) @binding(3) var<storage, read_write> statistics: array<atomic<u32>>;

// The row's own table, so that few threads at a time ask for the frame's.
var<workgroup> colours: array<atomic<u32>, PLACES>;
var<workgroup> colour_count: atomic<u32>;

/// The channels of a pixel.
fn pixel(x: u32, y: u32) -> vec4u {
    let texel = textureLoad(source, frame.origin + vec2u(x, y), 0);
    var rgb = select(texel.rgb, srgb_encode(texel.rgb), LINEAR_SOURCE);
    if (PREMULTIPLIED) {
        rgb = straight_colour(texel, LINEAR_SOURCE);
    }
    let value = vec4u(vec4f(rgb, texel.a) * 255.0 + 0.5);
    if (CHANNELS == 1u) {
        // BT.601 with 16 fractional bits, which leaves grays as they are.
        return vec4u((19595u * value.r + 38470u * value.g + 7471u * value.b + 0x8000u) >> 16u, 0u, 0u, 0u);
    }
    return value;
}

/// Puts a colour into the row's table.
fn insert(colour: u32) {
    let wanted = colour | TAKEN;
    var place = first_place(colour);
    for (var tries = 0u; tries < 2u * PLACES; tries++) {
        let there = atomicLoad(&colours[place]);
        if (there == wanted) {
            return;
        }
        if (there == 0u) {
            if (atomicCompareExchangeWeak(&colours[place], 0u, wanted).exchanged) {
                atomicAdd(&colour_count, 1u);
                return;
            }
            continue;       // somebody else was here, or it failed for no reason: look again
        }
        place = (place + 1u) % PLACES;
    }
}

/// Likewise into the frame's; false where that has too many already.
fn insert_in_frame(wanted: u32) -> bool {
    var place = first_place(wanted & 0xffffffu);
    for (var tries = 0u; tries < 2u * PLACES; tries++) {
        let there = atomicLoad(&statistics[STATISTICS_COLOURS + place]);
        if (there == wanted) {
            return true;
        }
        // At each turn: when many ask at once, the table may be full, and there is no end to looking.
        if (atomicLoad(&statistics[COLOUR_COUNT]) > MOST_COLOURS) {
            return false;
        }
        if (there == 0u) {
            if (atomicCompareExchangeWeak(&statistics[STATISTICS_COLOURS + place], 0u, wanted).exchanged) {
                atomicAdd(&statistics[COLOUR_COUNT], 1u);
                return true;
            }
            continue;
        }
        place = (place + 1u) % PLACES;
    }
    return false;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn pack_rows(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let y = group.x;
    let base = y * frame.row_words;
    let quads = (frame.width + 3u) / 4u;
    if (CHANNELS == 3u) {
        for (var place = thread; place < PLACES; place += WORKGROUP_SIZE) {
            atomicStore(&colours[place], 0u);
        }
        if (thread == 0u) {
            atomicStore(&colour_count, 0u);
        }
        workgroupBarrier();
    }
    var last = TAKEN;
    for (var quad = thread; quad < quads; quad += WORKGROUP_SIZE) {
        var words = vec4u(0u);      // CHANNELS of them
        for (var k = 0u; k < 4u; k++) {
            let x = quad * 4u + k;
            if (x >= frame.width) {
                break;
            }
            let here = pixel(x, y);
            if (CHANNELS == 1u) {
                words.x |= here.x << (8u * k);
            } else if (CHANNELS == 4u) {
                words[k] = here.r | (here.g << 8u) | (here.b << 16u) | (here.a << 24u);
            } else {
                let colour = here.r | (here.g << 8u) | (here.b << 16u);
                switch (k) {
                    case 0u: { words.x = colour; }
                    case 1u: { words.x |= colour << 24u; words.y = colour >> 8u; }
                    case 2u: { words.y |= colour << 16u; words.z = colour >> 16u; }
                    default: { words.z |= colour << 8u; }
                }
                if (colour != last && atomicLoad(&colour_count) <= MOST_COLOURS) {
                    insert(colour);
                }
                last = colour;
            }
        }
        for (var i = 0u; i < CHANNELS; i++) {
            if (quad * CHANNELS + i + 1u < frame.row_words) {
                rows[base + 1u + quad * CHANNELS + i] = words[i];
            }
        }
    }
    if (thread == 0u) {
        rows[base] = 0u;
    }
    if (CHANNELS == 3u) {
        workgroupBarrier();
        if (atomicLoad(&colour_count) > MOST_COLOURS) {
            if (thread == 0u) {
                atomicMax(&statistics[COLOUR_COUNT], MOST_COLOURS + 1u);
            }
            return;
        }
        for (var place = thread; place < PLACES; place += WORKGROUP_SIZE) {
            let colour = atomicLoad(&colours[place]);
            if (colour != 0u && !insert_in_frame(colour)) {
                return;
            }
        }
    }
}
