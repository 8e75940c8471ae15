// Stage 2 of 3: where every segment begins, one workgroup per MCU row.
//
// in:       `scratch`, `records`
// out:      `places`: bit offset in the row before stuffing, bytes stuffed before it, the bits of the byte it begins in;
//           `row_bytes`: length of each row
// dispatch: (rows), 256 threads
// moves:    the code once in, 24 bytes a segment
//
// A row ends with a restart marker, so it starts on a byte and knows nothing of other rows. The prefix sum of bit lengths tells
// where the bytes begin in each segment's code; then its 0xFF bytes can be counted; their prefix sum gives the rest. A byte
// that two segments share counts where it begins.

#import encoder_frame
#import scan

const WORKGROUP_SIZE = 256u;
const LANES = 8u;               // threads that share the words of a segment
const MARKER_BYTES = 2u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> scratch: array<u32>;
@group(0) @binding(2) var<storage, read> records: array<Record>;
@group(0) @binding(3) var<storage, read_write> places: array<Place>;
@group(0) @binding(4) var<storage, read_write> row_bytes: array<u32>;

var<workgroup> starts: array<u32, WORKGROUP_SIZE>;             // bits before each segment of the chunk
var<workgroup> counts: array<atomic<u32>, WORKGROUP_SIZE>;     // 0xFF bytes that begin in it

/// Up to 32 bits of a segment's code from a bit on, first bit highest; what follows the segment's last word is arbitrary.
fn code_at(record: Record, at: u32) -> u32 {
    let word = record.scratch_start + (at >> 5u);
    return window(scratch[word], scratch[word + 1u], at & 31u);
}

/// The last `count` bits of a segment, lowest bit last; count 0..7. Nothing where it has fewer.
fn last_bits(record: Record, count: u32) -> u32 {
    if (count > record.bits) {
        return 0u;
    }
    return (code_at(record, record.bits - count) >> 1u) >> (31u - count);
}

/// Whether the byte that begins in this segment and ends beyond it is 0xFF.
fn last_byte_is_ff(record: Record, end: u32, following: u32, is_row_end: bool) -> bool {
    let here = end & 7u;        // bits of it in this segment
    if (here == 0u || here > record.bits || last_bits(record, here) != low_bits(here)) {
        return false;
    }
    if (is_row_end) {
        return true;            // filled up with ones
    }
    // A segment shorter than the rest of the byte is the row's last, and filled up likewise.
    let next = records[following];
    let rest = min(8u - here, next.bits);
    return code_at(next, 0u) >> (32u - rest) == low_bits(rest);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn place_segments(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let first = group.x * frame.segments_per_row;
    var row_bits = 0u;
    var row_stuffed = 0u;
    for (var chunk = 0u; chunk < frame.segments_per_row; chunk += WORKGROUP_SIZE) {
        let i = chunk + thread;
        let in_row = i < frame.segments_per_row;
        var record = Record(0u, 0u);
        if (in_row) {
            record = records[first + i];
        }
        let end = row_bits + inclusive_sum(record.bits, thread);
        let start = end - record.bits;
        row_bits += workgroup_sum();
        starts[thread] = start;
        atomicStore(&counts[thread], 0u);
        workgroupBarrier();

        // 0xFF bytes within each segment.
        let count = min(WORKGROUP_SIZE, frame.segments_per_row - chunk);
        for (var n = thread / LANES; n < count; n += WORKGROUP_SIZE / LANES) {
            let counted = records[first + chunk + n];
            let first_byte = (8u - (starts[n] & 7u)) & 7u;
            var found = 0u;
            var at = (thread % LANES) * 32u;
            let first_word = counted.scratch_start + (select(0u, at, at < counted.bits) >> 5u);
            var here = scratch[first_word];
            var next = scratch[first_word + 1u];
            while (at < counted.bits) {
                // The words of the next round are asked for before these are looked at.
                let later = at + LANES * 32u;
                let later_word = counted.scratch_start + (select(0u, later, later < counted.bits) >> 5u);
                let later_here = scratch[later_word];
                let later_next = scratch[later_word + 1u];
                // Bit 31 - k is set where two, four, eight ones begin k bits into the word.
                let two = here & window(here, next, 1u);
                let two_next = next & (next << 1u);
                let four = two & window(two, two_next, 2u);
                let four_next = two_next & (two_next << 2u);
                var ones = four & window(four, four_next, 4u);
                ones &= 0x80808080u >> first_byte;
                if (at + 32u + 8u > counted.bits) {
                    // Only bytes that end in this segment: those that begin at most 8 bits before its end.
                    let room = select(counted.bits - at - 7u, 0u, at + 8u > counted.bits);
                    ones &= ~select(0xffffffffu >> room, 0u, room > 31u);
                }
                found += countOneBits(ones);
                at = later;
                here = later_here;
                next = later_next;
            }
            if (found != 0u) {
                atomicAdd(&counts[n], found);
            }
        }
        workgroupBarrier();

        var last_byte = 0u;
        if (in_row) {
            let is_row_end = i == frame.segments_per_row - 1u;
            last_byte = select(0u, 1u, last_byte_is_ff(record, end, first + i + 1u, is_row_end));
        }
        let stuffed = row_stuffed + inclusive_sum(atomicLoad(&counts[thread]) + last_byte, thread);
        row_stuffed += workgroup_sum();
        if (in_row) {
            // What is stuffed after this segment's last byte comes after the next segment's beginning in that byte.
            if (i + 1u < frame.segments_per_row) {
                places[first + i + 1u].bits_before = end;
                places[first + i + 1u].stuffed_before = stuffed - last_byte;
                places[first + i + 1u].head = last_bits(record, end & 7u);
            }
            if (i == 0u) {
                places[first] = Place(0u, 0u, 0u);
            }
        }
        workgroupBarrier();
    }
    if (thread == 0u) {
        row_bytes[group.x] = ((row_bits + 7u) >> 3u) + row_stuffed + MARKER_BYTES;
    }
}
