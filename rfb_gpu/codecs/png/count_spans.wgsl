// Stage 2 of 5: how often each token comes, one workgroup per span.
//
// in:       `rows`
// out:      `statistics`: the counts; must be zeros before
// dispatch: (spans of a row, rows or a part of them), 128 threads
// moves:    each byte once, that of the row above once more

#import png_frame
#import png_spans

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> rows: array<u32>;
@group(0) @binding(2) var<storage, read_write> statistics: array<atomic<u32>>;

var<workgroup> counts: array<atomic<u32>, TOKENS>;

fn on_token(token: u32) {
    atomicAdd(&counts[token], 1u);
}

@compute @workgroup_size(SPAN_THREADS)
fn count_spans(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) group_count: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    for (var token = thread; token < TOKENS; token += SPAN_THREADS) {
        atomicStore(&counts[token], 0u);
    }
    find_tokens(sampled_row(group.y, group_count.y), group.x, thread);
    each_token();
    workgroupBarrier();
    for (var token = thread; token < TOKENS; token += SPAN_THREADS) {
        let count = atomicLoad(&counts[token]);
        if (count > 0u) {
            atomicAdd(&statistics[frame.counts_start + token], count);
        }
    }
}
