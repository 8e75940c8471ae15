// Between float and integer by addition: GPUs have few units for conversions and for round(), an eighth as many as for additions.

/// 1.5 * 2^23. In a float of this size the lowest bit is worth 1, so a number that is added to it, up to 22 bits, stands in the low
/// bits, rounded to the nearest integer, ties to even.
const ROUNDER = 12582912.0;
const ROUNDER_BITS = 0x4b400000u;

/// Of up to 22 bits.
fn float_of(number: i32) -> f32 {
    return bitcast<f32>(u32(number) + ROUNDER_BITS) - ROUNDER;
}

/// To the nearest integer. Compilers that take float for real numbers would drop the addition and the subtraction if nothing stood between;
/// the bits that are set here are set already. They also add up a longer sum in an order of their own, with the large number
/// first: `value` must come from something else, such as a minimum or maximum.
fn rounded(value: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(value + ROUNDER) | 0x4b000000u) - ROUNDER;
}
