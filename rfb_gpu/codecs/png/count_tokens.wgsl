// Stage 2 of 4: how often each token comes, one thread per chunk.
//
// in:       `rows`: filtered or not
// out:      `statistics`: the counts, added to those that are there
// dispatch: (chunks / 64), 64 threads
// moves:    each byte once

#import png_frame
#import png_tokens

const WORKGROUP_SIZE = 64u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> rows: array<u32>;
@group(0) @binding(2) var<storage, read_write> statistics: array<atomic<u32>>;

var<workgroup> counts: array<atomic<u32>, TOKENS>;

fn on_token(token: u32) {
    atomicAdd(&counts[token], 1u);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn count_tokens(@builtin(global_invocation_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    for (var token = thread; token < TOKENS; token += WORKGROUP_SIZE) {
        atomicStore(&counts[token], 0u);
    }
    workgroupBarrier();
    if (id.x < frame.chunks) {
        each_token(id.x);
    }
    workgroupBarrier();
    for (var token = thread; token < TOKENS; token += WORKGROUP_SIZE) {
        let count = atomicLoad(&counts[token]);
        if (count > 0u) {
            atomicAdd(&statistics[frame.counts_start + token], count);
        }
    }
}
