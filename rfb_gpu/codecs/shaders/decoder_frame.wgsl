// What the decoder's stages share. The host puts in front, from the frame's subsampling: LUMA_ACROSS and LUMA_DOWN (luma blocks of an
// MCU), MCU_WIDTH and MCU_HEIGHT (pixels), BLOCKS_PER_MCU and MCUS_PER_SEGMENT. An entry is a place where decoding can start: some
// segments of an MCU row, or all of it.

struct Frame {
    width: u32,             // pixels
    height: u32,
    mcus_per_row: u32,
    rows: u32,              // MCU rows
    segments_per_row: u32,
    entries: u32,
    stream_words: u32,      // the last one filled up with zeros
    list_words: u32,        // capacity of `list`
    long_codes: vec4u,      // by Huffman table: what to add to 16 bits for their place in `huffman`, modulo 2^32
    threads_per_entry: u32, // of huffman_decode, a power of two
}

const SEGMENT_BLOCKS = MCUS_PER_SEGMENT * BLOCKS_PER_MCU;
// What `list` has of a coefficient: its level, from bit 16 on its zigzag position, and from this bit on its block in the row, modulo
// ELEMENT_BLOCKS.
const ELEMENT_BLOCK_SHIFT = 22u;
const ELEMENT_BLOCKS = 1024u;
// What `segments` says of a segment besides where its part of the list begins: the part's length and, from this bit on, its entry.
const SEGMENT_ENTRY_SHIFT = 10u;
const LUMA_BLOCKS = LUMA_ACROSS * LUMA_DOWN;
const HAS_CHROMA = BLOCKS_PER_MCU > LUMA_BLOCKS;
/// Chroma has fewer samples than luma.
const SUBSAMPLED = HAS_CHROMA && LUMA_BLOCKS > 1u;

/// 0 for Y, 1 for Cb, 2 for Cr, of the nth block of an MCU.
fn component_of(block: u32) -> u32 {
    return select(block - LUMA_BLOCKS + 1u, 0u, block < LUMA_BLOCKS);
}
