// What the two decoder stages share. The host puts in front: SUBSAMPLED, MCU_SIZE, BLOCKS_PER_MCU, MCUS_PER_SEGMENT, as for the
// encoder. An entry is a place where decoding can start: some segments, or a whole MCU row.

struct Frame {
    width: u32,             // pixels
    height: u32,
    mcus_per_row: u32,
    rows: u32,              // MCU rows
    segments_per_row: u32,
    mcus_per_entry: u32,
    entries_per_row: u32,
    stream_bytes: u32,
    list_words: u32,        // capacity of `list`
}

const SEGMENT_BLOCKS = 24u;
const SEGMENT_COEFFICIENTS = 1536u;

/// 0 for Y, 1 for Cb, 2 for Cr.
fn component_of(block: u32) -> u32 {
    let in_mcu = block % BLOCKS_PER_MCU;
    return select(in_mcu + 3u - BLOCKS_PER_MCU, 0u, in_mcu + 2u < BLOCKS_PER_MCU);
}
