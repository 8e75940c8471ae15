// JFIF colour for decoding: full-range BT.601 on sRGB-encoded values (T.871 section 7).

#import rounding

/// R, G and B from luma as 0..255 and chroma minus 128, in whole 255ths, not yet clamped to 1: a store to 8 bits does that. It should
/// round as well, but not all do.
fn rgb_of(y: f32, cb: f32, cr: f32) -> vec3f {
    let rgb = vec3f(y + 1.402 * cr, y - 0.344136286 * cb - 0.714136286 * cr, y + 1.772 * cb);
    let positive = max(rgb, vec3f(0.0));
    return vec3f(rounded(positive.r), rounded(positive.g), rounded(positive.b)) * (1.0 / 255.0);
}
