// What the stages of the PNG encoder share: the frame, and the layout of the buffers between them.
// The host puts in front: CHANNELS (1, 3 or 4: gray, RGB or RGBA), LINEAR_SOURCE.

struct Frame {
    width: u32,             // pixels
    height: u32,
    origin: vec2u,          // of the frame in the texture
    row_bytes: u32,         // of a filtered row: the filter's number and the residuals
    row_words: u32,         // from one row to the next in `filtered`
    chunks_per_row: u32,
    chunks: u32,
    stream_words: u32,      // that `stream` has room for
}

// `filtered`: rows of bytes, lowest first in a word. A row begins with three bytes of nothing, so that the residuals of four pixels
// are CHANNELS whole words.
const ROW_PADDING = 3u;

// A chunk, which a thread codes, is so many bytes of a row: twice the longest match. The row's last chunk may be short.
const CHUNK_BYTES = 516u;

// `statistics`: how often each token came, and for each row the two sums of Adler-32, of its bytes alone.
const TOKENS = 512u;
const STATISTICS_ROWS = TOKENS;

// `stream`: its length in bits, and from the fourth word on the bits, lowest first.
const STREAM_START = 4u;

const ADLER_BASE = 65521u;
