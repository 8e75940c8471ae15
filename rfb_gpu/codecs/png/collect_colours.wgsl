// For palettes, stage 1 of 3: which colours there are, one workgroup per row. Stops caring when they are too many.
//
// in:       `unfiltered`
// out:      `palette`: colours at their places, and at the end how many; must be zeros before
// dispatch: (rows), 64 threads, four pixels a thread at a time
// moves:    each pixel once

#import png_frame
#import png_palette

const WORKGROUP_SIZE = 64u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> unfiltered: array<u32>;
@group(0) @binding(2) var<storage, read_write> palette: array<atomic<u32>>;

fn insert(colour: u32) {
    let wanted = colour | TAKEN;
    var place = first_place(colour);
    for (var tries = 0u; tries < 2u * PLACES; tries++) {
        let there = atomicLoad(&palette[place]);
        if (there == wanted) {
            return;
        }
        if (there == 0u) {
            let result = atomicCompareExchangeWeak(&palette[place], 0u, wanted);
            if (result.exchanged) {
                atomicAdd(&palette[PLACES], 1u);
                return;
            }
            continue;       // somebody else was here, or it failed for no reason: look again
        }
        place = (place + 1u) % PLACES;
    }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn collect_colours(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let base = group.x * frame.row_words + 1u;
    let quads = (frame.width + 3u) / 4u;
    var last = TAKEN;
    for (var quad = thread; quad < quads; quad += WORKGROUP_SIZE) {
        // A row's last words may be missing; what is read instead belongs to pixels beyond its end.
        let at = base + quad * 3u;
        let words = vec3u(unfiltered[at], unfiltered[at + 1u], unfiltered[at + 2u]);
        for (var k = 0u; k < 4u && quad * 4u + k < frame.width; k++) {
            let colour = colour_of(words, k);
            if (colour != last) {
                // Not at every pixel: all threads would wait in a queue for this one word.
                if (atomicLoad(&palette[PLACES]) > MOST_COLOURS) {
                    return;
                }
                insert(colour);
                last = colour;
            }
        }
    }
}
