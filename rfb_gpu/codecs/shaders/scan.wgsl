// Prefix sum over a workgroup of WORKGROUP_SIZE threads, which the stage declares. Portable: no subgroups.

var<workgroup> scan_words: array<u32, WORKGROUP_SIZE>;

/// Sum of `value` over this thread and all before it. Every thread of the workgroup must call it, with a barrier before the next call.
fn inclusive_sum(value: u32, thread: u32) -> u32 {
    scan_words[thread] = value;
    workgroupBarrier();
    for (var step = 1u; step < WORKGROUP_SIZE; step <<= 1u) {
        var below = 0u;
        if (thread >= step) {
            below = scan_words[thread - step];
        }
        workgroupBarrier();
        scan_words[thread] += below;
        workgroupBarrier();
    }
    return scan_words[thread];
}

/// The sum over the whole workgroup, once inclusive_sum has returned.
fn workgroup_sum() -> u32 {
    return scan_words[WORKGROUP_SIZE - 1u];
}
