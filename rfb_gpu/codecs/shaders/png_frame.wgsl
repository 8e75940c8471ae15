// What the stages of the PNG encoder share: the frame, and the layout of the buffers between them.
// The host puts in front: CHANNELS (1, 3 or 4: gray, RGB or RGBA), LINEAR_SOURCE.

struct Frame {
    width: u32,             // pixels
    height: u32,
    origin: vec2u,          // of the frame in the texture
    row_bytes: u32,         // of a filtered row: the filter's number and the residuals
    row_words: u32,         // from one row to the next in a buffer of rows
    chunks_per_row: u32,
    chunks: u32,
    stream_words: u32,      // that `stream` has room for
    counts_start: u32,      // where in `statistics` the counts of these rows' tokens begin
    candidates: u32,        // how many of the following there are
    stream_start: u32,      // words of `stream` before its bits
    candidate: array<vec4i, 16>,
}

// A candidate is a place where the bytes from here on may stand already: x rows above (0 or 1), y bytes to the left (or, above, to the
// right where negative). A match there must be longer by more than z bytes than one at a place before it.

// Rows of bytes, lowest first in a word. A row begins with three bytes of nothing, so that the residuals of four pixels are CHANNELS
// whole words.
const ROW_PADDING = 3u;

// The first row of a stripe takes nothing from the rows above, so that a decoder can begin there.
const STRIPE_ROWS = 32u;

// A chunk, which a thread codes, is so many bytes of a row: twice the longest match. The row's last chunk may be short.
const CHUNK_BYTES = 516u;

// `statistics`: how often each token came, of the filtered rows, of the unfiltered and of indexes; how many colours there are, and these;
// then for each row two sums for Adler-32 of its bytes alone, of the filtered one, of the unfiltered and of indexes.
const TOKENS = 528u;
const STATISTICS_PALETTE = 3u * TOKENS;
const STATISTICS_ROWS = STATISTICS_PALETTE + 272u;

// `stream`: its length in bits; from this word on, the bit where each row begins; and from frame.stream_start on the bits, lowest first.
const STREAM_ROWS = 4u;

const ADLER_BASE = 65521u;
