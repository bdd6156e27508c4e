// Sorted: runs are folded. Unsorted: (id, row) pairs are sorted first; without a workspace for that, atomics.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/rows/add_runs.cuh"
#include "core/rows/store_runs.cuh"
#include "segment/segment_counts.cuh"
#include "segment/segment_reduce.h"
#include "segment/sorted_segments.cuh"

namespace bk {

template <class Fold, class T>
size_t segment_fold_workspace(const SegmentShape& shape, const Fold&) {
    Carver carver;
    carve_run_parts<typename Fold::Acc>(&carver, make_run_shape<T>(shape.n, shape.d, shape.num_segments, true));
    return carver.bytes();
}

template <class Fold, class T>
Status segment_fold(const Launch& launch, const SegmentShape& shape, const Fold& fold, const T* input, IdArray ids, T* output) {
    const RunShape s = make_run_shape<T>(shape.n, shape.d, shape.num_segments, true);
    const bool found = workspace_holds(launch, segment_fold_workspace<Fold, T>(shape, fold));
    Carver carver(found ? launch.workspace : nullptr);
    const auto parts = carve_run_parts<typename Fold::Acc>(&carver, s);
    return fold_runs(launch, s, RowsInOrder<T>{input}, ids, fold, output, found ? &parts : nullptr);
}

// --- Unsorted --------------------------------------------------------------------------------------------------------

template <class Fold, class T>
size_t unsorted_segment_fold_workspace(const SegmentShape& shape, const Fold&) {
    if (shape.n == 0 || shape.d == 0) return 0;
    Carver carver;
    carve_sorted_segments(&carver, shape);
    carve_run_parts<typename Fold::Acc>(&carver, make_run_shape<T>(shape.n, shape.d, shape.num_segments, true));
    return carver.bytes();
}

// Memory of a size that compare and swap takes.
template <int Bytes>
struct SwappedWord;
template <>
struct SwappedWord<2> {
    using type = unsigned short;
};
template <>
struct SwappedWord<4> {
    using type = unsigned int;
};
template <>
struct SwappedWord<8> {
    using type = unsigned long long;
};

// Folds a part into a cell that others fold into as well. Where it changes nothing, which is the rule for extremes,
// nothing is written.
template <class Fold, class T>
BK_DEVICE void atomic_fold(const Fold& fold, T* cell, const typename Fold::Acc& part) {
    using Word = typename SwappedWord<sizeof(T)>::type;
    Word* const word = reinterpret_cast<Word*>(cell);
    Word seen = *reinterpret_cast<volatile Word*>(cell), expected;
    do {
        typename Fold::Acc both = fold.identity();
        fold.add(both, widen(bit_cast<T>(seen)), 0);
        fold.combine(both, part);
        const Word next = bit_cast<Word>(fold.finish(both, 0));
        if (next == seen) return;
        expected = seen;
        seen = atomicCAS(word, expected, next);
    } while (seen != expected);
}

// Workers take chunks of rows, whose ids are in any order; equal neighbours are folded together first.
template <int N, class Fold, class T>
__global__ void __launch_bounds__(kRunThreads)
    fold_atomic_kernel(Fold fold, const T* input, IdArray ids, T* out, RunShape s, int group) {
    constexpr int kBatch = 4;
    const RowLane place = RowLane::here<N>(group);
    if (place.worker >= s.chunks || place.column >= s.columns) return;
    const int64_t first = s.rows * place.worker / s.chunks, last = s.rows * (place.worker + 1) / s.chunks;
    int32_t current = -1;
    typename Fold::Acc acc[N];
    const auto flush = [&] {
        if (current < 0 || current == s.targets) return;
#pragma unroll
        for (int i = 0; i < N; ++i) atomic_fold(fold, out + current * s.columns + place.column + i, acc[i]);
    };
    for (int64_t row = first; row < last; row += kBatch) {
        int32_t id[kBatch];
        Vec<T, N> value[kBatch];
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
            const int64_t at = min(row + u, last - 1);
            id[u] = clamp_id(ids[at], s.targets);
            value[u] = load_once<N>(input + at * s.columns + place.column);
        }
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
            if (row + u >= last) continue;
            if (id[u] != current) {
                flush();
                current = id[u];
#pragma unroll
                for (int i = 0; i < N; ++i) acc[i] = fold.identity();
            }
            fold_row<N>(fold, acc, value[u], 0);
        }
    }
    flush();
}

template <class Fold, class T>
Status fold_atomic(const Launch& launch, RunShape s, const Fold& fold, const T* input, IdArray ids, T* out) {
    constexpr int64_t kRowsPerWorker = 32;
    RowGroups groups;
    BK_TRY(choose_run_groups(s, RowsInOrder<T>{input}, out, &groups));
    s.chunks = ceil_div<int64_t>(s.rows, kRowsPerWorker);
    return with_run_lanes<T>(groups.lanes, [&](auto lanes) {
        return launch_kernel(launch, run_grid(s, groups), fold_atomic_kernel<lanes(), Fold, T>, fold, input, ids, out, s,
                             groups.group);
    });
}

// A mean's sum, over the count of its segment.
template <class T>
struct DivideByCount {
    using C = compute_t<T>;
    const int32_t* counts;
    int64_t columns;

    struct Piece {
        int64_t count;
        C divisor;
        BK_HD C operator()(int64_t, C sum) const { return sum / divisor; }
    };
    BK_HD Piece at(int64_t element) const {
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

template <class Fold, class T>
Status fold_by_atomics(const Launch& launch, const SegmentShape& shape, const Fold& fold, const T* input, IdArray ids,
                       T* output) {
    const RunShape s = make_run_shape<T>(shape.n, shape.d, shape.num_segments, true);
    if constexpr (std::is_same_v<Fold, SumFold<T>> && !std::is_integral_v<T>) {
        const size_t bytes = sizeof(T) * static_cast<size_t>(shape.num_segments) * static_cast<size_t>(shape.d);
        BK_TRY(fill_bytes(launch, output, 0, bytes));
        BK_TRY(ids.is_wide ? add_rows_atomic(launch, s, RowsInOrder<T>{input}, static_cast<const int64_t*>(ids.ids), output)
                           : add_rows_atomic(launch, s, RowsInOrder<T>{input}, static_cast<const int32_t*>(ids.ids), output));
        return fold.counts() ? divide_by_counts(launch, shape, ids, output) : Status::kOk;
    } else {
        BK_TRY(write_empty(launch, shape, fold, output));
        return fold_atomic(launch, s, fold, input, ids, output);
    }
}

template <class Fold, class T>
Status unsorted_segment_fold(const Launch& launch, const SegmentShape& shape, const Fold& fold, const T* input, IdArray ids,
                             T* output) {
    if (!workspace_holds(launch, unsorted_segment_fold_workspace<Fold, T>(shape, fold)))
        return fold_by_atomics(launch, shape, fold, input, ids, output);
    const RunShape s = make_run_shape<T>(shape.n, shape.d, shape.num_segments, true);
    Carver carver(launch.workspace);
    SortBuffers sort = carve_sorted_segments(&carver, shape);
    const auto parts = carve_run_parts<typename Fold::Acc>(&carver, s);
    BK_TRY(sort_segments(launch, shape, ids, &sort));
    return fold_runs<true>(launch, s, RowsByIndex<T, false>{input, sort.values[0]}, sorted_ids(sort), fold, output, &parts);
}

}  // namespace bk
