// Folds of runs of rows (core/rows/folds.h): rows come with ids in non-decreasing order, and those of equal id are added up,
// or whatever the fold does to them.
//
// Workers take chunks of equal length, whatever the runs' lengths. A run that lies within a chunk is finished there. Of one
// that crosses chunks each worker keeps its part, `tail` where the run goes on and `head` where it ends, and a second
// kernel combines them in chunk order: one writer a run, a fixed order of operations, and no run too long.
//
// Two walks: store_runs.cuh writes every target, zero where it has no row; add_runs.cuh adds to the targets that have rows
// and leaves the others. This file holds what they share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/rows/folds.h"
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
    int32_t* tail_target;  // non-decreasing over the chunks; the tail is of no rows where the run ended
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
BK_DEVICE void keep_part(C* parts, int64_t chunk, const RunShape& s, int64_t column, const C (&part)[N]) {
    if (column >= s.columns) return;
    Vec<C, N> row;
#pragma unroll
    for (int i = 0; i < N; ++i) row.lane[i] = part[i];
    store<N>(parts + chunk * s.columns + column, row);
}

// --- Runs that cross chunks ------------------------------------------------------------------------------------------

constexpr int kJoinThreads = 1024;
constexpr int kJoinWarps = kJoinThreads / 32;
constexpr int kShortSpan = 32;  // chunks that one warp combines alone

// Columns of a thread, 32 apart.
template <class Acc>
constexpr int kJoinLanes = sizeof(Acc) <= 8 ? 4 : 2;

// Combines the parts of chunks [first, last), in order.
template <class Fold, class Acc, int kLanes>
BK_DEVICE void add_chunks(const Fold& fold, Acc (&acc)[kLanes], const Acc* parts, int64_t first, int64_t last, int64_t columns,
                          int64_t column) {
#pragma unroll 4
    for (int64_t c = first; c < last; ++c)
#pragma unroll
        for (int i = 0; i < kLanes; ++i)
            if (column + 32 * i < columns) fold.combine(acc[i], parts[c * columns + column + 32 * i]);
}

// Rows of a target, by a whole warp.
template <class Ids>
BK_DEVICE int64_t run_length(Ids ids, const RunShape& s, int32_t target) {
    int64_t low[2] = {0, 0}, high[2] = {s.rows, s.rows};
    group_search(low, high, 32, static_cast<int>(threadIdx.x % 32),
                 [&](int e, int64_t i) { return clamp_id(ids[i], s.targets) >= target + e; });
    return low[1] - low[0];
}

// A warp a chunk and a stretch of columns. Where a chunk has a head, combines the tails before it that belong to the same
// target. kAdd: the result is combined with what stands there.
template <bool kAdd, class Fold, class Ids>
__global__ void __launch_bounds__(kJoinThreads)
    join_runs_kernel(Fold fold, Ids ids, typename Fold::Result* out, RunShape s, RunParts<typename Fold::Acc> parts) {
    using Acc = typename Fold::Acc;
    constexpr int kLanes = kJoinLanes<Acc>;
    __shared__ int64_t long_first[kJoinWarps];
    __shared__ Acc slice[kJoinWarps][kLanes][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t column = int64_t{blockIdx.y} * (32 * kLanes) + lane;
    const int64_t block_chunk = int64_t{blockIdx.x} * kJoinWarps;
    const auto clear = [&](Acc(&acc)[kLanes]) {
#pragma unroll
        for (int i = 0; i < kLanes; ++i) acc[i] = fold.identity();
    };
    const auto finish = [&](int64_t chunk, int32_t target, Acc(&acc)[kLanes]) {
        const int64_t count = fold.counts() ? run_length(ids, s, target) : 0;
        add_chunks(fold, acc, parts.head, chunk, chunk + 1, s.columns, column);
#pragma unroll
        for (int i = 0; i < kLanes; ++i) {
            if (column + 32 * i >= s.columns) continue;
            auto* const cell = out + target * s.columns + column + 32 * i;
            if constexpr (kAdd) fold.add(acc[i], widen(*cell), 0);
            *cell = fold.finish(acc[i], count);
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
    Acc acc[kLanes];
    clear(acc);
    if (target >= 0 && !is_long) {
        add_chunks(fold, acc, parts.tail, first, chunk, s.columns, column);
        finish(chunk, target, acc);
    }
    if (lane == 0) long_first[warp] = is_long ? first : -1;
    if (!__syncthreads_or(is_long)) return;
    for (int owner = 0; owner < kJoinWarps; ++owner) {
        const int64_t from = long_first[owner], to = block_chunk + owner;
        if (from < 0) continue;
        Acc part[kLanes];
        clear(part);
        add_chunks(fold, part, parts.tail, from + (to - from) * warp / kJoinWarps, from + (to - from) * (warp + 1) / kJoinWarps,
                   s.columns, column);
#pragma unroll
        for (int i = 0; i < kLanes; ++i) slice[warp][i][lane] = part[i];
        __syncthreads();
        if (warp == owner) {
            for (int w = 0; w < kJoinWarps; ++w)
#pragma unroll
                for (int i = 0; i < kLanes; ++i) fold.combine(acc[i], slice[w][i][lane]);
            finish(to, target, acc);
        }
        __syncthreads();
    }
}

template <bool kAdd, class Fold, class Ids>
Status join_runs(const Launch& launch, const RunShape& s, const RunParts<typename Fold::Acc>& parts, typename Fold::Result* out,
                 const Fold& fold, Ids ids) {
    if (s.chunks == 1) return Status::kOk;
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(s.chunks, kJoinWarps)),
                         static_cast<unsigned>(ceil_div<int64_t>(s.columns, 32 * kJoinLanes<typename Fold::Acc>))),
                    dim3(kJoinThreads)};
    return launch_kernel(launch, grid, join_runs_kernel<kAdd, Fold, Ids>, fold, ids, out, s, parts);
}

// Of sums.
template <bool kAdd, class T>
Status join_runs(const Launch& launch, const RunShape& s, const RunParts<compute_t<T>>& parts, T* out) {
    return join_runs<kAdd>(launch, s, parts, out, SumFold<T>{}, IdArray{});
}

// --- Host ------------------------------------------------------------------------------------------------------------

inline Grid run_grid(const RunShape& s, const RowGroups& groups) {
    return {dim3(static_cast<unsigned>(ceil_div(s.chunks, groups.per_block)), static_cast<unsigned>(groups.tiles)),
            dim3(kRunThreads)};
}

template <class Source, class Out>
Status choose_run_groups(const RunShape& s, const Source& source, const Out* out, RowGroups* groups) {
    *groups = RowGroups::choose<typename Source::Element>(
        s.columns, is_aligned(source.rows, kVectorBytes) && is_aligned(out, kVectorBytes), kRunThreads);
    if (groups->tiles > kMaxGridY || ceil_div<int64_t>(s.columns, 64) > kMaxGridY)
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
