// Pixels in rows of bytes, and what both directions of PNG's filters need.

/// Pixel k of four of three bytes each, from their three words.
fn colour_of(words: vec3u, k: u32) -> u32 {
    switch (k) {
        case 0u: { return words.x & 0xffffffu; }
        case 1u: { return (words.x >> 24u) | ((words.y & 0xffffu) << 8u); }
        case 2u: { return (words.y >> 16u) | ((words.z & 0xffu) << 16u); }
        default: { return words.z >> 8u; }
    }
}

/// Which neighbour is nearest to left + up - corner (PNG specification, 9.4).
fn paeth(left: vec4i, up: vec4i, corner: vec4i) -> vec4i {
    let to_left = abs(up - corner);
    let to_up = abs(left - corner);
    let to_corner = abs(left + up - 2 * corner);
    let or_corner = select(corner, up, to_up <= to_corner);
    return select(or_corner, left, (to_left <= to_up) & (to_left <= to_corner));
}
