// Stage 2 of 3: where every segment begins, one workgroup per MCU row.
//
// in:       `records`
// out:      `places`: bit offset in the row before stuffing, and 0xFF bytes stuffed before it; `row_bytes`: length of each row
// dispatch: (rows), 64 threads, a thread per segment
// moves:    40 bytes a segment
//
// A row ends with a restart marker, so it starts on a byte and knows nothing of other rows. The prefix sum of bit lengths gives the
// offset of each segment within its first byte; that chooses among its eight counts of 0xFF bytes; their prefix sum gives the rest.

#import encoder_frame
#import scan

const WORKGROUP_SIZE = 64u;
const MARKER_BYTES = 2u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> records: array<u32>;
@group(0) @binding(2) var<storage, read_write> places: array<vec2u>;
@group(0) @binding(3) var<storage, read_write> row_bytes: array<u32>;

/// Whether the byte that a segment shares with the one before it is 0xFF; it begins `offset` bits before the segment.
fn shared_byte_is_ff(offset: u32, ends_before: u32, ends: u32) -> bool {
    let from_before = (ends_before >> 8u) & low_bits(offset);
    let from_here = (ends & 0xffu) >> offset;
    return offset != 0u && from_before == low_bits(offset) && from_here == low_bits(8u - offset);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn place_segments(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let first = group.x * frame.segments_per_row;
    var row_bits = 0u;
    var row_stuffed = 0u;
    for (var chunk = 0u; chunk < frame.segments_per_row; chunk += WORKGROUP_SIZE) {
        let i = chunk + thread;
        let segment = first + i;
        let record = segment * RECORD_WORDS;
        var bits = 0u;
        if (i < frame.segments_per_row) {
            bits = records[record + RECORD_BITS];
        }
        let start = row_bits + inclusive_sum(bits, thread) - bits;
        row_bits += workgroup_sum();
        workgroupBarrier();

        var stuffed = 0u;
        if (i < frame.segments_per_row) {
            let offset = start & 7u;
            let first_whole_byte = (8u - offset) & 7u;
            let counts = records[record + RECORD_FF_COUNTS + (first_whole_byte >> 1u)];
            stuffed = (counts >> ((first_whole_byte & 1u) * 16u)) & 0xffffu;
            if (i > 0u && shared_byte_is_ff(offset, records[record - RECORD_WORDS + RECORD_ENDS], records[record + RECORD_ENDS])) {
                stuffed += 1u;
            }
        }
        let stuffed_before = row_stuffed + inclusive_sum(stuffed, thread) - stuffed;
        row_stuffed += workgroup_sum();
        workgroupBarrier();

        if (i < frame.segments_per_row) {
            places[segment] = vec2u(start, stuffed_before);
        }
    }
    if (thread == 0u) {
        // The last byte is filled up with ones; should that make it 0xFF, it is stuffed too.
        let used = row_bits & 7u;
        let ends = records[(first + frame.segments_per_row - 1u) * RECORD_WORDS + RECORD_ENDS];
        let padded_ff = used != 0u && ((ends >> 8u) & low_bits(used)) == low_bits(used);
        row_bytes[group.x] = ((row_bits + 7u) >> 3u) + row_stuffed + select(0u, 1u, padded_ff) + MARKER_BYTES;
    }
}
