// Stage 5 of 5: the bits of all spans in their order, one workgroup per span.
//
// in:       `scratch`, `records`
// out:      `stream`
// dispatch: (spans of a row, rows), 64 threads, a thread for a word
// moves:    the stream twice
//
// Spans share the words in which they meet; these must be zeros before.

#import png_frame

const WORKGROUP_SIZE = 64u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> scratch: array<u32>;
@group(0) @binding(2) var<storage, read> records: array<vec4u>;
@group(0) @binding(3) var<storage, read_write> stream: array<atomic<u32>>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn write_stream(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let record = records[group.y * frame.spans_per_row + group.x];
    let bits = record.x;
    let start = record.z;
    let shift = start & 31u;
    let first = start >> 5u;
    let words = (bits + 31u) >> 5u;
    let end = (start + bits) >> 5u;         // the word that the next span begins in
    if (bits == 0u || end >= frame.stream_words || record.y + words > arrayLength(&scratch)) {
        return;
    }
    for (var word = first + thread; word <= end; word += WORKGROUP_SIZE) {
        let i = word - first;
        var value = 0u;
        if (i < words) {
            value = scratch[record.y + i] << shift;
        }
        if (i > 0u) {
            value |= (scratch[record.y + i - 1u] >> 1u) >> (31u - shift);
        }
        if (word == first || word == end) {
            atomicOr(&stream[frame.stream_start + word], value);
        } else {
            atomicStore(&stream[frame.stream_start + word], value);
        }
    }
}
