// What is left of a row after its filter (PNG specification, section 9), a word of four bytes at a time. The stage declares `frame` and
// `rows`.

#import png_pixels

const SUB = 1u;
const UP = 2u;
const PAETH = 4u;

fn unpacked(word: u32) -> vec4i {
    return vec4i((vec4u(word) >> vec4u(0u, 8u, 16u, 24u)) & vec4u(0xffu));
}

fn packed(bytes: vec4i) -> u32 {
    let low = vec4u(bytes) & vec4u(0xffu);
    return low.x | (low.y << 8u) | (low.z << 16u) | (low.w << 24u);
}

/// Bytes of the row's pixels; zeros before the first one, where the filter's number stands.
fn pixel_bytes(base: u32, word: u32) -> u32 {
    return select(0u, rows[base + word], word > 0u);
}

/// The bytes a pixel to the left of a word's, which the word `before` precedes.
fn left_bytes(before: u32, word: u32) -> u32 {
    if (CHANNELS == 4u) {
        return before;
    }
    return (before >> (8u * (4u - CHANNELS))) | (word << (8u * (CHANNELS % 4u)));
}
