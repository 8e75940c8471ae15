// Stage 4 of 5: where every span begins, one workgroup.
//
// in:       `records`, the bit of the stream where the first token begins
// out:      `records`: the bit where each span begins; `stream`: its length, each row's beginning and sums, and zeros where spans meet;
//           zeros where the next frame needs them
// dispatch: (1), 256 threads, each for some rows that follow each other
// moves:    32 bytes a span

#import png_frame
#import png_palette
#import scan

const WORKGROUP_SIZE = 256u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> codes: array<u32>;
@group(0) @binding(2) var<storage, read_write> records: array<vec4u>;
@group(0) @binding(3) var<storage, read_write> stream: array<u32>;
@group(0) @binding(4) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(5) var<storage, read_write> statistics: array<u32>;

@compute @workgroup_size(WORKGROUP_SIZE)
fn place_spans(@builtin(local_invocation_index) thread: u32) {
    let rows = (frame.height + WORKGROUP_SIZE - 1u) / WORKGROUP_SIZE;
    let first = min(thread * rows, frame.height);
    let end = min(first + rows, frame.height);
    var bits = 0u;
    for (var span = first * frame.spans_per_row; span < end * frame.spans_per_row; span++) {
        bits += records[span].x;
    }
    let sum = inclusive_sum(bits, thread);
    var start = codes[TOKENS] + sum.inclusive - bits;
    for (var row = first; row < end; row++) {
        let head = STREAM_ROWS + 3u * row;
        stream[head] = start;
        var sums = vec2u(0u);
        for (var i = 0u; i < frame.spans_per_row; i++) {
            let span = row * frame.spans_per_row + i;
            let record = records[span];
            let behind = ROW_PADDING + frame.row_bytes - min(ROW_PADDING + frame.row_bytes, (i + 1u) * SPAN_BYTES);
            sums.x += record.z;
            sums.y = (sums.y + record.w % ADLER_BASE + (record.z % ADLER_BASE) * (behind % ADLER_BASE)) % ADLER_BASE;
            records[span].z = start;
            if ((start >> 5u) < frame.stream_words) {
                stream[frame.stream_start + (start >> 5u)] = 0u;
            }
            start += record.x;
        }
        stream[head + 1u] = sums.x;
        stream[head + 2u] = sums.y;
    }
    if (thread == 0u) {
        let stop = codes[TOKENS] + sum.total;
        stream[0] = stop;
        if ((stop >> 5u) < frame.stream_words) {
            stream[frame.stream_start + (stop >> 5u)] = 0u;
        }
        scratch[0] = 0u;
    }
    for (var i = thread; i <= STATISTICS_COLOURS + PLACES; i += WORKGROUP_SIZE) {
        statistics[i] = 0u;
    }
}
