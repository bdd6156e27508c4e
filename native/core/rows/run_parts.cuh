// Sums of runs of rows: rows come with ids in non-decreasing order, and rows of equal id are added together.
//
// Workers take chunks of equal length, whatever the runs' lengths. A run that lies within a chunk is finished there. Of one
// that crosses chunks each worker keeps its part, `tail` where the run goes on and `head` where it ends, and a second
// kernel adds them in chunk order: one writer a run, a fixed order of additions, and no run too long.
//
// Two walks: store_runs.cuh writes every target, zero where it has no row; add_runs.cuh adds to the targets that have rows
// and leaves the others. This file holds what they share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/rows/row_groups.cuh"

namespace bk {

constexpr int kRunThreads = 128;
// Whole waves of an H200, whose 132 multiprocessors hold 32 warps of store_runs_kernel or 24 of add_runs_kernel. Constants,
// so that the order of additions is the same on every chip.
constexpr int64_t kStoreChunks = 132 * 32 * 2, kAddChunks = 132 * 24 * 3;
constexpr int64_t kMinChunk = 16;

struct RunShape {
    uint32_t rows;
    int32_t targets;
    int64_t columns;
    int64_t items;  // what chunks divide: rows, or rows + targets
    int64_t chunks;
};

template <class T>
RunShape make_run_shape(int64_t rows, int64_t columns, int64_t targets, bool with_targets) {
    // As if aligned, so that the chunks do not depend on alignment.
    const RowGroups groups = RowGroups::choose<T>(columns, true, kRunThreads);
    RunShape s{static_cast<uint32_t>(rows), static_cast<int32_t>(targets), columns, with_targets ? rows + targets : rows, 0};
    const int64_t chunks = (with_targets ? kStoreChunks : kAddChunks) * std::max(1, 8 / groups.group);
    const int64_t wanted = std::max<int64_t>(1, chunks / groups.tiles);
    s.chunks = std::max<int64_t>(1, std::min(wanted, s.items / kMinChunk));
    return s;
}

// Parts of runs that cross chunks. A chunk has at most one head and one tail.
template <class C>
struct RunParts {
    C* head;
    C* tail;
    int32_t* head_target;  // -1: no head
    int32_t* tail_target;  // non-decreasing over the chunks; the tail is zero where the run ended
};

template <class C>
RunParts<C> carve_run_parts(Carver* carver, const RunShape& s) {
    RunParts<C> parts;
    parts.head = carver->take<C>(s.chunks * s.columns);
    parts.tail = carver->take<C>(s.chunks * s.columns);
    parts.head_target = carver->take<int32_t>(s.chunks);
    parts.tail_target = carver->take<int32_t>(s.chunks);
    return parts;
}

// Ids outside [0, targets) become -1 or targets, so that order is kept and 32 bits suffice.
template <class I>
BK_DEVICE int32_t clamp_id(I id, int32_t targets) {
    if constexpr (std::is_signed<I>::value)
        if (id < 0) return -1;
    return id < static_cast<I>(targets) ? static_cast<int32_t>(id) : targets;
}

// Where row i of a run comes from: row index(i) of `rows`. kReused: a row is the source of many.
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
BK_DEVICE void keep_part(C* parts, int64_t chunk, const RunShape& s, int64_t column, const C (&sum)[N]) {
    if (column < s.columns) store<N>(parts + chunk * s.columns + column, narrow_row<N, C>(sum));
}

// --- Runs that cross chunks ------------------------------------------------------------------------------------------

constexpr int kJoinThreads = 1024;
constexpr int kJoinWarps = kJoinThreads / 32;
constexpr int kJoinLanes = 4;   // columns of a thread, 32 apart
constexpr int kShortSpan = 32;  // chunks that one warp adds alone

// Adds the sums of chunks [first, last), in order.
template <class C>
BK_DEVICE void add_chunks(C (&sum)[kJoinLanes], const C* parts, int64_t first, int64_t last, int64_t columns, int64_t column) {
#pragma unroll 4
    for (int64_t c = first; c < last; ++c)
#pragma unroll
        for (int i = 0; i < kJoinLanes; ++i)
            if (column + 32 * i < columns) sum[i] += parts[c * columns + column + 32 * i];
}

// A warp a chunk and 128 columns. Where a chunk has a head, adds the tails before it that belong to the same target.
template <bool kAdd, class T>
__global__ void __launch_bounds__(kJoinThreads) join_runs_kernel(T* out, RunShape s, RunParts<compute_t<T>> parts) {
    using C = compute_t<T>;
    __shared__ int64_t long_first[kJoinWarps];
    __shared__ C slice[kJoinWarps][kJoinLanes][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t column = int64_t{blockIdx.y} * (32 * kJoinLanes) + lane;
    const int64_t block_chunk = int64_t{blockIdx.x} * kJoinWarps;
    const auto finish = [&](int64_t chunk, int32_t target, C(&sum)[kJoinLanes]) {
        add_chunks(sum, parts.head, chunk, chunk + 1, s.columns, column);
#pragma unroll
        for (int i = 0; i < kJoinLanes; ++i) {
            if (column + 32 * i >= s.columns) continue;
            T* const cell = out + target * s.columns + column + 32 * i;
            *cell = narrow<T>(kAdd ? sum[i] + widen(*cell) : sum[i]);
        }
    };

    const int64_t chunk = block_chunk + warp;
    const int32_t target = chunk < s.chunks ? parts.head_target[chunk] : -1;
    int64_t first = chunk;
    if (target >= 0) {
        // The target's tails begin at the first chunk whose tail_target reaches it: mostly the one before.
        int64_t low = 0, high = chunk > 0 ? chunk - 1 : 0;
        if (high > 0 && parts.tail_target[high - 1] < target) low = high;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (parts.tail_target[middle] < target)
                low = middle + 1;
            else
                high = middle;
        }
        first = low;
    }
    const bool is_long = chunk - first > kShortSpan;
    C sum[kJoinLanes] = {};
    if (target >= 0 && !is_long) {
        add_chunks(sum, parts.tail, first, chunk, s.columns, column);
        finish(chunk, target, sum);
    }
    if (lane == 0) long_first[warp] = is_long ? first : -1;
    if (!__syncthreads_or(is_long)) return;
    for (int owner = 0; owner < kJoinWarps; ++owner) {
        const int64_t from = long_first[owner], to = block_chunk + owner;
        if (from < 0) continue;
        C part[kJoinLanes] = {};
        add_chunks(part, parts.tail, from + (to - from) * warp / kJoinWarps, from + (to - from) * (warp + 1) / kJoinWarps,
                   s.columns, column);
#pragma unroll
        for (int i = 0; i < kJoinLanes; ++i) slice[warp][i][lane] = part[i];
        __syncthreads();
        if (warp == owner) {
            for (int w = 0; w < kJoinWarps; ++w)
#pragma unroll
                for (int i = 0; i < kJoinLanes; ++i) sum[i] += slice[w][i][lane];
            finish(to, target, sum);
        }
        __syncthreads();
    }
}

template <bool kAdd, class T>
Status join_runs(const Launch& launch, const RunShape& s, const RunParts<compute_t<T>>& parts, T* out) {
    if (s.chunks == 1) return Status::kOk;
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(s.chunks, kJoinWarps)),
                         static_cast<unsigned>(ceil_div<int64_t>(s.columns, 32 * kJoinLanes))),
                    dim3(kJoinThreads)};
    return launch_kernel(launch, grid, join_runs_kernel<kAdd, T>, out, s, parts);
}

// --- Host ------------------------------------------------------------------------------------------------------------

inline Grid run_grid(const RunShape& s, const RowGroups& groups) {
    return {dim3(static_cast<unsigned>(ceil_div(s.chunks, groups.per_block)), static_cast<unsigned>(groups.tiles)),
            dim3(kRunThreads)};
}

template <class Source, class T>
Status choose_run_groups(const RunShape& s, const Source& source, const T* out, RowGroups* groups) {
    *groups =
        RowGroups::choose<T>(s.columns, is_aligned(source.rows, kVectorBytes) && is_aligned(out, kVectorBytes), kRunThreads);
    if (groups->tiles > kMaxGridY || ceil_div<int64_t>(s.columns, 32 * kJoinLanes) > kMaxGridY)
        return fail(Status::kUnsupported, "rows of %lld columns are too long for one launch",
                    static_cast<long long>(s.columns));
    return Status::kOk;
}

// launch(lanes) with the vector width as a constant.
template <class T, class Launcher>
Status with_run_lanes(int lanes, const Launcher& launch) {
    if (lanes == 1) return launch(std::integral_constant<int, 1>{});
    return launch(std::integral_constant<int, kVectorLanes<T>>{});
}

}  // namespace bk
