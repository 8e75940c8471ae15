// What the three encoder stages share: the frame, the span, and the layout of the buffers between them.
// The host puts in front: SCALE (of so many texels by so many, one pixel is made), MCU_WIDTH, MCU_HEIGHT (pixels), LUMA_ACROSS, LUMA_DOWN (luma blocks of an MCU), BLOCKS_PER_MCU,
// MCUS_PER_SEGMENT. A segment is from one place where decoding can start to the next; a span, which is what a workgroup codes, is
// SEGMENTS_PER_SPAN segments. The row's last span may be short.

struct Frame {
    width: u32,             // pixels
    height: u32,
    origin: vec2u,          // of the frame in the texture
    last: vec2u,            // texel of the frame
    mcus_per_row: u32,
    spans_per_row: u32,
    first_row: u32,         // MCU row of the frame where this band begins
    rows: u32,              // MCU rows in this band
    span_words: u32,        // of `scratch` that a span has
    stream_start: u32,      // byte of `result` where the entropy-coded bytes begin, a multiple of 4
    stream_capacity: u32,   // bytes
    is_last_band: u32,
    count_every: u32,       // one block of so many is counted for the histogram
    entry_work: u32,        // about how much work an entry of the index shall be, in bits
    entry_capacity: u32,    // entries that `result` has room for
}

const SPAN_BLOCKS = 96u;
const SEGMENT_BLOCKS = MCUS_PER_SEGMENT * BLOCKS_PER_MCU;
const SEGMENTS_PER_SPAN = SPAN_BLOCKS / SEGMENT_BLOCKS;
const MCUS_PER_SPAN = MCUS_PER_SEGMENT * SEGMENTS_PER_SPAN;

// A span's code, by encode_span. It lies in `scratch` at span_words times the number of the span.
struct Record {
    stuffing: array<u32, 4>,        // 0xFF bytes in it, 16 bits each, if its first whole byte began 0, 1, ... 7 bits into it
    segment_ends: array<u32, SEGMENTS_PER_SPAN>,    // bits from its beginning to the end of each of its segments
    head: u32,                      // its first 8 bits, zeros where it has fewer
    tail: u32,                      // its last 8 bits, likewise
}

// Where a span goes, by place_spans.
struct Place {
    bits_before: u32,       // in its row, before stuffing
    stuffed_before: u32,    // bytes stuffed in its row before the byte that it begins in
    head: u32,              // the bits of that byte which belong to the span before, lowest bit last
    entries: u32,           // low 16 bits: which of its segments begin an entry of the index; high 16: entries of its row before it
}

// What an MCU row is, by place_spans.
struct Row {
    bytes: u32,             // with the marker
    entries: u32,
}

// `result`, the buffer that the host reads: status words, how often each symbol came, the entries of the index (position in bits of
// the stream, number of the first segment), the stream.
const RESULT_STREAM_BYTES = 0u;
const RESULT_FLAGS = 1u;
const RESULT_ENTRY_COUNT = 2u;
const RESULT_HISTOGRAM = 16u;
const RESULT_ENTRIES = 560u;

const FLAG_OVERFLOW = 1u;

fn segments_per_row() -> u32 {
    return (frame.mcus_per_row + MCUS_PER_SEGMENT - 1u) / MCUS_PER_SEGMENT;
}

fn span_bits(record: Record) -> u32 {
    return record.segment_ends[SEGMENTS_PER_SPAN - 1u];
}

/// The low `count` bits set; count 0..31.
fn low_bits(count: u32) -> u32 {
    return (1u << count) - 1u;
}

/// The 32 bits that begin `shift` bits into `word`, which `next` follows; shift 0..31.
fn window(word: u32, next: u32, shift: u32) -> u32 {
    // A shift by 32 is not defined, so the other word is shifted in two steps.
    return (word << shift) | ((next >> 1u) >> (31u - shift));
}
