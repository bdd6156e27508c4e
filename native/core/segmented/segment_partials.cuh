// SPDX-License-Identifier: Apache-2.0
// Segmented reduction of rows by sorted ids (reduce by key), with the operators of core/segmented/reduce_ops.h.
//
// Load-balanced: workers take chunks of equal length, whatever the segment lengths. A segment within one chunk is
// finished there. For one that crosses chunks, each worker stores a partial (`tail` if the segment continues, `head` if
// it ends), and a second kernel combines partials in chunk order: one writer per segment, and a fixed order of
// operations.
//
// store_segments.cuh writes every target, also those without rows; add_segments.cuh adds to the targets that have rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/reference_chip.h"
#include "core/row/row_groups.cuh"
#include "core/segmented/reduce_ops.h"

namespace bk {

constexpr int kSegmentThreads = 128;
// Full waves of the reference chip: 32 resident warps of store_runs_kernel or 24 of add_runs_kernel. Constants, so
// that the order of additions is equal on every chip.
constexpr int64_t kStoreChunks = kReferenceSms * 32 * 2, kAddChunks = kReferenceSms * 24 * 3;
constexpr int64_t kMinChunk = 16;

struct SegmentedShape {
    uint32_t rows;
    int32_t targets;
    int64_t columns;
    int64_t items;  // split into chunks: rows, or rows + targets
    int64_t chunks;
};

template <class T>
SegmentedShape make_segmented_shape(int64_t rows, int64_t columns, int64_t targets, bool with_targets) {
    // Assumes alignment, so that chunks do not depend on it.
    const RowGroups groups = RowGroups::choose<T>(columns, true, kSegmentThreads);
    SegmentedShape s{static_cast<uint32_t>(rows), static_cast<int32_t>(targets), columns, with_targets ? rows + targets : rows,
                     0};
    const int64_t chunks = (with_targets ? kStoreChunks : kAddChunks) * std::max(1, 8 / groups.group);
    const int64_t wanted = std::max<int64_t>(1, chunks / groups.tiles);
    s.chunks = std::max<int64_t>(1, std::min(wanted, s.items / kMinChunk));
    return s;
}

// Partials of segments that cross chunks: at most one head and one tail per chunk.
template <class C>
struct SegmentPartials {
    C* head;
    C* tail;
    int32_t* head_target;  // -1: no head
    int32_t* tail_target;  // non-decreasing; the tail is the identity if the segment ended with the chunk
};

template <class C>
SegmentPartials<C> carve_segment_partials(Carver* carver, const SegmentedShape& s) {
    SegmentPartials<C> partials;
    partials.head = carver->take<C>(s.chunks * s.columns);
    partials.tail = carver->take<C>(s.chunks * s.columns);
    partials.head_target = carver->take<int32_t>(s.chunks);
    partials.tail_target = carver->take<int32_t>(s.chunks);
    return partials;
}

// Ids outside [0, targets) become -1 or targets: keeps the order and fits 32 bits.
template <class I>
BK_DEVICE int32_t clamp_id(I id, int32_t targets) {
    if constexpr (std::is_signed<I>::value)
        if (id < 0) return -1;
    return id < static_cast<I>(targets) ? static_cast<int32_t>(id) : targets;
}

// Row sources: input row i is row index(i) of `rows`. kReused: rows are read more than once.
template <class T>
struct RowsInOrder {
    using Element = T;
    static constexpr bool kReused = false;
    const T* rows;
    BK_DEVICE uint32_t index(uint32_t i) const { return i; }
};

template <class T, bool kReusedRows>
struct RowsByIndex {
    using Element = T;
    static constexpr bool kReused = kReusedRows;
    const T* rows;
    const uint32_t* indices;
    BK_DEVICE uint32_t index(uint32_t i) const { return indices[i]; }
};

template <int N, class C>
BK_DEVICE void store_chunk_partial(C* partials, int64_t chunk, const SegmentedShape& s, int64_t column, const C (&partial)[N]) {
    if (column >= s.columns) return;
    Vec<C, N> row;
#pragma unroll
    for (int i = 0; i < N; ++i) row.lane[i] = partial[i];
    store<N>(partials + chunk * s.columns + column, row);
}

// --- segments that cross chunks --------------------------------------------------------------------------------------

constexpr int kCombineThreads = 1024;
constexpr int kCombineWarps = kCombineThreads / 32;
constexpr int kShortSpan = 32;  // chunks that one warp combines alone

// Columns per thread, 32 apart.
template <class Acc>
constexpr int kCombineColumns = sizeof(Acc) <= 8 ? 4 : 2;

// Combines the partials of chunks [first, last), in order.
template <class Op, class Acc, int kLanes>
BK_DEVICE void combine_chunks(const Op& op, Acc (&acc)[kLanes], const Acc* partials, int64_t first, int64_t last,
                              int64_t columns, int64_t column) {
#pragma unroll 4
    for (int64_t c = first; c < last; ++c)
#pragma unroll
        for (int i = 0; i < kLanes; ++i)
            if (column + 32 * i < columns) op.combine(acc[i], partials[c * columns + column + 32 * i]);
}

// Row count of a target, by a warp-wide search.
template <class Ids>
BK_DEVICE int64_t run_length(Ids ids, const SegmentedShape& s, int32_t target) {
    int64_t low[2] = {0, 0}, high[2] = {s.rows, s.rows};
    group_search(low, high, 32, static_cast<int>(threadIdx.x % 32),
                 [&](int e, int64_t i) { return clamp_id(ids[i], s.targets) >= target + e; });
    return low[1] - low[0];
}

// One warp per chunk and 32 * kCombineColumns columns: a chunk with a head combines the preceding tails of the same
// target with it. kAdd: accumulates into `out`.
template <bool kAdd, class Op, class Ids>
__global__ void __launch_bounds__(kCombineThreads)
    combine_partials_kernel(Op op, Ids ids, typename Op::Result* out, SegmentedShape s,
                            SegmentPartials<typename Op::Acc> partials) {
    using Acc = typename Op::Acc;
    constexpr int kLanes = kCombineColumns<Acc>;
    __shared__ int64_t long_first[kCombineWarps];
    __shared__ Acc slice[kCombineWarps][kLanes][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t column = int64_t{blockIdx.y} * (32 * kLanes) + lane;
    const int64_t block_chunk = int64_t{blockIdx.x} * kCombineWarps;
    const auto clear = [&](Acc(&acc)[kLanes]) {
#pragma unroll
        for (int i = 0; i < kLanes; ++i) acc[i] = op.identity();
    };
    const auto finish = [&](int64_t chunk, int32_t target, Acc(&acc)[kLanes]) {
        const int64_t count = op.counts() ? run_length(ids, s, target) : 0;
        combine_chunks(op, acc, partials.head, chunk, chunk + 1, s.columns, column);
#pragma unroll
        for (int i = 0; i < kLanes; ++i) {
            if (column + 32 * i >= s.columns) continue;
            auto* const cell = out + target * s.columns + column + 32 * i;
            if constexpr (kAdd) op.add(acc[i], widen(*cell), 0);
            *cell = op.finish(acc[i], count);
        }
    };

    const int64_t chunk = block_chunk + warp;
    const int32_t target = chunk < s.chunks ? partials.head_target[chunk] : -1;
    int64_t first = chunk;
    if (target >= 0) {
        // The first tail of the target is in the first chunk whose tail_target reaches it: mostly the previous chunk.
        int64_t low = 0, high = chunk > 0 ? chunk - 1 : 0;
        if (high > 0 && partials.tail_target[high - 1] < target) low = high;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (partials.tail_target[middle] < target)
                low = middle + 1;
            else
                high = middle;
        }
        first = low;
    }
    const bool is_long = chunk - first > kShortSpan;
    Acc acc[kLanes];
    clear(acc);
    if (target >= 0 && !is_long) {
        combine_chunks(op, acc, partials.tail, first, chunk, s.columns, column);
        finish(chunk, target, acc);
    }
    if (lane == 0) long_first[warp] = is_long ? first : -1;
    if (!__syncthreads_or(is_long)) return;
    for (int owner = 0; owner < kCombineWarps; ++owner) {
        const int64_t from = long_first[owner], to = block_chunk + owner;
        if (from < 0) continue;
        Acc partial[kLanes];
        clear(partial);
        combine_chunks(op, partial, partials.tail, from + (to - from) * warp / kCombineWarps,
                       from + (to - from) * (warp + 1) / kCombineWarps, s.columns, column);
#pragma unroll
        for (int i = 0; i < kLanes; ++i) slice[warp][i][lane] = partial[i];
        __syncthreads();
        if (warp == owner) {
            for (int w = 0; w < kCombineWarps; ++w)
#pragma unroll
                for (int i = 0; i < kLanes; ++i) op.combine(acc[i], slice[w][i][lane]);
            finish(to, target, acc);
        }
        __syncthreads();
    }
}

template <bool kAdd, class Op, class Ids>
Status combine_partials(const Launch& launch, const SegmentedShape& s, const SegmentPartials<typename Op::Acc>& partials,
                        typename Op::Result* out, const Op& op, Ids ids) {
    if (s.chunks == 1) return Status::kOk;
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(s.chunks, kCombineWarps)),
                         static_cast<unsigned>(ceil_div<int64_t>(s.columns, 32 * kCombineColumns<typename Op::Acc>))),
                    dim3(kCombineThreads)};
    return launch_kernel(launch, grid, combine_partials_kernel<kAdd, Op, Ids>, op, ids, out, s, partials);
}

// Sums, without counts.
template <bool kAdd, class T>
Status combine_partials(const Launch& launch, const SegmentedShape& s, const SegmentPartials<compute_t<T>>& partials, T* out) {
    return combine_partials<kAdd>(launch, s, partials, out, SumOp<T>{}, IdArray{});
}

// --- Host ------------------------------------------------------------------------------------------------------------

inline Grid segment_grid(const SegmentedShape& s, const RowGroups& groups) {
    return {dim3(static_cast<unsigned>(ceil_div(s.chunks, groups.per_block)), static_cast<unsigned>(groups.tiles)),
            dim3(kSegmentThreads)};
}

template <class Source, class Out>
Status choose_segment_groups(const SegmentedShape& s, const Source& source, const Out* out, RowGroups* groups) {
    *groups = RowGroups::choose<typename Source::Element>(
        s.columns, is_aligned(source.rows, kVectorBytes) && is_aligned(out, kVectorBytes), kSegmentThreads);
    if (groups->tiles > kMaxGridY || ceil_div<int64_t>(s.columns, 64) > kMaxGridY)
        return fail(Status::kUnsupported, "rows of %lld columns are too long for one launch",
                    static_cast<long long>(s.columns));
    return Status::kOk;
}

// launch(lanes) with the vector width as a constant.
template <class T, class Launcher>
Status with_vector_width(int lanes, const Launcher& launch) {
    if (lanes == 1) return launch(std::integral_constant<int, 1>{});
    return launch(std::integral_constant<int, kVectorLanes<T>>{});
}

}  // namespace bk
