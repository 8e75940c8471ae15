// Stage 3 of 5: the bits of each span, one workgroup per span.
//
// in:       `rows`, `codes`
// out:      `scratch`: its first word, zero before, counts those that are used; the bits begin with a word of the span's own;
//           `records`: of the span, and in the one of its cut also how many bits stand before that
// dispatch: (spans of a row, rows), 128 threads
// moves:    each byte once, that of the row above once more, the stream once
//
// Spans take their words of `scratch` in any order. Where there are not enough, their bits are lost, and the host sees by their sum.

#import png_frame
#import png_spans
#import scan

const WORKGROUP_SIZE = SPAN_THREADS;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read> rows: array<u32>;
@group(0) @binding(2) var<storage, read> codes: array<u32>;
@group(0) @binding(3) var<storage, read_write> scratch: array<atomic<u32>>;
@group(0) @binding(4) var<storage, read_write> records: array<vec4u>;

var<workgroup> scratch_start: u32;
var<workgroup> sums: array<atomic<u32>, 2>;

var<private> is_writing: bool;
var<private> bits: u32;             // so far
var<private> pending: u32;          // those of the word that is being filled
var<private> word: u32;             // its number

fn on_token(token: u32) {
    let entry = codes[token];
    let length = entry & 31u;
    if (is_writing) {
        let code = entry >> 5u;
        let filled = bits & 31u;
        pending |= code << filled;
        if (filled + length >= 32u) {
            atomicOr(&scratch[word], pending);      // threads share the words in which they meet
            word++;
            pending = (code >> 1u) >> (31u - filled);
        }
    }
    bits += length;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn encode_spans(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (thread < 2u) {
        atomicStore(&sums[thread], 0u);
    }
    find_tokens(group.y, group.x, thread);

    let span_end = min(SPAN_BYTES, ROW_PADDING + frame.row_bytes - group.x * SPAN_BYTES);
    var sum = 0u;
    var weighted = 0u;              // times the bytes from each to the span's end
#unroll j 0..8
    let four$$j = dot4U8Packed(own[$j], 0x01010101u);
    sum += four$$j;
    weighted += (span_end - thread * PIECE_BYTES - 4u * $j) * four$$j - dot4U8Packed(own[$j], 0x03020100u);
#end
    atomicAdd(&sums[0], sum);
    atomicAdd(&sums[1], weighted);

    is_writing = false;
    each_token();
    let sum_of_bits = inclusive_sum(bits, thread);
    let words = (sum_of_bits.total + 31u) >> 5u;
    if (thread == 0u) {
        scratch_start = 1u + atomicAdd(&scratch[0], words);
        let record = vec4u(sum_of_bits.total, scratch_start, atomicLoad(&sums[0]), atomicLoad(&sums[1]));
        records[group.y * frame.spans_per_row + group.x] = record;
    }
    // A token begins at the cut, which is the first byte of a piece.
    if (group.x * SPAN_BYTES + thread * PIECE_BYTES == frame.cut) {
        records[frame.height * frame.spans_per_row + group.y].x = sum_of_bits.inclusive - bits;
    }
    workgroupBarrier();
    let has_room = scratch_start + words <= arrayLength(&scratch);
    if (has_room) {
        for (var i = thread; i < words; i += SPAN_THREADS) {
            atomicStore(&scratch[scratch_start + i], 0u);
        }
    }
    storageBarrier();
    if (has_room) {
        is_writing = true;
        bits = sum_of_bits.inclusive - bits;
        word = scratch_start + (bits >> 5u);
        each_token();
        if (pending != 0u) {
            atomicOr(&scratch[word], pending);
        }
    }
}
