// Stage 3 of 4: how many bits each chunk takes, one thread per chunk; and room for them.
//
// in:       `rows`: filtered or not, `codes`
// out:      `places`: bits of the group's chunks before each; `groups`: bits of all of a group's; `stream`: zeros
// dispatch: (chunks / 64), 64 threads
// moves:    each byte once, 4 bytes a chunk, the stream's room once

#import png_frame
#import png_tokens
#import scan

const WORKGROUP_SIZE = 64u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> rows: array<u32>;
@group(0) @binding(2) var<storage, read> codes: array<u32>;
@group(0) @binding(3) var<storage, read_write> places: array<u32>;
@group(0) @binding(4) var<storage, read_write> groups: array<u32>;
@group(0) @binding(5) var<storage, read_write> stream: array<u32>;

var<private> bits: u32;

fn on_token(token: u32) {
    bits += codes[token] & 31u;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn measure_chunks(
    @builtin(global_invocation_id) id: vec3u,
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) group_count: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    if (id.x < frame.chunks) {
        each_token(id.x);
    }
    let sum = inclusive_sum(bits, thread);
    if (id.x < frame.chunks) {
        places[id.x] = sum.inclusive - bits;
    }
    if (thread == 0u) {
        groups[group.x] = sum.total;
    }
    for (var word = id.x; word < frame.stream_start + frame.stream_words; word += group_count.x * WORKGROUP_SIZE) {
        stream[word] = 0u;
    }
}
