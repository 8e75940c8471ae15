// What the three encoder stages share: the frame, the segment, and the layout of the buffers between them.
// The host puts in front: SUBSAMPLED (4:2:0 instead of 4:4:4), MCU_SIZE (pixels: 16 or 8), BLOCKS_PER_MCU (6 or 3),
// MCUS_PER_SEGMENT (5 or 10). A segment is SEGMENT_BLOCKS blocks in both cases. The first stage also has LINEAR_SOURCE (texels come linear).

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

// A segment's record, written by encode_segment.
const RECORD_WORDS = 8u;
const RECORD_BITS = 0u;             // length of its code
const RECORD_SCRATCH = 1u;          // first word in `scratch`
const RECORD_FF_COUNTS = 2u;        // 4 words: 0xFF bytes in it, 16 bits for each of the 8 bit offsets of its first whole byte
const RECORD_ENDS = 6u;             // first byte | last 8 bits << 8

// `result`, the buffer that the host reads: status words, a bit position per segment, the stream.
const RESULT_SCRATCH_USED = 0u;
const RESULT_STREAM_BYTES = 1u;
const RESULT_FLAGS = 2u;
const RESULT_POSITIONS = 16u;

const FLAG_OVERFLOW = 1u;

const SEGMENT_BLOCKS = 30u;

/// The low `count` bits set; count 0..31.
fn low_bits(count: u32) -> u32 {
    return (1u << count) - 1u;
}
