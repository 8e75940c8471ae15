/// sRGB-encoded values from linear ones, both 0..1 (IEC 61966-2-1).
fn srgb_encode(linear: vec3f) -> vec3f {
    return select(1.055 * pow(linear, vec3f(1.0 / 2.4)) - 0.055, linear * 12.92, linear <= vec3f(0.0031308));
}

/// The encoded colour that a texel of premultiplied ones has by itself; black where it has none. What is brighter than its alpha allows
/// is as bright as that.
fn straight_colour(texel: vec4f, is_linear: bool) -> vec3f {
    // Of 8-bit numbers the least alpha is above this.
    let colour = min(texel.rgb / max(texel.a, 0.001), vec3f(1.0));
    return select(colour, srgb_encode(colour), is_linear);
}
