// JFIF colour: full-range BT.601 on sRGB-encoded values, in whole numbers.
// Fixed point with 16 fractional bits, the weights of T.871 section 7 rounded to it. Luma and chroma must be integers: two
// workgroups that sum the same samples in another order have to get the same DC (see encode_segment.wgsl).

#import rounding

const HALF: i32 = 32768;

/// sRGB-encoded values from linear ones, both 0..1 (IEC 61966-2-1).
fn srgb_encode(linear: vec3f) -> vec3f {
    return select(1.055 * pow(linear, vec3f(1.0 / 2.4)) - 0.055, linear * 12.92, linear <= vec3f(0.0031308));
}

/// Luma minus 128, -128..127.
fn luma_of(rgb: vec3i) -> i32 {
    return ((19595 * rgb.r + 38470 * rgb.g + 7471 * rgb.b + HALF) >> 16u) - 128;
}

/// Cb and Cr minus 128, -128..127. The rounding constant is just below one half, so that pure blue and red stay in range.
fn chroma_of(rgb: vec3i) -> vec2i {
    return vec2i(
        (-11059 * rgb.r - 21709 * rgb.g + 32768 * rgb.b + HALF - 1) >> 16u,
        (32768 * rgb.r - 27439 * rgb.g - 5329 * rgb.b + HALF - 1) >> 16u,
    );
}

/// R, G and B from luma as 0..255 and chroma minus 128, in whole 255ths, not yet clamped to 1: a store to 8 bits does that. It should
/// round as well, but not all do.
fn rgb_of(y: f32, cb: f32, cr: f32) -> vec3f {
    let rgb = vec3f(y + 1.402 * cr, y - 0.344136286 * cb - 0.714136286 * cr, y + 1.772 * cb);
    let positive = max(rgb, vec3f(0.0));
    return vec3f(rounded(positive.r), rounded(positive.g), rounded(positive.b)) * (1.0 / 255.0);
}
