// SPDX-License-Identifier: Apache-2.0
// Segmented reduction that writes every target: out[t] = reduction of the rows with id t.
//
// Chunks split the merge of row ids with target ends (merge path: Odeh et al. 2012; for segmented sums: Merrill and
// Garland 2016), so that neither long segments nor empty targets unbalance them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/row/row_queue.cuh"
#include "core/segmented/segment_partials.cuh"

namespace bk {

// Merge-path coordinate of a chunk boundary.
struct RunBoundary {
    uint32_t row;
    int32_t target;
};

// Merge-path search for both boundaries of a chunk.
template <bool kSplitsRuns, class Ids>
BK_DEVICE void find_boundaries(Ids ids, const SegmentedShape& s, int64_t chunk, int group, int lane,
                               RunBoundary (&boundary)[2]) {
    int64_t low[2], high[2], goal[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        goal[e] = (kSplitsRuns ? s.items : int64_t{s.targets}) * (chunk + e) / s.chunks;
        low[e] = kSplitsRuns ? max(goal[e] - s.targets, int64_t{0}) : 0;
        high[e] = kSplitsRuns ? min(goal[e], int64_t{s.rows}) : s.rows;
    }
    // Row i is among the first k merged items if it precedes the end of target k - i - 1.
    group_search(low, high, group, lane,
                 [&](int e, int64_t i) { return clamp_id(ids[i], s.targets) > (kSplitsRuns ? goal[e] - i - 1 : goal[e] - 1); });
#pragma unroll
    for (int e = 0; e < 2; ++e)
        boundary[e] = {static_cast<uint32_t>(low[e]), static_cast<int32_t>(kSplitsRuns ? goal[e] - low[e] : goal[e])};
}

template <int N, class Op, class T>
BK_DEVICE void reduce_row(const Op& op, typename Op::Acc (&acc)[N], const Vec<T, N>& row, uint32_t number) {
#pragma unroll
    for (int i = 0; i < N; ++i) op.add(acc[i], widen(row.lane[i]), number);
}

template <int N, class Op>
BK_DEVICE void store_reduced(const Op& op, typename Op::Result* out, const typename Op::Acc (&acc)[N], int64_t count) {
    Vec<typename Op::Result, N> row;
#pragma unroll
    for (int i = 0; i < N; ++i) row.lane[i] = op.finish(acc[i], count);
    if constexpr (sizeof(row) <= kVectorBytes)
        store_once<N>(out, row);
    else
        store<N>(out, row);
}

// kSplitsRuns false: chunks are whole targets, so that no segment crosses a boundary and no partials are stored.
template <bool kSplitsRuns, int N, class Op, class Source, class Ids>
__global__ void __launch_bounds__(kSegmentThreads, 8)  // 64 registers: 32 warps per SM
    store_runs_kernel(Op op, Source source, Ids ids, typename Op::Result* out, SegmentedShape s,
                      SegmentPartials<typename Op::Acc> partials, int group) {
    using T = typename Source::Element;
    using Acc = typename Op::Acc;
    const RowLane self = RowLane::here<N>(group);
    const int64_t chunk = self.worker, column = self.column;
    if (chunk >= s.chunks) return;
    const bool inside = column < s.columns;
    RunBoundary boundary[2];
    find_boundaries<kSplitsRuns>(ids, s, chunk, group, self.lane, boundary);
    const RunBoundary begin = boundary[0], end = boundary[1];

    bool is_continued = kSplitsRuns && begin.row > 0 && clamp_id(ids[begin.row - 1], s.targets) == begin.target;
    int32_t current = begin.target, head_target = -1;
    uint32_t count = 0;  // rows of the current target in this chunk
    Acc acc[N];
    const auto clear = [&] {
        count = 0;
#pragma unroll
        for (int i = 0; i < N; ++i) acc[i] = op.identity();
    };
    clear();
    const auto end_target = [&] {
        if (is_continued) {
            store_chunk_partial(partials.head, chunk, s, column, acc);
            head_target = current;
            is_continued = false;
        } else if (inside) {
            store_reduced<N>(op, out + current * s.columns + column, acc, count);
        }
        clear();
        ++current;
    };

    constexpr int kStages = 3;
    __shared__ RowRing<T, N, kStages> ring;
    RowQueue<Source, N, kStages> queue(ring, source, s.columns, column, begin.row, inside ? end.row : begin.row);
    for (int stage = 0; stage < kStages; ++stage) {
        queue.send();
        end_copy_group();
    }
    int32_t next_id[kRowBatch];
    const auto fetch_ids = [&](uint32_t row) {
#pragma unroll
        for (int u = 0; u < kRowBatch; ++u)
            if (row + u < end.row) next_id[u] = clamp_id(ids[row + u], s.targets);
    };
    fetch_ids(begin.row);
    for (uint32_t row = begin.row; row < end.row; row += kRowBatch) {
        int32_t id[kRowBatch];
#pragma unroll
        for (int u = 0; u < kRowBatch; ++u) id[u] = next_id[u];
        fetch_ids(row + kRowBatch);
        Vec<T, N> value[kRowBatch];
        wait_for_copies<kStages - 1>();
        queue.take(value);
        if (row + kRowBatch <= end.row && id[0] == current && id[kRowBatch - 1] == current) {
#pragma unroll
            for (int u = 0; u < kRowBatch; ++u) reduce_row<N>(op, acc, value[u], row + u);
            count += kRowBatch;
        } else {
#pragma unroll
            for (int u = 0; u < kRowBatch; ++u) {
                if (row + u >= end.row) continue;
                while (current < id[u] && current < end.target) end_target();
                if (current != id[u]) continue;
                reduce_row<N>(op, acc, value[u], row + u);
                ++count;
            }
        }
        queue.send();
        end_copy_group();
    }
    while (current < end.target) end_target();
    if (!kSplitsRuns) return;
    store_chunk_partial(partials.tail, chunk, s, column, acc);
    if (self.lane == 0 && blockIdx.y == 0) {
        partials.head_target[chunk] = head_target;
        partials.tail_target[chunk] = end.target;
    }
}

// partials == nullptr: no workspace, chunks of whole targets. kAlwaysPartials: never null, which saves those kernels.
template <bool kAlwaysPartials = false, class Source, class Ids, class Op>
Status reduce_segments(const Launch& launch, SegmentedShape s, const Source& source, Ids ids, const Op& op,
                       typename Op::Result* out, const SegmentPartials<typename Op::Acc>* partials) {
    using T = typename Source::Element;
    RowGroups groups;
    BK_TRY(choose_segment_groups(s, source, out, &groups));
    if constexpr (!kAlwaysPartials) {
        if (partials == nullptr) {
            s.chunks = std::min<int64_t>(s.targets, std::max<int64_t>(s.chunks, s.targets / 8));
            return with_vector_width<T>(groups.lanes, [&](auto lanes) {
                return launch_kernel(launch, segment_grid(s, groups), store_runs_kernel<false, lanes(), Op, Source, Ids>, op,
                                     source, ids, out, s, SegmentPartials<typename Op::Acc>{}, groups.group);
            });
        }
    }
    BK_TRY(with_vector_width<T>(groups.lanes, [&](auto lanes) {
        return launch_kernel(launch, segment_grid(s, groups), store_runs_kernel<true, lanes(), Op, Source, Ids>, op, source,
                             ids, out, s, *partials, groups.group);
    }));
    return combine_partials<false>(launch, s, *partials, out, op, ids);
}

// Segmented sum.
template <class Source, class I, class T = typename Source::Element>
Status store_segments(const Launch& launch, const SegmentedShape& s, const Source& source, const I* ids, T* out,
                      const SegmentPartials<compute_t<T>>* partials) {
    return reduce_segments(launch, s, source, ids, SumOp<T>{}, out, partials);
}

}  // namespace bk
