// For palettes: rows of the numbers of their colours, one workgroup per row. Only if the colours are few enough.
//
// in:       `rows`: of RGB, `ranks`: for each place of the table of colours, the colour and from bit 24 on its number
// out:      `indexes`
// dispatch: (rows), 128 threads, four pixels a thread at a time
// moves:    each pixel once, a byte for each

#import png_frame
#import png_palette
#import png_pixels

const WORKGROUP_SIZE = 128u;

@group(0) @binding(0) var<uniform> frame: Frame;       // of the indexes
@group(0) @binding(1) var<uniform> frame_before: Frame;
@group(0) @binding(2) var<storage, read> rows: array<u32>;
@group(0) @binding(3) var<storage, read> ranks: array<u32>;
@group(0) @binding(4) var<storage, read_write> indexes: array<u32>;

var<workgroup> table: array<u32, PLACES>;

fn index_of(colour: u32) -> u32 {
    var place = first_place(colour);
    // It is there, so nothing comes before it that has none.
    for (var tries = 0u; tries < PLACES; tries++) {
        let there = table[place];
        if ((there & 0xffffffu) == colour) {
            return there >> 24u;
        }
        place = (place + 1u) % PLACES;
    }
    return 0u;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn index_rows(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    for (var place = thread; place < PLACES; place += WORKGROUP_SIZE) {
        table[place] = ranks[place];
    }
    workgroupBarrier();
    let source = group.x * frame_before.row_words + 1u;
    let base = group.x * frame.row_words;
    let quads = (frame.width + 3u) / 4u;
    for (var quad = thread; quad < quads; quad += WORKGROUP_SIZE) {
        // A row's last words may be missing; what is read instead belongs to pixels beyond its end.
        let at = source + quad * 3u;
        let words = vec3u(rows[at], rows[at + 1u], rows[at + 2u]);
        var word = 0u;
        for (var k = 0u; k < 4u && quad * 4u + k < frame.width; k++) {
            word |= index_of(colour_of(words, k)) << (8u * k);
        }
        indexes[base + 1u + quad] = word;
    }
    if (thread == 0u) {
        indexes[base] = 0u;
    }
}
