// Sums of runs, every target written: out[t] = sum of the rows with id t.
//
// Chunks divide rows and targets together, as a merge of the rows' ids with the targets' ends does (merge path: Odeh et al.
// 2012; for sums over runs: Merrill and Garland 2016), so that neither long runs nor empty targets unbalance them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/run_parts.cuh"

namespace bk {

// Least x in [low, high) for which is_past(x), else high; is_past is monotone. Each round the group's threads try as many
// places at once.
template <class IsPast>
BK_DEVICE int64_t group_search(int64_t low, int64_t high, int group, int lane, const IsPast& is_past) {
    const unsigned mask = group_mask(group);
    while (low < high) {
        const int64_t step = (high - low) / (group + 1) + 1;
        const int64_t mine = low + step * (lane + 1) - 1;
        const bool past = mine >= high || is_past(mine);
        const unsigned votes = __ballot_sync(mask, past) & mask;
        // Lanes before the first vote are not past; the answer lies in the stretch that ends at that lane.
        const int before = votes == 0 ? group : __ffs(votes) - 1 - (static_cast<int>(threadIdx.x) & 31 & ~(group - 1));
        const int64_t next = low + step * before;
        high = votes == 0 ? high : min(high, next + step - 1);
        low = min(next, high);
    }
    return low;
}

// Rows and targets at which chunk boundary `chunk` lies.
struct RunBoundary {
    uint32_t row;
    int32_t target;
};

template <bool kParts, class I>
BK_DEVICE RunBoundary find_boundary(const I* ids, const RunShape& s, int64_t chunk, int group, int lane) {
    if (kParts) {
        // Of the first k items, row i is one if it comes before the end of target k - i - 1.
        const int64_t k = s.items * chunk / s.chunks;
        const int64_t row = group_search(max(k - s.targets, int64_t{0}), min(k, int64_t{s.rows}), group, lane,
                                         [&](int64_t i) { return clamp_id(ids[i], s.targets) > k - i - 1; });
        return {static_cast<uint32_t>(row), static_cast<int32_t>(k - row)};
    }
    const int32_t target = static_cast<int32_t>(s.targets * chunk / s.chunks);
    const int64_t row = group_search(0, s.rows, group, lane, [&](int64_t i) { return clamp_id(ids[i], s.targets) >= target; });
    return {static_cast<uint32_t>(row), target};
}

// With kParts false the chunks divide the targets alone, so that no run crosses one and no parts are needed.
template <bool kParts, int N, class Source, class I>
__global__ void __launch_bounds__(kRunThreads, kRunBlocks)
    store_runs_kernel(Source source, const I* ids, typename Source::Element* out, RunShape s,
                      RunParts<compute_t<typename Source::Element>> parts, int group) {
    using T = typename Source::Element;
    using C = compute_t<T>;
    constexpr int kUnroll = sizeof(T) == 8 ? 4 : 8;
    const RowLane place = RowLane::here<N>(group);
    const int64_t chunk = place.worker, column = place.column;
    if (chunk >= s.chunks) return;
    const bool inside = column < s.columns;
    const unsigned mask = group_mask(group);
    const RunBoundary begin = find_boundary<kParts>(ids, s, chunk, group, place.lane);
    const RunBoundary end = find_boundary<kParts>(ids, s, chunk + 1, group, place.lane);

    bool is_continued = kParts && begin.row > 0 && clamp_id(ids[begin.row - 1], s.targets) == begin.target;
    int32_t current = begin.target, head_target = -1;
    C sum[N];
    clear_row(sum);
    const auto end_target = [&] {
        if (is_continued) {
            keep_part(parts.head, chunk, s, column, sum);
            head_target = current;
            is_continued = false;
        } else if (inside) {
            store<N>(out + current * s.columns + column, narrow_row<N, T>(sum));
        }
        clear_row(sum);
        ++current;
    };

    // A window of `group` rows: each thread fetches the id and the place of one and hands them round.
    const auto fetch = [&](uint32_t row, int32_t* id, uint32_t* index) {
        if (row >= end.row) return;
        *id = clamp_id(ids[row], s.targets);
        *index = source.index(row);
    };
    int32_t next_id = -1;
    uint32_t next_index = 0;
    fetch(begin.row + place.lane, &next_id, &next_index);
    for (uint32_t window = begin.row; window < end.row; window += group) {
        const int32_t my_id = next_id;
        const uint32_t my_index = next_index;
        fetch(window + group + place.lane, &next_id, &next_index);
        const int count = static_cast<int>(min(static_cast<uint32_t>(group), end.row - window));
        for (int first = 0; first < count; first += kUnroll) {
            Vec<T, N> value[kUnroll];
            int32_t id[kUnroll];
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
                id[u] = __shfl_sync(mask, my_id, first + u, group);
                const uint32_t index = __shfl_sync(mask, my_index, first + u, group);
                if (first + u < count && inside) value[u] = source.template load_row<N>(index, s.columns, column);
            }
            if (first + kUnroll <= count && id[0] == current && id[kUnroll - 1] == current) {
#pragma unroll
                for (int u = 0; u < kUnroll; ++u) add_row(sum, value[u]);
            } else {
#pragma unroll
                for (int u = 0; u < kUnroll; ++u) {
                    if (first + u >= count) continue;
                    while (current < id[u] && current < end.target) end_target();
                    if (current == id[u]) add_row(sum, value[u]);
                }
            }
        }
    }
    while (current < end.target) end_target();
    if (!kParts) return;
    keep_part(parts.tail, chunk, s, column, sum);
    if (place.lane == 0 && blockIdx.y == 0) {
        parts.head_target[chunk] = head_target;
        parts.tail_target[chunk] = end.target;
    }
}

// parts == nullptr: no workspace, chunks of whole targets.
template <class Source, class I, class T = typename Source::Element>
Status store_runs(const Launch& launch, RunShape s, const Source& source, const I* ids, T* out,
                  const RunParts<compute_t<T>>* parts) {
    constexpr int N = kVectorLanes<T>;
    RowGroups groups;
    BK_TRY(choose_run_groups(s, source, out, &groups));
    const bool wide = groups.lanes > 1;
    if (parts == nullptr) {
        s.chunks = std::min<int64_t>(s.targets, std::max<int64_t>(s.chunks, s.targets / 8));
        return launch_kernel(launch, run_grid(s, groups),
                             wide ? store_runs_kernel<false, N, Source, I> : store_runs_kernel<false, 1, Source, I>, source, ids,
                             out, s, RunParts<compute_t<T>>{}, groups.group);
    }
    BK_TRY(launch_kernel(launch, run_grid(s, groups),
                         wide ? store_runs_kernel<true, N, Source, I> : store_runs_kernel<true, 1, Source, I>, source, ids, out, s,
                         *parts, groups.group));
    return join_runs<false>(launch, s, *parts, out);
}

}  // namespace bk
