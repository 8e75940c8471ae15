// For palettes, stage 3 of 3: rows of the numbers of their colours, one workgroup per row. Only if the colours are few enough.
//
// in:       `unfiltered`, `ranks`
// out:      `indexes`; `statistics`: the rows' sums for Adler-32
// dispatch: (rows), 64 threads, four pixels a thread at a time
// moves:    each pixel once, a byte for each

#import png_frame
#import png_palette

const WORKGROUP_SIZE = 64u;

@group(0) @binding(0) var<uniform> frame: Frame;       // of the indexes
@group(0) @binding(1) var<uniform> frame_before: Frame;
@group(0) @binding(2) var<storage, read> unfiltered: array<u32>;
@group(0) @binding(3) var<storage, read> ranks: array<vec2u>;
@group(0) @binding(4) var<storage, read_write> indexes: array<u32>;
@group(0) @binding(5) var<storage, read_write> statistics: array<u32>;

var<workgroup> sums: array<atomic<u32>, 2>;

fn index_of(colour: u32) -> u32 {
    var place = first_place(colour);
    for (var tries = 0u; tries < PLACES; tries++) {
        let there = ranks[place];
        if (there.x == (colour | TAKEN)) {
            return there.y;
        }
        place = (place + 1u) % PLACES;
    }
    return 0u;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn index_rows(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (thread < 2u) {
        atomicStore(&sums[thread], 0u);
    }
    workgroupBarrier();
    let source = group.x * frame_before.row_words + 1u;
    let base = group.x * frame.row_words;
    let quads = (frame.width + 3u) / 4u;
    var sum = 0u;
    var weighted = 0u;
    for (var quad = thread; quad < quads; quad += WORKGROUP_SIZE) {
        let at = source + quad * 3u;
        let words = vec3u(unfiltered[at], unfiltered[at + 1u], unfiltered[at + 2u]);
        var word = 0u;
        for (var k = 0u; k < 4u && quad * 4u + k < frame.width; k++) {
            let index = index_of(colour_of(words, k));
            word |= index << (8u * k);
            sum += index;
            weighted = (weighted + index * (frame.row_bytes - 1u - quad * 4u - k)) % ADLER_BASE;
        }
        indexes[base + 1u + quad] = word;
    }
    if (thread == 0u) {
        indexes[base] = 0u;         // no filter
    }
    atomicAdd(&sums[0], sum);
    atomicAdd(&sums[1], weighted);
    workgroupBarrier();
    if (thread < 2u) {
        statistics[STATISTICS_ROWS + 6u * group.x + 4u + thread] = atomicLoad(&sums[thread]) % ADLER_BASE;
    }
}
