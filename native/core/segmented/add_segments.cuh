// SPDX-License-Identifier: Apache-2.0
// Segmented sum that accumulates: out[t] += sum of the rows with id t. Targets without rows are not touched.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/row/row_queue.cuh"
#include "core/scatter/atomics.cuh"
#include "core/segmented/segment_partials.cuh"

namespace bk {

// Optional member of sources: row i is multiplied by scale(i).
template <class Source, class = void>
constexpr bool kHasScales = false;
template <class Source>
constexpr bool kHasScales<Source, std::void_t<decltype(std::declval<Source>().scale(0u))>> = true;

template <int N, class C, class T, class Source>
BK_DEVICE void add_scaled_row(C (&sum)[N], const Vec<T, N>& row, [[maybe_unused]] const Source& source,
                              [[maybe_unused]] uint32_t i) {
    if constexpr (kHasScales<Source>) {
        const C scale = source.scale(i);
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k] = fma(scale, widen(row.lane[k]), sum[k]);
    } else {
        add_row(sum, row);
    }
}

enum class RunSink { kPartials, kAtomic };

// kPartials: sorted ids, one writer per segment. kAtomic: any order; consecutive equal ids are summed first.
template <RunSink kSink, int N, class Source, class I>
__global__ void __launch_bounds__(kSegmentThreads)
    add_runs_kernel(Source source, const I* ids, typename Source::Element* out, SegmentedShape s,
                    SegmentPartials<compute_t<typename Source::Element>> partials, int group) {
    using T = typename Source::Element;
    using C = compute_t<T>;
    constexpr bool kSorted = kSink == RunSink::kPartials;
    const RowLane self = RowLane::here<N>(group);
    const int64_t chunk = self.worker, column = self.column;
    if (chunk >= s.chunks) return;
    const bool inside = column < s.columns;
    const uint32_t first_row = static_cast<uint32_t>(s.rows * chunk / s.chunks);
    const uint32_t last_row = static_cast<uint32_t>(s.rows * (chunk + 1) / s.chunks);
    bool is_continued = kSorted && first_row > 0 && ids[first_row - 1] == ids[first_row];
    int32_t head_target = -1, last_id = -1;
    C sum[N];
    clear_row(sum);

    constexpr int kStages = 4;
    __shared__ RowRing<T, N, kStages> ring;
    RowQueue<Source, N, kStages> queue(ring, source, s.columns, column, first_row, inside ? last_row : first_row);
    for (int stage = 0; stage < kStages; ++stage) {
        queue.send();
        end_copy_group();
    }
    // Ids of the next batch plus one row; -2 past the last row, or past the chunk for atomics.
    int32_t next_id[kRowBatch + 1];
    const auto fetch_ids = [&](uint32_t row) {
#pragma unroll
        for (int u = 0; u <= kRowBatch; ++u)
            next_id[u] = row + u < (kSorted ? s.rows : last_row) ? clamp_id(ids[row + u], s.targets) : -2;
    };
    fetch_ids(first_row);
    for (uint32_t row = first_row; row < last_row; row += kRowBatch) {
        int32_t id[kRowBatch + 1];
        Vec<T, N> value[kRowBatch], before[kRowBatch];
#pragma unroll
        for (int u = 0; u <= kRowBatch; ++u) id[u] = next_id[u];
#pragma unroll
        for (int u = 0; u < kRowBatch; ++u)
            if (kSorted && row + u < last_row && id[u] != id[u + 1] && inside && id[u] >= 0 && id[u] < s.targets)
                before[u] = load_once<N>(out + id[u] * s.columns + column);
        fetch_ids(row + kRowBatch);
        wait_for_copies<kStages - 1>();
        queue.take(value);
#pragma unroll
        for (int u = 0; u < kRowBatch; ++u) {
            if (row + u >= last_row) continue;
            last_id = id[u];
            const bool valid = id[u] >= 0 && id[u] < s.targets;
            if (valid && inside) add_scaled_row(sum, value[u], source, row + u);
            if (id[u] == id[u + 1]) continue;
            if (is_continued) {
                store_chunk_partial(partials.head, chunk, s, column, sum);
                head_target = valid ? id[u] : -1;
                is_continued = false;
            } else if (valid && inside) {
                if constexpr (kSorted) {
                    add_row(sum, before[u]);
                    store_once<N>(out + id[u] * s.columns + column, narrow_row<N, T>(sum));
                } else {
                    atomic_add<N>(out + id[u] * s.columns + column, sum);
                }
            }
            clear_row(sum);
        }
        queue.send();
        end_copy_group();
    }
    if (!kSorted) return;
    store_chunk_partial(partials.tail, chunk, s, column, sum);
    if (self.lane == 0 && blockIdx.y == 0) {
        partials.head_target[chunk] = head_target;
        partials.tail_target[chunk] = last_id;
    }
}

template <class Source, class I, class T = typename Source::Element>
Status add_segments(const Launch& launch, const SegmentedShape& s, const Source& source, const I* ids, T* out,
                    const SegmentPartials<compute_t<T>>& partials) {
    RowGroups groups;
    BK_TRY(choose_segment_groups(s, source, out, &groups));
    BK_TRY(with_vector_width<T>(groups.lanes, [&](auto lanes) {
        return launch_kernel(launch, segment_grid(s, groups), add_runs_kernel<RunSink::kPartials, lanes(), Source, I>, source,
                             ids, out, s, partials, groups.group);
    }));
    return combine_partials<true>(launch, s, partials, out);
}

// out[t] += rows with id t by atomics; ids in any order.
template <class Source, class I, class T = typename Source::Element>
Status add_rows_atomic(const Launch& launch, SegmentedShape s, const Source& source, const I* ids, T* out) {
    constexpr int64_t kRowsPerWorker = 32;
    RowGroups groups;
    BK_TRY(choose_segment_groups(s, source, out, &groups));
    s.chunks = ceil_div<int64_t>(s.rows, kRowsPerWorker);
    return with_vector_width<T>(groups.lanes, [&](auto lanes) {
        return launch_kernel(launch, segment_grid(s, groups), add_runs_kernel<RunSink::kAtomic, lanes(), Source, I>, source,
                             ids, out, s, SegmentPartials<compute_t<T>>{}, groups.group);
    });
}

}  // namespace bk
