// Sums of runs added to the targets that have rows: out[t] += sum of the rows with id t.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/atomics.cuh"
#include "core/run_parts.cuh"

namespace bk {

enum class RunSink { kParts, kAtomic };

// kParts: ids sorted, one writer a run. kAtomic: ids in any order; equal neighbours are still added together first.
template <RunSink kSink, int N, class Source, class I>
__global__ void __launch_bounds__(kRunThreads, kRunBlocks)
    add_runs_kernel(Source source, const I* ids, typename Source::Element* out, RunShape s,
                    RunParts<compute_t<typename Source::Element>> parts, int group) {
    using T = typename Source::Element;
    using C = compute_t<T>;
    constexpr bool kHasParts = kSink == RunSink::kParts;
    constexpr int kUnroll = 4;
    const RowLane place = RowLane::here<N>(group);
    const int64_t chunk = place.worker, column = place.column;
    if (chunk >= s.chunks) return;
    const bool inside = column < s.columns;
    const unsigned mask = group_mask(group);
    const uint32_t first_row = static_cast<uint32_t>(s.rows * chunk / s.chunks);
    const uint32_t last_row = static_cast<uint32_t>(s.rows * (chunk + 1) / s.chunks);
    bool is_continued = kHasParts && first_row > 0 && ids[first_row - 1] == ids[first_row];
    int32_t head_target = -1, last_id = -1;
    C sum[N];
    clear_row(sum);

    // A window of `group` rows: each thread fetches one's id and place, and whether its run ends there.
    const auto fetch = [&](uint32_t row, int32_t* id, uint32_t* index, bool* ends) {
        if (row >= last_row) return;
        *id = clamp_id(ids[row], s.targets);
        *index = source.index(row);
        *ends = row + 1 == s.rows || (!kHasParts && row + 1 == last_row) || ids[row + 1] != ids[row];
    };
    int32_t next_id = -1;
    uint32_t next_index = 0;
    bool next_ends = false;
    fetch(first_row + place.lane, &next_id, &next_index, &next_ends);
    for (uint32_t window = first_row; window < last_row; window += group) {
        const int32_t my_id = next_id;
        const uint32_t my_index = next_index;
        const unsigned ends = __ballot_sync(mask, next_ends) >> (threadIdx.x & 31 & ~(group - 1));
        fetch(window + group + place.lane, &next_id, &next_index, &next_ends);
        const int count = static_cast<int>(min(static_cast<uint32_t>(group), last_row - window));
        last_id = __shfl_sync(mask, my_id, count - 1, group);
        for (int first = 0; first < count; first += kUnroll) {
            Vec<T, N> value[kUnroll], before[kUnroll];
            int32_t id[kUnroll];
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
                id[u] = __shfl_sync(mask, my_id, first + u, group);
                const uint32_t index = __shfl_sync(mask, my_index, first + u, group);
                const bool valid = first + u < count && id[u] >= 0 && id[u] < s.targets && inside;
                if (valid) value[u] = source.template load_row<N>(index, s.columns, column);
                if (kHasParts && valid && (ends >> (first + u) & 1)) before[u] = load_once<N>(out + id[u] * s.columns + column);
            }
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
                if (first + u >= count) continue;
                const bool valid = id[u] >= 0 && id[u] < s.targets;
                if (valid && inside) add_row(sum, value[u]);
                if (!(ends >> (first + u) & 1)) continue;
                if (is_continued) {
                    keep_part(parts.head, chunk, s, column, sum);
                    head_target = valid ? id[u] : -1;
                    is_continued = false;
                } else if (valid && inside) {
                    if constexpr (kHasParts) {
                        add_row(sum, before[u]);
                        store_once<N>(out + id[u] * s.columns + column, narrow_row<N, T>(sum));
                    } else {
                        atomic_add<N>(out + id[u] * s.columns + column, sum);
                    }
                }
                clear_row(sum);
            }
        }
    }
    if (!kHasParts) return;
    keep_part(parts.tail, chunk, s, column, sum);
    if (place.lane == 0 && blockIdx.y == 0) {
        parts.head_target[chunk] = head_target;
        parts.tail_target[chunk] = last_id;
    }
}

template <class Source, class I, class T = typename Source::Element>
Status add_runs(const Launch& launch, const RunShape& s, const Source& source, const I* ids, T* out,
                const RunParts<compute_t<T>>& parts) {
    constexpr int N = kVectorLanes<T>;
    RowGroups groups;
    BK_TRY(choose_run_groups(s, source, out, &groups));
    BK_TRY(launch_kernel(launch, run_grid(s, groups),
                         groups.lanes > 1 ? add_runs_kernel<RunSink::kParts, N, Source, I>
                                          : add_runs_kernel<RunSink::kParts, 1, Source, I>,
                         source, ids, out, s, parts, groups.group));
    return join_runs<true>(launch, s, parts, out);
}

// Adds rows by atomics, ids in any order.
template <class Source, class I, class T = typename Source::Element>
Status add_rows_atomic(const Launch& launch, RunShape s, const Source& source, const I* ids, T* out) {
    constexpr int N = kVectorLanes<T>;
    constexpr int64_t kRowsPerWorker = 32;
    RowGroups groups;
    BK_TRY(choose_run_groups(s, source, out, &groups));
    s.chunks = ceil_div<int64_t>(s.rows, kRowsPerWorker);
    return launch_kernel(launch, run_grid(s, groups),
                         groups.lanes > 1 ? add_runs_kernel<RunSink::kAtomic, N, Source, I>
                                          : add_runs_kernel<RunSink::kAtomic, 1, Source, I>,
                         source, ids, out, s, RunParts<compute_t<T>>{}, groups.group);
}

}  // namespace bk
