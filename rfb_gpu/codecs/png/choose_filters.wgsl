// For filtered rows: which filter suits each best, one workgroup per row.
//
// in:       `rows`
// out:      `rows`: the filter's number, in each row's first word
// dispatch: (rows, or a part of them), 256 threads
// moves:    each byte twice
//
// Sub, Up or Paeth. The first row of a stripe takes nothing from the row above. Which suits best tells a sum over the residuals of about
// as many bits as they take: the usual sum of magnitudes values zeros too little where most of a row is zeros.

#import png_frame
#import png_residuals

const WORKGROUP_SIZE = 256u;

@group(0) @binding(0) var<uniform> frame: Frame;
@group(0) @binding(1) var<storage, read_write> rows: array<u32>;

var<workgroup> costs: array<atomic<u32>, 3>;

fn cost(residual: vec4i) -> u32 {
    let magnitude = abs((residual << vec4u(24u)) >> vec4u(24u));
    let bits = vec4u(32u) - countLeadingZeros(vec4u(magnitude));
    return bits.x + bits.y + bits.z + bits.w;
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn choose_filters(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) group_count: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let y = sampled_row(group.x, group_count.x);
    let base = y * frame.row_words;
    if (y % STRIPE_ROWS == 0u) {
        if (thread == 0u) {
            rows[base] = SUB << 24u;
        }
        return;
    }
    if (thread < 3u) {
        atomicStore(&costs[thread], 0u);
    }
    workgroupBarrier();
    let above = base - frame.row_words;
    var sums = vec3u(0u);
    for (var word = 1u + thread; word < frame.row_words; word += WORKGROUP_SIZE) {
        let word_here = rows[base + word];
        let word_up = rows[above + word];
        let here = unpacked(word_here);
        let up = unpacked(word_up);
        let left = unpacked(left_bytes(pixel_bytes(base, word - 1u), word_here));
        let corner = unpacked(left_bytes(pixel_bytes(above, word - 1u), word_up));
        sums += vec3u(cost(here - up), cost(here - left), cost(here - paeth(left, up, corner)));
    }
    atomicAdd(&costs[0], sums.x);
    atomicAdd(&costs[1], sums.y);
    atomicAdd(&costs[2], sums.z);
    workgroupBarrier();
    if (thread == 0u) {
        let up_cost = atomicLoad(&costs[0]);
        let sub_cost = atomicLoad(&costs[1]);
        let paeth_cost = atomicLoad(&costs[2]);
        var filter_kind = SUB;
        if (up_cost <= sub_cost && up_cost <= paeth_cost) {
            filter_kind = UP;
        } else if (paeth_cost < sub_cost) {
            filter_kind = PAETH;
        }
        rows[base] = filter_kind << 24u;
    }
}
