// Stage 2 of 3: where every span begins, one workgroup per MCU row.
//
// in:       `records`
// out:      `places`: bit offset in the row before stuffing, bytes stuffed before it, the bits of the byte it begins in, and which of
//           its segments begin an entry of the index; `rows`: bytes and entries of each
// dispatch: (rows), 64 threads
// moves:    112 bytes a span
//
// A row ends with a restart marker, so it starts on a byte and knows nothing of other rows. The prefix sum of bit lengths tells
// where the bytes begin in each span's code; the record then says how many of them are 0xFF; their prefix sum gives the rest. A
// byte that two spans share counts where it begins.
//
// The index: a row is cut into stretches of frame.entry_work, and the segments whose middle falls into the same one are an entry. Work is
// bits, and a cost per segment, because symbols count and every block has two of them, however short.

#import encoder_frame
#import scan

const WORKGROUP_SIZE = 64u;
const MARKER_BYTES = 2u;
const SEGMENT_WORK = 3u * SEGMENT_BLOCKS;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> records: array<Record>;
@group(0) @binding(2) var<storage, read_write> places: array<Place>;
@group(0) @binding(3) var<storage, read_write> rows: array<Row>;

/// Whether the byte that begins in this span, `here` bits before its end, and ends beyond it, is 0xFF.
fn last_byte_is_ff(bits: u32, tail: u32, here: u32, following: u32, is_row_end: bool) -> bool {
    if (here == 0u || here > bits || (tail & low_bits(here)) != low_bits(here)) {
        return false;
    }
    if (is_row_end) {
        return true;            // filled up with ones
    }
    // A span shorter than the rest of the byte is the row's last, and filled up likewise.
    let rest = min(8u - here, span_bits(records[following]));
    return records[following].head >> (8u - rest) == low_bits(rest);
}

/// The stretch that the middle of a segment falls into: the `number`th of the row, with so many bits, so many before it.
fn stretch_of(number: u32, bits_before: u32, bits: u32) -> u32 {
    return (2u * bits_before + bits + (2u * number + 1u) * SEGMENT_WORK) / (2u * frame.entry_work);
}

/// Which of a span's segments begin an entry, lowest bit first.
fn entries_of(span: u32, first_segment: u32, bits_before: u32) -> u32 {
    let count = min(segments_per_row() - first_segment, SEGMENTS_PER_SPAN);
    var stretch = 0u;
    if (first_segment > 0u) {
        let before = records[span - 1u].segment_ends;
        let bits = before[SEGMENTS_PER_SPAN - 1u] - before[SEGMENTS_PER_SPAN - 2u];
        stretch = stretch_of(first_segment - 1u, bits_before - bits, bits);
    }
    var begins = 0u;
    var start = 0u;
    for (var n = 0u; n < count; n++) {
        let number = first_segment + n;
        let end = records[span].segment_ends[n];
        let here = stretch_of(number, bits_before + start, end - start);
        begins |= select(0u, 1u << n, here != stretch || number == 0u);
        stretch = here;
        start = end;
    }
    return begins;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn place_spans(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let first = group.x * frame.spans_per_row;
    var row_bits = 0u;
    var row_stuffed = 0u;
    var row_entries = 0u;
    for (var chunk = 0u; chunk < frame.spans_per_row; chunk += WORKGROUP_SIZE) {
        let i = chunk + thread;
        let in_row = i < frame.spans_per_row;
        let span = first + min(i, frame.spans_per_row - 1u);
        let is_row_end = i + 1u >= frame.spans_per_row;
        var stuffing = records[span].stuffing;
        let tail = records[span].tail;
        let bits = select(0u, span_bits(records[span]), in_row);

        let bit_sum = inclusive_sum(bits, thread);
        let end = row_bits + bit_sum.inclusive;
        row_bits += bit_sum.total;

        let first_byte = (0u - (end - bits)) & 7u;       // bits of the byte that the span before began
        let inside = (stuffing[first_byte >> 1u] >> ((first_byte & 1u) * 16u)) & 0xffffu;
        let last_byte = select(0u, 1u, last_byte_is_ff(bits, tail, end & 7u, span + 1u, is_row_end));
        let stuffed_sum = inclusive_sum(select(0u, inside + last_byte, in_row), thread);
        let stuffed = row_stuffed + stuffed_sum.inclusive;
        row_stuffed += stuffed_sum.total;

        var begins = 0u;
        if (in_row) {
            begins = entries_of(span, i * SEGMENTS_PER_SPAN, end - bits);
        }
        let entry_sum = inclusive_sum(countOneBits(begins), thread);
        let entries_before = row_entries + entry_sum.inclusive - countOneBits(begins);
        row_entries += entry_sum.total;
        if (in_row) {
            places[span].entries = begins | (entries_before << 16u);
            // What is stuffed after this span's last byte comes after the next span's beginning in that byte.
            if (!is_row_end) {
                places[span + 1u].bits_before = end;
                places[span + 1u].stuffed_before = stuffed - last_byte;
                places[span + 1u].head = tail & low_bits(end & 7u);
            }
            if (i == 0u) {
                places[first].bits_before = 0u;
                places[first].stuffed_before = 0u;
                places[first].head = 0u;
            }
        }
    }
    if (thread == 0u) {
        rows[group.x] = Row(((row_bits + 7u) >> 3u) + row_stuffed + MARKER_BYTES, row_entries);
    }
}
