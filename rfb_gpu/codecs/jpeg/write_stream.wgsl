// Stage 3 of 3: the bytes of the file, one workgroup per span.
//
// in:       `scratch`, `records`, `places`, `rows`
// out:      `result`: the stuffed stream with its markers, its length, the entries of the index
// dispatch: (spans_per_row, rows), 64 threads, a thread per 4 bytes before stuffing
// moves:    the code once, the stream once
//
// `result` must be zero where the stream goes: bytes are put in by atomicOr, because neighbours share words.

#import encoder_frame
#import scan

const WORKGROUP_SIZE = 64u;
const RST0 = 0xd0u;
const EOI = 0xd9u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> scratch: array<u32>;
@group(0) @binding(2) var<storage, read> records: array<Record>;
@group(0) @binding(3) var<storage, read> places: array<Place>;
@group(0) @binding(4) var<storage, read> rows: array<Row>;
@group(0) @binding(5) var<storage, read_write> result: array<atomic<u32>>;

// Where each thread's bytes begin, in bytes of the stream, << 4 | which of them are 0xFF.
var<workgroup> placed: array<u32, WORKGROUP_SIZE>;

fn put_word(word: u32, bits: u32) {
    if (bits == 0u) {
        return;
    }
    let end = (frame.stream_start + frame.stream_capacity) >> 2u;
    if (word < end) {
        atomicOr(&result[word], bits);
    } else {
        atomicOr(&result[RESULT_FLAGS], FLAG_OVERFLOW);
    }
}

/// Puts up to 8 bytes, first byte lowest, at a byte position of the stream.
fn put_bytes(at: u32, bytes: vec2u) {
    let position = frame.stream_start + at;
    let word = position >> 2u;
    let shift = (position & 3u) * 8u;
    put_word(word, bytes.x << shift);
    put_word(word + 1u, ((bytes.x >> 1u) >> (31u - shift)) | (bytes.y << shift));
    put_word(word + 2u, (bytes.y >> 1u) >> (31u - shift));
}

fn stuffed_start(bits_before: u32, stuffed_before: u32) -> u32 {
    return (((bits_before >> 3u) + stuffed_before) << 3u) + (bits_before & 7u);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn write_stream(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let span = group.y * frame.spans_per_row + group.x;
    let scratch_start = span * frame.span_words;
    let bits = span_bits(records[span]);
    let place = places[span];
    let offset = place.bits_before & 7u;
    let is_row_end = group.x == frame.spans_per_row - 1u;
    let row_here = rows[group.y];

    // The rows above.
    var above = Row(0u, 0u);
    for (var row = thread; row < group.y; row += 4u * WORKGROUP_SIZE) {
        // Four at a time, under way together.
        let last = group.y - 1u;
        let a = rows[row];
        let b = rows[min(row + WORKGROUP_SIZE, last)];
        let c = rows[min(row + 2u * WORKGROUP_SIZE, last)];
        let d = rows[min(row + 3u * WORKGROUP_SIZE, last)];
        above.bytes += a.bytes + select(0u, b.bytes, row + WORKGROUP_SIZE <= last)
            + select(0u, c.bytes, row + 2u * WORKGROUP_SIZE <= last) + select(0u, d.bytes, row + 3u * WORKGROUP_SIZE <= last);
        above.entries += a.entries + select(0u, b.entries, row + WORKGROUP_SIZE <= last)
            + select(0u, c.entries, row + 2u * WORKGROUP_SIZE <= last) + select(0u, d.entries, row + 3u * WORKGROUP_SIZE <= last);
    }
    let row_start = inclusive_sum(above.bytes, thread).total;
    let entries_above = inclusive_sum(above.entries, thread).total;
    let row_end = row_start + row_here.bytes;
    let span_start = row_start * 8u + stuffed_start(place.bits_before, place.stuffed_before);
    // Of the segment that this thread looks after: its beginning, from the first byte's, and then in the stream. In bits.
    var segment_offset = offset;
    var segment_start = span_start;
    if (thread > 0u && thread < SEGMENTS_PER_SPAN) {
        segment_offset += records[span].segment_ends[thread - 1u];
    }

    let code_words = (bits + 31u) >> 5u;
    let end = offset + bits;                            // in bits from the first byte's beginning
    let bytes = (end + 7u) >> 3u;
    // A byte that this span does not finish is the next span's to stuff; a row's last byte is filled up and finished.
    let finished_end = select(end, end + 7u, is_row_end);
    var byte_start = span_start >> 3u;
    for (var chunk = 0u; chunk * 4u < bytes; chunk += WORKGROUP_SIZE) {
        let i = chunk + thread;
        let start = i * 32u;
        var word = 0u;                                  // 4 bytes of the stream, first byte highest
        var ff_bytes = 0u;                              // bit k: byte k is finished here and 0xFF
        if (i * 4u < bytes) {
            var code = 0u;
            if (i < code_words) {
                code = scratch[scratch_start + i];
            }
            word = code >> offset;
            if (i > 0u) {
                word |= (scratch[scratch_start + i - 1u] << 1u) << (31u - offset);
            }
            if (is_row_end && start < end && end < start + 32u) {
                // Fill up the row's last byte with ones.
                let padding = (8u - (end & 7u)) & 7u;
                word |= low_bits(padding) << (32u - (end - start) - padding);
            }
            // The same with the bits of the span before.
            let seen = word | select(0u, (place.head << 1u) << (31u - offset), i == 0u);
            for (var k = 0u; k < 4u; k++) {
                let is_finished = start + k * 8u + 8u <= finished_end;
                let is_ff = ((seen >> (24u - k * 8u)) & 0xffu) == 0xffu;
                ff_bytes |= select(0u, 1u << k, is_finished && is_ff);
            }
        }
        let ff_count = countOneBits(ff_bytes);
        let stuffed = inclusive_sum(ff_count, thread);
        let byte = byte_start + i * 4u + stuffed.inclusive - ff_count;
        placed[thread] = (byte << 4u) | ff_bytes;

        if (i * 4u < bytes) {
            var out = vec2u(0u);
            if (ff_bytes == 0u) {
                out.x = (word >> 24u) | ((word >> 8u) & 0xff00u) | ((word << 8u) & 0xff0000u) | (word << 24u);
            } else {
                var shift = 0u;
                for (var k = 0u; k < 4u; k++) {
                    let bits = (word >> (24u - k * 8u)) & 0xffu;
                    out.x |= select(0u, bits << (shift & 31u), shift < 32u);
                    out.y |= select(0u, bits << (shift & 31u), shift >= 32u);
                    shift += select(8u, 16u, ((ff_bytes >> k) & 1u) == 1u);
                }
            }
            put_bytes(byte, out);
        }
        byte_start += stuffed.total;

        workgroupBarrier();
        let in_chunk = (segment_offset >> 5u) - chunk;
        if (thread > 0u && thread < SEGMENTS_PER_SPAN && in_chunk < WORKGROUP_SIZE) {
            let in_word = (segment_offset >> 3u) & 3u;
            let here = placed[in_chunk];
            let stuffed_in_word = countOneBits(here & low_bits(in_word));
            segment_start = ((here >> 4u) + in_word + stuffed_in_word) * 8u + (segment_offset & 7u);
        }
    }

    if (thread < SEGMENTS_PER_SPAN && ((place.entries >> thread) & 1u) == 1u) {
        let entry = entries_above + (place.entries >> 16u) + countOneBits(place.entries & low_bits(thread));
        if (entry < frame.entry_capacity) {
            let segment = group.y * segments_per_row() + group.x * SEGMENTS_PER_SPAN + thread;
            atomicStore(&result[RESULT_ENTRIES + 2u * entry], segment_start);
            atomicStore(&result[RESULT_ENTRIES + 2u * entry + 1u], segment);
        }
    }
    if (is_row_end && thread == 0u) {
        let is_band_end = group.y == frame.rows - 1u;
        let marker = select(RST0 + ((frame.first_row + group.y) & 7u), EOI, is_band_end && frame.is_last_band == 1u);
        put_bytes(row_end - 2u, vec2u(0xffu | (marker << 8u), 0u));
        if (is_band_end) {
            atomicStore(&result[RESULT_STREAM_BYTES], row_end);
            atomicStore(&result[RESULT_ENTRY_COUNT], entries_above + row_here.entries);
        }
    }
}
