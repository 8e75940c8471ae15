// What the stages of the PNG decoder share: the frame. The host puts in front: CHANNELS (1, 3 or 4 bytes a pixel in the rows),
// HAS_PALETTE (the byte is a colour's number), and PREMULTIPLIED (colour is to be multiplied with alpha).

struct Frame {
    width: u32,             // pixels
    height: u32,
    row_bytes: u32,         // the filter's number and the row
    row_words: u32,         // from one row to the next in the buffer of rows
    stream_words: u32,
    literal_bits: u32,      // of the longest code, so what the tables go by
    distance_bits: u32,
    steps: u32,             // of inflate_rows
    step_bytes: u32,        // a row goes on by so many bytes in a step
    lag: u32,               // and so many steps behind the row above
    top: u32,               // the picture's row where the first one goes
    cut: u32,               // the byte of a row's words where its second part begins; its end if it has one
}

// Rows of bytes, lowest first in a word. A row begins with three bytes of nothing, so that four pixels are CHANNELS whole words.
const ROW_PADDING = 3u;

// Neither filters nor matches of a stripe's first row reach above.
const STRIPE_ROWS = 32u;
