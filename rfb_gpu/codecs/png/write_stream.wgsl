// Stage 5 of 5: the bits of all spans in their order, one workgroup per span.
//
// in:       `scratch`, `records`, and of `stream` what place_spans wrote
// out:      `stream`: the rows' sums for Adler-32, and the bits
// dispatch: (spans of a row, rows), 64 threads, a thread for a word
// moves:    the stream twice
//
// A word is written for the span that its first bit is of. What is left of it comes from the spans after that.

#import png_frame

const WORKGROUP_SIZE = 64u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> scratch: array<u32>;
@group(0) @binding(2) var<storage, read> records: array<vec4u>;
@group(0) @binding(3) var<storage, read_write> stream: array<u32>;

/// The sums over a row's bytes, from those over its spans.
fn row_sums(first: u32) -> vec2u {
    var sums = vec2u(0u);
    for (var i = 0u; i < frame.spans_per_row; i++) {
        let record = records[first + i];
        let end = ROW_PADDING + frame.row_bytes;
        let behind = end - min(end, (i + 1u) * SPAN_BYTES);
        sums.x = (sums.x + record.z) % ADLER_BASE;
        sums.y = (sums.y + record.w + (record.z % ADLER_BASE) * (behind % ADLER_BASE) % ADLER_BASE) % ADLER_BASE;
    }
    return sums;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn write_stream(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    if ((stream[0] >> 5u) >= frame.stream_words) {
        return;     // there is no room, so some bits are not there
    }
    let first_of_row = group.y * frame.spans_per_row;
    let span = first_of_row + group.x;
    let record = records[span];
    var start = stream[STREAM_ROWS + STREAM_ROW * group.y];
    for (var before = first_of_row; before < span; before++) {
        start += records[before].x;
    }
    let end = start + record.x;
    let words = (record.x + 31u) >> 5u;
    // The bits before the first span are the host's.
    let first_word = select((start + 31u) >> 5u, start >> 5u, span == 0u);
    for (var word = first_word + thread; word * 32u < end; word += WORKGROUP_SIZE) {
        var value = 0u;
        if (word * 32u < start) {
            value = scratch[record.y] << (start & 31u);
        } else {
            let i = (word * 32u - start) >> 5u;
            let shift = (word * 32u - start) & 31u;
            value = scratch[record.y + i] >> shift;
            if (i + 1u < words) {
                value |= (scratch[record.y + i + 1u] << 1u) << (31u - shift);
            }
        }
        var filled = end - word * 32u;
        for (var next = span + 1u; filled < 32u && next < frame.height * frame.spans_per_row; next++) {
            value |= scratch[records[next].y] << filled;
            filled += records[next].x;
        }
        stream[frame.stream_start + word] = value;
    }
    if (group.x == 0u && thread == 0u) {
        let sums = row_sums(span);
        stream[STREAM_ROWS + STREAM_ROW * group.y + 1u] = sums.x;
        stream[STREAM_ROWS + STREAM_ROW * group.y + 2u] = sums.y;
    }
}
