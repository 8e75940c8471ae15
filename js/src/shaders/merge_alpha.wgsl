// merge_alpha: the two pictures of a JPEG with alpha become one.
// in:  colour, multiplied with alpha; alpha, a gray picture. Both lossy, so colour is kept within what alpha allows.
// out: picture, premultiplied; written a little beyond the frame, where nobody looks
// dispatch: (width / 8, height / 8), 8x8 threads. Moves 8 bytes in and 4 bytes out a pixel.

@group(0) @binding(0) var colour: texture_2d<f32>;
@group(0) @binding(1) var alpha: texture_2d<f32>;
@group(0) @binding(2) var picture: texture_storage_2d<rgba8unorm, write>;

@compute @workgroup_size(8, 8)
fn merge_alpha(@builtin(global_invocation_id) at: vec3u) {
    let opacity = textureLoad(alpha, at.xy, 0).r;
    let rgb = textureLoad(colour, at.xy, 0).rgb;
    textureStore(picture, at.xy, vec4f(min(rgb, vec3f(opacity)), opacity));
}
