// The 8-point DCT and its inverse after Arai, Agui and Nakajima (1988): 5 multiplications, 29 additions.
// Both leave a factor of AAN_SCALE[k] (tables.py) per frequency to the quantisation tables. The path to and from frequency 0 has
// additions only, so for whole-numbered samples DC is exact.

/// Zigzag position of each coefficient, by row * 8 + column.
const ZIGZAG_POSITION = array<u32, 64>(
     0u,  1u,  5u,  6u, 14u, 15u, 27u, 28u,
     2u,  4u,  7u, 13u, 16u, 26u, 29u, 42u,
     3u,  8u, 12u, 17u, 25u, 30u, 41u, 43u,
     9u, 11u, 18u, 24u, 31u, 40u, 44u, 53u,
    10u, 19u, 23u, 32u, 39u, 45u, 52u, 54u,
    20u, 22u, 33u, 38u, 46u, 51u, 55u, 60u,
    21u, 34u, 37u, 47u, 50u, 56u, 59u, 61u,
    35u, 36u, 48u, 49u, 57u, 58u, 62u, 63u,
);

fn dct8(v: array<f32, 8>) -> array<f32, 8> {
    // Even and odd halves.
    let e0 = v[0] + v[7];
    let e1 = v[1] + v[6];
    let e2 = v[2] + v[5];
    let e3 = v[3] + v[4];
    let o0 = v[0] - v[7];
    let o1 = v[1] - v[6];
    let o2 = v[2] - v[5];
    let o3 = v[3] - v[4];

    let s0 = e0 + e3;
    let s1 = e1 + e2;
    let d0 = e0 - e3;
    let turned = (e1 - e2 + d0) * 0.7071067811865476;

    let p0 = o3 + o2;
    let p1 = (o2 + o1) * 0.7071067811865476;
    let p2 = o1 + o0;
    let shared_turn = (p0 - p2) * 0.3826834323650898;
    let q0 = p0 * 0.5411961001461970 + shared_turn;
    let q2 = p2 * 1.3065629648763766 + shared_turn;
    let r0 = o0 + p1;
    let r1 = o0 - p1;

    return array<f32, 8>(s0 + s1, r0 + q2, d0 + turned, r1 - q0, s0 - s1, r1 + q0, d0 - turned, r0 - q2);
}

fn idct8(v: array<f32, 8>) -> array<f32, 8> {
    let s0 = v[0] + v[4];
    let s1 = v[0] - v[4];
    let t0 = v[2] + v[6];
    let t1 = (v[2] - v[6]) * 1.4142135623730951 - t0;
    let e0 = s0 + t0;
    let e3 = s0 - t0;
    let e1 = s1 + t1;
    let e2 = s1 - t1;

    let a = v[5] + v[3];
    let b = v[5] - v[3];
    let c = v[1] + v[7];
    let d = v[1] - v[7];
    let o0 = c + a;
    let turn = (b + d) * 1.8477590650225735;
    let o1 = (turn - b * 2.6131259297527530) - o0;
    let o2 = (c - a) * 1.4142135623730951 - o1;
    let o3 = (turn - d * 1.0823922002923940) - o2;

    return array<f32, 8>(e0 + o0, e1 + o1, e2 + o2, e3 + o3, e3 - o3, e2 - o2, e1 - o1, e0 - o0);
}
