// JFIF colour for decoding: full-range BT.601 on sRGB-encoded values (T.871 section 7).

/// R, G and B in 0..1 from luma and chroma, all three minus 128.
fn rgb_of(y: f32, cb: f32, cr: f32) -> vec3f {
    let rgb = vec3f(y + 1.402 * cr, y - 0.344136286 * cb - 0.714136286 * cr, y + 1.772 * cb);
    return clamp(round(rgb + 128.0), vec3f(0.0), vec3f(255.0)) / 255.0;
}
