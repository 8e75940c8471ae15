// Texels to JFIF samples: full-range BT.601 on sRGB-encoded values, with the weights of T.871 section 7 in fixed point, 16
// fractional bits.
//
// Samples are whole numbers: two workgroups that sum the same ones in another order have to get the same DC (see
// encode_span.wgsl).

#import srgb

/// R, G and B, 0..255, each plus 0x4b000000: a float in 2^23..2^24 has an integer in its low bits, and that takes one instruction
/// where rounding and converting take two slow ones. The weights of luma add up to 65536 and those of chroma to zero, so what is added
/// vanishes modulo 2^32 in the sums below.
fn channels(rgb: vec3f) -> vec3u {
    return bitcast<vec3u>(rgb * 255.0 + 8388608.0);
}

const HALF = 0x8000u;

// Of samples: 0 stands for -128.
const SAMPLE_OFFSET = 128u;

/// Luma, 0..255, in the bits from 16 on.
fn luma_of(p: vec3u) -> u32 {
    return 19595u * p.r + 38470u * p.g + 7471u * p.b + HALF;
}

/// Cb and Cr, 0..255, in the bits from 16 on: the mean of CHROMA_PIXELS pixels of which the channels are the sum. Rounded from just
/// below one half, so that pure blue and red stay in range.
fn chroma_of(p: vec3u) -> vec2u {
    let offset = CHROMA_PIXELS * ((SAMPLE_OFFSET << 16u) + HALF) - 1u;
    let sum = vec2u(
        0x8000u * p.b - 11059u * p.r - 21709u * p.g + offset,
        0x8000u * p.r - 27439u * p.g - 5329u * p.b + offset,
    );
    return sum / CHROMA_PIXELS;
}

/// Four samples in a word, the first in the lowest byte.
fn four_samples(a: u32, b: u32, c: u32, d: u32) -> u32 {
    return (a >> 16u) | ((b >> 8u) & 0xff00u) | (c & 0xff0000u) | ((d << 8u) & 0xff000000u);
}

/// Sample k of a word as a float.
fn sample_of(word: u32, k: u32) -> f32 {
    return f32((word >> (8u * k)) & 0xffu);
}
