// SPDX-License-Identifier: Apache-2.0
// GPU: sorted ids, a reduce-by-key. Unsorted ids: (id, row) pairs are sorted first, or atomics without a workspace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/segmented/add_segments.cuh"
#include "core/segmented/store_segments.cuh"
#include "segment/segment_counts.cuh"
#include "segment/segment_reduce.h"
#include "segment/sorted_segments.cuh"

namespace bk {

template <class Reduce, class T>
size_t segment_reduce_workspace(const SegmentShape& shape, const Reduce&) {
    Carver carver;
    carve_segment_partials<typename Reduce::Acc>(&carver, make_segmented_shape<T>(shape.n, shape.d, shape.num_segments, true));
    return carver.bytes();
}

template <class Reduce, class T>
Status segment_reduce(const Launch& launch, const SegmentShape& shape, const Reduce& reduction, const T* input, IdArray ids,
                      T* output) {
    const SegmentedShape s = make_segmented_shape<T>(shape.n, shape.d, shape.num_segments, true);
    const bool has_workspace = workspace_holds(launch, segment_reduce_workspace<Reduce, T>(shape, reduction));
    Carver carver(has_workspace ? launch.workspace : nullptr);
    const auto partials = carve_segment_partials<typename Reduce::Acc>(&carver, s);
    return reduce_segments(launch, s, RowsInOrder<T>{input}, ids, reduction, output, has_workspace ? &partials : nullptr);
}

// --- Unsorted --------------------------------------------------------------------------------------------------------

template <class Reduce, class T>
size_t unsorted_segment_reduce_workspace(const SegmentShape& shape, const Reduce&) {
    if (shape.n == 0 || shape.d == 0) return 0;
    Carver carver;
    carve_sorted_segments(&carver, shape);
    carve_segment_partials<typename Reduce::Acc>(&carver, make_segmented_shape<T>(shape.n, shape.d, shape.num_segments, true));
    return carver.bytes();
}

// The word type of a compare-and-swap.
template <int Bytes>
struct CasWordOf;
template <>
struct CasWordOf<2> {
    using type = unsigned short;
};
template <>
struct CasWordOf<4> {
    using type = unsigned int;
};
template <>
struct CasWordOf<8> {
    using type = unsigned long long;
};

// Combines a partial into a cell by compare-and-swap; nothing is written if the value stays, the common case for
// extremes.
template <class Reduce, class T>
BK_DEVICE void atomic_reduce(const Reduce& reduction, T* cell, const typename Reduce::Acc& partial) {
    using Word = typename CasWordOf<sizeof(T)>::type;
    Word* const word = reinterpret_cast<Word*>(cell);
    Word seen = *reinterpret_cast<volatile Word*>(cell), expected;
    do {
        typename Reduce::Acc merged = reduction.identity();
        reduction.add(merged, widen(bit_cast<T>(seen)), 0);
        reduction.combine(merged, partial);
        const Word next = bit_cast<Word>(reduction.finish(merged, 0));
        if (next == seen) return;
        expected = seen;
        seen = atomicCAS(word, expected, next);
    } while (seen != expected);
}

// Workers take ranges of rows with ids in any order; adjacent rows with equal ids are combined first.
template <int N, class Reduce, class T>
__global__ void __launch_bounds__(kSegmentThreads)
    reduce_atomic_kernel(Reduce reduction, const T* input, IdArray ids, T* out, SegmentedShape s, int group) {
    constexpr int kBatch = 4;
    const RowLane lane = RowLane::here<N>(group);
    if (lane.worker >= s.chunks || lane.column >= s.columns) return;
    const int64_t first = s.rows * lane.worker / s.chunks, last = s.rows * (lane.worker + 1) / s.chunks;
    int32_t current = -1;
    typename Reduce::Acc acc[N];
    const auto flush = [&] {
        if (current < 0 || current == s.targets) return;
#pragma unroll
        for (int i = 0; i < N; ++i) atomic_reduce(reduction, out + current * s.columns + lane.column + i, acc[i]);
    };
    for (int64_t row = first; row < last; row += kBatch) {
        int32_t id[kBatch];
        Vec<T, N> value[kBatch];
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
            const int64_t at = min(row + u, last - 1);
            id[u] = clamp_id(ids[at], s.targets);
            value[u] = load_once<N>(input + at * s.columns + lane.column);
        }
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
            if (row + u >= last) continue;
            if (id[u] != current) {
                flush();
                current = id[u];
#pragma unroll
                for (int i = 0; i < N; ++i) acc[i] = reduction.identity();
            }
            reduce_row<N>(reduction, acc, value[u], 0);
        }
    }
    flush();
}

template <class Reduce, class T>
Status launch_reduce_atomic(const Launch& launch, SegmentedShape s, const Reduce& reduction, const T* input, IdArray ids,
                            T* out) {
    constexpr int64_t kRowsPerWorker = 32;
    RowGroups groups;
    BK_TRY(choose_segment_groups(s, RowsInOrder<T>{input}, out, &groups));
    s.chunks = ceil_div<int64_t>(s.rows, kRowsPerWorker);
    return with_vector_width<T>(groups.lanes, [&](auto lanes) {
        return launch_kernel(launch, segment_grid(s, groups), reduce_atomic_kernel<lanes(), Reduce, T>, reduction, input, ids,
                             out, s, groups.group);
    });
}

// sum / max(count, 1) of the element's segment.
template <class T>
struct DivideByCount {
    using C = compute_t<T>;
    const int32_t* counts;
    int64_t columns;

    struct Segment {
        int64_t count;
        C divisor;
        BK_HD C operator()(int64_t, C sum) const { return sum / divisor; }
    };
    BK_HD Segment at(int64_t element) const {
        const int64_t segment = element / columns;
        return {(segment + 1) * columns - element, static_cast<C>(counts[segment] > 1 ? counts[segment] : 1)};
    }
};

template <class T>
Status divide_by_counts(const Launch& launch, const SegmentShape& shape, IdArray ids, T* output) {
    if (int32_t* const counts = find_counts(launch, shape)) {
        BK_TRY(count_ids(launch, shape, ids, counts));
        const T* const sums = output;
        return pointwise(launch, int64_t{shape.num_segments} * shape.d, DivideByCount<T>{counts, shape.d}, outputs(output),
                         inputs(sums));
    }
    return launch_kernel(launch, count_tiles_grid(shape), divide_by_tiles_kernel<T>, shape, ids, output);
}

template <class Reduce, class T>
Status reduce_by_atomics(const Launch& launch, const SegmentShape& shape, const Reduce& reduction, const T* input, IdArray ids,
                         T* output) {
    const SegmentedShape s = make_segmented_shape<T>(shape.n, shape.d, shape.num_segments, true);
    if constexpr (std::is_same_v<Reduce, SumOp<T>> && !std::is_integral_v<T>) {
        const size_t bytes = sizeof(T) * static_cast<size_t>(shape.num_segments) * static_cast<size_t>(shape.d);
        BK_TRY(fill_bytes(launch, output, 0, bytes));
        BK_TRY(ids.is_wide ? add_rows_atomic(launch, s, RowsInOrder<T>{input}, static_cast<const int64_t*>(ids.ids), output)
                           : add_rows_atomic(launch, s, RowsInOrder<T>{input}, static_cast<const int32_t*>(ids.ids), output));
        return reduction.counts() ? divide_by_counts(launch, shape, ids, output) : Status::kOk;
    } else {
        BK_TRY(write_empty(launch, shape, reduction, output));
        return launch_reduce_atomic(launch, s, reduction, input, ids, output);
    }
}

template <class Reduce, class T>
Status unsorted_segment_reduce(const Launch& launch, const SegmentShape& shape, const Reduce& reduction, const T* input,
                               IdArray ids, T* output) {
    if (!workspace_holds(launch, unsorted_segment_reduce_workspace<Reduce, T>(shape, reduction)))
        return reduce_by_atomics(launch, shape, reduction, input, ids, output);
    const SegmentedShape s = make_segmented_shape<T>(shape.n, shape.d, shape.num_segments, true);
    Carver carver(launch.workspace);
    SortBuffers sort = carve_sorted_segments(&carver, shape);
    const auto partials = carve_segment_partials<typename Reduce::Acc>(&carver, s);
    BK_TRY(sort_segments(launch, shape, ids, &sort));
    return reduce_segments<true>(launch, s, RowsByIndex<T, false>{input, sort.values[0]}, sorted_ids(sort), reduction, output,
                                 &partials);
}

}  // namespace bk
