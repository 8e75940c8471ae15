// For palettes, stage 2 of 3: the number of each colour, one workgroup.
//
// in:       `palette`, which is zeros afterwards
// out:      `ranks`: for each place its colour and the colour's number; `statistics`: how many colours there are, and these by number
// dispatch: (1), 64 threads
// moves:    12 kB

#import png_frame
#import png_palette
#import scan

const WORKGROUP_SIZE = 64u;

@group(0) @binding(0) var<storage, read_write> palette: array<u32>;
@group(0) @binding(1) var<storage, read_write> ranks: array<vec2u>;
@group(0) @binding(2) var<storage, read_write> statistics: array<u32>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn rank_colours(@builtin(local_invocation_index) thread: u32) {
    let count = palette[PLACES];
    var before = 0u;
    for (var chunk = 0u; chunk < PLACES; chunk += WORKGROUP_SIZE) {
        let colour = palette[chunk + thread];
        let taken = select(0u, 1u, colour != 0u);
        let sum = inclusive_sum(taken, thread);
        let rank = before + sum.inclusive - taken;
        before += sum.total;
        ranks[chunk + thread] = vec2u(colour, rank);
        if (taken == 1u && rank < MOST_COLOURS) {
            statistics[STATISTICS_PALETTE + 1u + rank] = colour & 0xffffffu;
        }
        palette[chunk + thread] = 0u;
    }
    storageBarrier();
    if (thread == 0u) {
        statistics[STATISTICS_PALETTE] = count;
        palette[PLACES] = 0u;
    }
}
