// blit: puts the decoded picture on the canvas, texel for pixel.
// in:  picture, rgba8unorm, sRGB-encoded values, at least as large as the canvas.
// out: the canvas texture; its format is not an -srgb one, so the encoded values pass through unchanged.
// draw: 3 vertices, one triangle that covers the canvas. Moves 4 bytes in and 4 bytes out a pixel.

@group(0) @binding(0) var picture: texture_2d<f32>;

@vertex
fn cover(@builtin(vertex_index) index: u32) -> @builtin(position) vec4f {
  let corner = vec2f(f32((index << 1u) & 2u), f32(index & 2u));
  return vec4f(corner * 2.0 - 1.0, 0.0, 1.0);
}

@fragment
fn copy_texel(@builtin(position) position: vec4f) -> @location(0) vec4f {
  return textureLoad(picture, vec2u(position.xy), 0);
}
