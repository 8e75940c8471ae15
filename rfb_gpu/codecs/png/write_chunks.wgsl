// Stage 4 of 4: the bits of the stream, one thread per chunk.
//
// in:       `rows`: filtered or not, `codes` (and behind them, the bit where the first chunk begins), `places`, `groups`
// out:      `stream`, its length in bits, and where rows begin
// dispatch: (chunks / 64), 64 threads
// moves:    each byte once, the stream once

#import png_frame
#import png_tokens
#import scan

const WORKGROUP_SIZE = 64u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> rows: array<u32>;
@group(0) @binding(2) var<storage, read> codes: array<u32>;
@group(0) @binding(3) var<storage, read> places: array<u32>;
@group(0) @binding(4) var<storage, read> groups: array<u32>;
@group(0) @binding(5) var<storage, read_write> stream: array<atomic<u32>>;

var<private> pending: u32;          // bits of the word that is being filled
var<private> filled: u32;           // how many
var<private> word: u32;             // its number

fn flush() {
    // Chunks share the words in which they meet.
    if (pending != 0u && word < frame.stream_start + frame.stream_words) {
        atomicOr(&stream[word], pending);
    }
}

fn on_token(token: u32) {
    let code = codes[token] >> 5u;
    let length = codes[token] & 31u;
    pending |= code << filled;
    filled += length;
    if (filled >= 32u) {
        flush();
        word++;
        filled -= 32u;
        pending = code >> (length - filled);
    }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn write_chunks(
    @builtin(global_invocation_id) id: vec3u,
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) group_count: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    var before = 0u;
    for (var i = thread; i < group.x; i += WORKGROUP_SIZE) {
        before += groups[i];
    }
    let start = codes[TOKENS] + inclusive_sum(before, thread).total;
    if (id.x < frame.chunks) {
        let place = start + places[id.x];
        word = frame.stream_start + (place >> 5u);
        filled = place & 31u;
        if (id.x % frame.chunks_per_row == 0u) {
            atomicStore(&stream[STREAM_ROWS + id.x / frame.chunks_per_row], place);
        }
        each_token(id.x);
        flush();
    }
    if (group.x == group_count.x - 1u && thread == 0u) {
        atomicStore(&stream[0], start + groups[group.x]);
    }
}
