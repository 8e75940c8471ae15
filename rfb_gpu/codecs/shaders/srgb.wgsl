/// sRGB-encoded values from linear ones, both 0..1 (IEC 61966-2-1).
fn srgb_encode(linear: vec3f) -> vec3f {
    return select(1.055 * pow(linear, vec3f(1.0 / 2.4)) - 0.055, linear * 12.92, linear <= vec3f(0.0031308));
}
