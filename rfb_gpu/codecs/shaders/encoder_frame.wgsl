// What the three encoder stages share: the frame, the segment, and the layout of the buffers between them.
// The host puts in front: SUBSAMPLED (4:2:0 instead of 4:4:4), MCU_SIZE (pixels: 16 or 8), BLOCKS_PER_MCU (6 or 3),
// MCUS_PER_SEGMENT (4 or 8). A segment is SEGMENT_BLOCKS blocks in both cases. The first stage also has LINEAR_SOURCE (texels
// come linear).

struct Frame {
    width: u32,             // pixels
    height: u32,
    origin: vec2u,          // of the frame in the texture
    mcus_per_row: u32,
    segments_per_row: u32,
    first_row: u32,         // MCU row of the frame where this band begins
    rows: u32,              // MCU rows in this band
    scratch_words: u32,     // capacity of `scratch`
    stream_start: u32,      // byte of `result` where the entropy-coded bytes begin, a multiple of 4
    stream_capacity: u32,   // bytes
    is_last_band: u32,
}

const SEGMENT_BLOCKS = 24u;

// A segment's code, by encode_segment.
struct Record {
    bits: u32,
    scratch_start: u32,     // word in `scratch`
}

// Where a segment goes, by place_segments.
struct Place {
    bits_before: u32,       // in its row, before stuffing
    stuffed_before: u32,    // bytes stuffed in its row before the byte that it begins in
    head: u32,              // the bits of that byte which belong to the segment before, lowest bit last
}

// `result`, the buffer that the host reads: status words, a bit position per segment, the stream.
const RESULT_SCRATCH_USED = 0u;
const RESULT_STREAM_BYTES = 1u;
const RESULT_FLAGS = 2u;
const RESULT_POSITIONS = 16u;

const FLAG_OVERFLOW = 1u;

/// The low `count` bits set; count 0..31.
fn low_bits(count: u32) -> u32 {
    return (1u << count) - 1u;
}

/// The 32 bits that begin `shift` bits into `word`, which `next` follows; shift 0..31.
fn window(word: u32, next: u32, shift: u32) -> u32 {
    // A shift by 32 is not defined, so the other word is shifted in two steps.
    return (word << shift) | ((next >> 1u) >> (31u - shift));
}
