// Stage 4 of 5: where every row begins, and its cut, one workgroup.
//
// in:       `records`, `codes`: behind them, the bit of the stream where the first token begins
// out:      `stream`: its length, and where rows and cuts are; zeros where the next frame needs them
// dispatch: (1), 256 threads, each for some rows that follow each other
// moves:    8 bytes a span

#import png_frame
#import png_palette
#import scan

const WORKGROUP_SIZE = 256u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> codes: array<u32>;
@group(0) @binding(2) var<storage, read> records: array<vec4u>;
@group(0) @binding(3) var<storage, read_write> stream: array<u32>;
@group(0) @binding(4) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(5) var<storage, read_write> statistics: array<u32>;

fn bits_of_spans(first: u32, end: u32) -> u32 {
    var bits = 0u;
    for (var span = first; span < end; span++) {
        bits += records[span].x;
    }
    return bits;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn place_spans(@builtin(local_invocation_index) thread: u32) {
    let rows = (frame.height + WORKGROUP_SIZE - 1u) / WORKGROUP_SIZE;
    let first = min(thread * rows, frame.height);
    let end = min(first + rows, frame.height);
    let bits = bits_of_spans(first * frame.spans_per_row, end * frame.spans_per_row);
    let sum = inclusive_sum(bits, thread);
    var start = codes[TOKENS] + sum.inclusive - bits;
    for (var row = first; row < end; row++) {
        let span = row * frame.spans_per_row;
        let before_cut = bits_of_spans(span, span + frame.cut / SPAN_BYTES) + records[frame.height * frame.spans_per_row + row].x;
        stream[STREAM_ROWS + STREAM_ROW * row] = start;
        stream[STREAM_ROWS + STREAM_ROW * row + 3u] = start + before_cut;
        start += bits_of_spans(span, span + frame.spans_per_row);
    }
    if (thread == 0u) {
        stream[0] = codes[TOKENS] + sum.total;
        scratch[0] = 0u;
    }
    for (var i = thread; i <= STATISTICS_COLOURS + PLACES; i += WORKGROUP_SIZE) {
        statistics[i] = 0u;
    }
}
