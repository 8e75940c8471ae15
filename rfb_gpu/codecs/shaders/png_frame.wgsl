// What the stages of the PNG encoder share: the frame, and the layout of the buffers between them.
// The host puts in front: CHANNELS, the bytes of a pixel in the rows (1, 3 or 4: gray or indexes, RGB, RGBA).

struct Frame {
    width: u32,             // pixels
    height: u32,
    origin: vec2u,          // of the frame in the texture
    row_bytes: u32,         // of a row of the stream: the filter's number and its bytes
    row_words: u32,         // from one row to the next in a buffer of rows
    spans_per_row: u32,
    is_filtered: u32,
    counts_start: u32,      // where in `statistics` the counts of these rows' tokens begin
    candidates: u32,        // how many of the following there are
    stream_start: u32,      // words of `stream` before its bits
    stream_words: u32,      // that `stream` has room for
    cut: u32,               // a byte of a row's words: what begins there takes nothing from before it, nor the other way round; 0: none
    candidate: array<vec4i, 8>,
}

// A candidate is a place where the bytes from here on may stand already: x rows above (0 or 1), y bytes to the left (or, above, to the
// right where negative). A match there must be longer by more than z bytes than one at a place before it. Those above come last.

// Rows of bytes, lowest first in a word. A row begins with three bytes of nothing and the filter's number, so that four pixels are
// CHANNELS whole words; behind its end are zeros.
const ROW_PADDING = 3u;

// The first row of a stripe takes nothing from the rows above, so that a decoder can begin there.
const STRIPE_ROWS = 32u;

// `statistics`: how often each token came, of each of the ways to lay the rows out; a table of colours, and how many it has.
const TOKENS = 528u;
const WAYS = 4u;
const STATISTICS_COLOURS = WAYS * TOKENS;

// `stream`: its length in bits; from this word on for each row, the bit where it begins, two sums for Adler-32 of its bytes alone, and the
// bit of its cut; and from frame.stream_start on the bits, lowest first.
const STREAM_ROWS = 4u;
const STREAM_ROW = 4u;

const ADLER_BASE = 65521u;

// A span, which a workgroup codes, is so many bytes of a row, its padding among them. The row's last span may be short. Of each,
// `records` has: how many bits, where they lie in `scratch`, and two sums for Adler-32. Behind them it has for each row how many bits of
// its span stand before its cut.
const SPAN_THREADS = 128u;
const SPAN_WORDS = 1024u;
const SPAN_BYTES = 4096u;

// Stages that look at a part of the rows are dispatched for so many.
fn sampled_row(number: u32, count: u32) -> u32 {
    return number * (frame.height / count);
}
