// Prefix sum over a workgroup of WORKGROUP_SIZE threads, a multiple of 8, which the stage declares. Portable: no subgroups.
// Two levels, so two barriers: sums within chunks of 8, then the sums of the chunks before.

const SCAN_CHUNK = 8u;
const SCAN_CHUNKS = WORKGROUP_SIZE / SCAN_CHUNK;

var<workgroup> scan_words: array<u32, WORKGROUP_SIZE>;
var<workgroup> scan_totals: array<u32, SCAN_CHUNKS>;

struct Sum {
    inclusive: u32,     // over this place and all before it
    total: u32,
}

/// The sums of the values that the threads put at their places. Every thread of the workgroup must call it, each with a place of
/// its own; no barrier is needed before the next call.
fn inclusive_sum(value: u32, place: u32) -> Sum {
    scan_words[place] = value;
    workgroupBarrier();
    let chunk = place / SCAN_CHUNK;
    let first = chunk * SCAN_CHUNK;
    var sum = Sum(0u, 0u);
    for (var k = 0u; k < SCAN_CHUNK; k++) {
        sum.inclusive += select(0u, scan_words[first + k], first + k <= place);
    }
    if (place == first + SCAN_CHUNK - 1u) {
        scan_totals[chunk] = sum.inclusive;
    }
    workgroupBarrier();
    for (var k = 0u; k < SCAN_CHUNKS; k++) {
        let in_chunk = scan_totals[k];
        sum.inclusive += select(0u, in_chunk, k < chunk);
        sum.total += in_chunk;
    }
    return sum;
}
