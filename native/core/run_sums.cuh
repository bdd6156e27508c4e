// Sums of runs of rows: rows come with ids in non-decreasing order, and rows of equal id are added together.
//
// Workers take chunks of equal length, whatever the runs' lengths. A run that lies within a chunk is finished there. Of one
// that crosses chunks each worker keeps its part, `tail` where the run goes on and `head` where it ends, and a second
// kernel adds them in chunk order: one writer a run, a fixed order of additions, and no run too long.
//
// Two walks: `store_runs` writes every target, zero where it has no row (the chunks then divide rows and targets together,
// as a merge path does: Merrill and Garland 2016); `add_runs` adds to the targets that have rows and leaves the others.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/atomics.cuh"
#include "core/launch.h"
#include "core/row_groups.cuh"
#include "core/workspace.h"

namespace bk {

constexpr int kRunThreads = 128;
constexpr int64_t kRunWorkers = int64_t{1} << 14;  // warps' worth of chunks; a constant, so that results do not vary by chip
constexpr int64_t kMinChunk = 16;

struct RunShape {
    int64_t rows, columns, targets;
    int64_t items;  // what chunks divide: rows, or rows + targets
    int64_t chunks;
};

template <class T>
RunShape make_run_shape(int64_t rows, int64_t columns, int64_t targets, bool with_targets) {
    // The narrower of both vector widths, so that the chunks do not depend on alignment.
    const RowGroups groups = RowGroups::choose<T>(columns, true, kRunThreads);
    RunShape s{rows, columns, targets, with_targets ? rows + targets : rows, 0};
    const int64_t wanted = std::max<int64_t>(1, kRunWorkers * (32 / groups.group) / groups.tiles);
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

// --- Sources of rows -------------------------------------------------------------------------------------------------

template <class T>
struct RowsInOrder {
    using Element = T;
    const T* rows;
    template <int N>
    BK_DEVICE Vec<T, N> load_row(int64_t i, int64_t columns, int64_t column) const {
        return load_once<N>(rows + i * columns + column);
    }
};

template <class T>
struct RowsByIndex {
    using Element = T;
    const T* rows;
    const uint32_t* index;
    template <int N>
    BK_DEVICE Vec<T, N> load_row(int64_t i, int64_t columns, int64_t column) const {
        return load_once<N>(rows + int64_t{index[i]} * columns + column);
    }
};

// --- store_runs ------------------------------------------------------------------------------------------------------

// How many rows are among the first k items, if the rows of target t come before the end of t. Two searches at once.
template <class I>
BK_DEVICE void merge_split(const I* ids, const RunShape& s, const int64_t (&k)[2], int64_t (&rows)[2]) {
    int64_t low[2], high[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        low[e] = max(k[e] - s.targets, int64_t{0});
        high[e] = min(k[e], s.rows);
    }
    while (low[0] < high[0] || low[1] < high[1]) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            if (low[e] >= high[e]) continue;
            const int64_t middle = (low[e] + high[e]) / 2;
            if (static_cast<int64_t>(ids[middle]) > k[e] - middle - 1)
                high[e] = middle;
            else
                low[e] = middle + 1;
        }
    }
    rows[0] = low[0];
    rows[1] = low[1];
}

template <int N, class C>
BK_DEVICE void keep_part(C* parts, int64_t chunk, const RunShape& s, int64_t column, const C (&sum)[N]) {
    if (column < s.columns) store<N>(parts + chunk * s.columns + column, narrow_row<N, C>(sum));
}

// With kParts false the chunks divide the targets alone, so that no run crosses one and no parts are needed.
template <bool kParts, int N, class Source, class I>
__global__ void __launch_bounds__(kRunThreads)
    store_runs_kernel(Source source, const I* ids, typename Source::Element* out, RunShape s,
                      RunParts<compute_t<typename Source::Element>> parts, int group) {
    using T = typename Source::Element;
    using C = compute_t<T>;
    constexpr int kUnroll = 8;
    const RowLane place = RowLane::here<N>(group);
    const int64_t chunk = place.worker, column = place.column;
    if (chunk >= s.chunks) return;
    const bool inside = column < s.columns;

    int64_t row[2], target[2];
    if (kParts) {
        const int64_t k[2] = {s.items * chunk / s.chunks, s.items * (chunk + 1) / s.chunks};
        merge_split(ids, s, k, row);
        for (int e = 0; e < 2; ++e) target[e] = k[e] - row[e];
    } else {
        for (int e = 0; e < 2; ++e) {
            target[e] = s.targets * (chunk + e) / s.chunks;
            int64_t low = 0, high = s.rows;
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                if (static_cast<int64_t>(ids[middle]) < target[e])
                    low = middle + 1;
                else
                    high = middle;
            }
            row[e] = low;
        }
    }
    bool is_continued = kParts && row[0] > 0 && static_cast<int64_t>(ids[row[0] - 1]) == target[0];
    int64_t current = target[0];
    int32_t head_target = -1;
    C sum[N];
    clear_row(sum);
    const auto end_target = [&] {
        if (is_continued) {
            keep_part(parts.head, chunk, s, column, sum);
            head_target = static_cast<int32_t>(current);
            is_continued = false;
        } else if (inside) {
            store<N>(out + current * s.columns + column, narrow_row<N, T>(sum));
        }
        clear_row(sum);
        ++current;
    };

    for (int64_t i = row[0]; i < row[1]; i += kUnroll) {
        Vec<T, N> value[kUnroll];
        int64_t id[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            if (i + u >= row[1]) continue;
            id[u] = static_cast<int64_t>(ids[i + u]);
            if (inside) value[u] = source.template load_row<N>(i + u, s.columns, column);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            if (i + u >= row[1]) continue;
            while (current < id[u] && current < target[1]) end_target();
            if (current == id[u]) add_row(sum, value[u]);
        }
    }
    while (current < target[1]) end_target();
    if (!kParts) return;
    keep_part(parts.tail, chunk, s, column, sum);
    if (place.lane == 0 && blockIdx.y == 0) {
        parts.head_target[chunk] = head_target;
        parts.tail_target[chunk] = static_cast<int32_t>(target[1]);
    }
}

// --- add_runs --------------------------------------------------------------------------------------------------------

enum class RunSink { kParts, kAtomic };

// kParts: ids sorted, one writer a run. kAtomic: ids in any order; equal neighbours are still added together first.
template <RunSink kSink, int N, class Source, class I>
__global__ void __launch_bounds__(kRunThreads)
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
    const int64_t first = s.rows * chunk / s.chunks, last = s.rows * (chunk + 1) / s.chunks;
    bool is_continued = kHasParts && first > 0 && ids[first - 1] == ids[first];
    int32_t head_target = -1;
    int64_t id = -1;
    C sum[N];
    clear_row(sum);

    for (int64_t i = first; i < last; i += kUnroll) {
        Vec<T, N> value[kUnroll], before[kUnroll];
        int64_t next[kUnroll + 1];
        bool ends[kUnroll];
#pragma unroll
        for (int u = 0; u <= kUnroll; ++u) next[u] = i + u < s.rows ? static_cast<int64_t>(ids[i + u]) : -1;
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const bool exists = i + u < last;
            const bool valid = exists && next[u] >= 0 && next[u] < s.targets;
            ends[u] = exists && (next[u] != next[u + 1] || i + u + 1 == s.rows || (!kHasParts && i + u + 1 == last));
            if (valid && inside) {
                value[u] = source.template load_row<N>(i + u, s.columns, column);
                if (kHasParts && ends[u]) before[u] = load_once<N>(out + next[u] * s.columns + column);
            }
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            if (i + u >= last) continue;
            id = next[u];
            const bool valid = id >= 0 && id < s.targets;
            if (valid && inside) add_row(sum, value[u]);
            if (!ends[u]) continue;
            if (is_continued) {
                keep_part(parts.head, chunk, s, column, sum);
                head_target = valid ? static_cast<int32_t>(id) : -1;
                is_continued = false;
            } else if (valid && inside) {
                if constexpr (kHasParts) {
                    add_row(sum, before[u]);
                    store_once<N>(out + id * s.columns + column, narrow_row<N, T>(sum));
                } else {
                    atomic_add<N>(out + id * s.columns + column, sum);
                }
            }
            clear_row(sum);
        }
    }
    if (!kHasParts) return;
    keep_part(parts.tail, chunk, s, column, sum);
    if (place.lane == 0 && blockIdx.y == 0) {
        parts.head_target[chunk] = head_target;
        parts.tail_target[chunk] = static_cast<int32_t>(min(id, s.targets));
    }
}

// --- Runs that cross chunks ------------------------------------------------------------------------------------------

constexpr int kJoinThreads = 1024;
constexpr int kJoinWarps = kJoinThreads / 32;
constexpr int kShortSpan = 32;  // chunks that one warp adds alone

// Terms [first, last) of a column of parts.
template <class C>
BK_DEVICE C sum_parts(const C* parts, int64_t first, int64_t last, int64_t columns, int64_t column) {
    C sum = 0;
#pragma unroll 8
    for (int64_t c = first; c < last; ++c) sum += parts[c * columns + column];
    return sum;
}

// A warp a chunk and 32 columns. Where a chunk has a head, adds the tails before it that belong to the same target.
template <bool kAdd, class T>
__global__ void __launch_bounds__(kJoinThreads) join_runs_kernel(T* out, RunShape s, RunParts<compute_t<T>> parts) {
    using C = compute_t<T>;
    __shared__ int64_t long_first[kJoinWarps];
    __shared__ C slice[kJoinWarps][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t column = int64_t{blockIdx.y} * 32 + lane;
    const int64_t block_chunk = int64_t{blockIdx.x} * kJoinWarps;
    const auto finish = [&](int64_t chunk, int32_t target, C sum) {
        if (column >= s.columns) return;
        sum += parts.head[chunk * s.columns + column];
        T* const cell = out + target * s.columns + column;
        *cell = narrow<T>(kAdd ? sum + widen(*cell) : sum);
    };

    const int64_t chunk = block_chunk + warp;
    const int32_t target = chunk < s.chunks ? parts.head_target[chunk] : -1;
    int64_t first = chunk;
    if (target >= 0) {
        // The tails of the target begin at the first chunk whose tail_target reaches it.
        int64_t low = 0, high = chunk;
        if (chunk > 0 && (chunk == 1 || parts.tail_target[chunk - 2] < target)) low = chunk - 1;
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
    if (target >= 0 && !is_long)
        finish(chunk, target, column < s.columns ? sum_parts(parts.tail, first, chunk, s.columns, column) : C(0));
    if (lane == 0) long_first[warp] = is_long ? first : -1;
    __syncthreads();
    for (int owner = 0; owner < kJoinWarps; ++owner) {
        const int64_t from = long_first[owner], to = block_chunk + owner;
        if (from < 0) continue;
        const int64_t begin = from + (to - from) * warp / kJoinWarps, end = from + (to - from) * (warp + 1) / kJoinWarps;
        slice[warp][lane] = column < s.columns ? sum_parts(parts.tail, begin, end, s.columns, column) : C(0);
        __syncthreads();
        if (warp == owner) {
            C sum = slice[0][lane];
            for (int w = 1; w < kJoinWarps; ++w) sum += slice[w][lane];
            finish(to, target, sum);
        }
        __syncthreads();
    }
}

template <bool kAdd, class T>
Status join_runs(const Launch& launch, const RunShape& s, const RunParts<compute_t<T>>& parts, T* out) {
    if (s.chunks == 1) return Status::kOk;
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(s.chunks, kJoinWarps)),
                         static_cast<unsigned>(ceil_div<int64_t>(s.columns, 32))),
                    dim3(kJoinThreads)};
    return launch_kernel(launch, grid, join_runs_kernel<kAdd, T>, out, s, parts);
}

// --- Host ------------------------------------------------------------------------------------------------------------

inline Grid run_grid(const RunShape& s, const RowGroups& groups) {
    return {dim3(static_cast<unsigned>(ceil_div(s.chunks, groups.per_block)), static_cast<unsigned>(groups.tiles)),
            dim3(kRunThreads)};
}

inline Status check_tiles(const RowGroups& groups, int64_t columns) {
    if (groups.tiles > kMaxGridY || ceil_div<int64_t>(columns, 32) > kMaxGridY)
        return fail(Status::kUnsupported, "rows of %lld columns are too long for one launch", static_cast<long long>(columns));
    return Status::kOk;
}

// parts == nullptr: no workspace, chunks of whole targets.
template <class Source, class I, class T = typename Source::Element>
Status store_runs(const Launch& launch, RunShape s, const Source& source, const I* ids, T* out,
                  const RunParts<compute_t<T>>* parts) {
    constexpr int N = kVectorLanes<T>;
    const RowGroups groups =
        RowGroups::choose<T>(s.columns, is_aligned(source.rows, kVectorBytes) && is_aligned(out, kVectorBytes), kRunThreads);
    BK_TRY(check_tiles(groups, s.columns));
    const bool wide = groups.lanes > 1;
    if (parts == nullptr) {
        s.chunks = std::min(s.targets, std::max<int64_t>(s.chunks, s.targets / 8));
        return launch_kernel(launch, run_grid(s, groups),
                             wide ? store_runs_kernel<false, N, Source, I> : store_runs_kernel<false, 1, Source, I>, source, ids,
                             out, s, RunParts<compute_t<T>>{}, groups.group);
    }
    BK_TRY(launch_kernel(launch, run_grid(s, groups),
                         wide ? store_runs_kernel<true, N, Source, I> : store_runs_kernel<true, 1, Source, I>, source, ids, out, s,
                         *parts, groups.group));
    return join_runs<false>(launch, s, *parts, out);
}

template <class Source, class I, class T = typename Source::Element>
Status add_runs(const Launch& launch, const RunShape& s, const Source& source, const I* ids, T* out,
                const RunParts<compute_t<T>>& parts) {
    constexpr int N = kVectorLanes<T>;
    const RowGroups groups =
        RowGroups::choose<T>(s.columns, is_aligned(source.rows, kVectorBytes) && is_aligned(out, kVectorBytes), kRunThreads);
    BK_TRY(check_tiles(groups, s.columns));
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
    const RowGroups groups =
        RowGroups::choose<T>(s.columns, is_aligned(source.rows, kVectorBytes) && is_aligned(out, kVectorBytes), kRunThreads);
    BK_TRY(check_tiles(groups, s.columns));
    s.chunks = ceil_div(s.rows, kRowsPerWorker);
    return launch_kernel(launch, run_grid(s, groups),
                         groups.lanes > 1 ? add_runs_kernel<RunSink::kAtomic, N, Source, I>
                                          : add_runs_kernel<RunSink::kAtomic, 1, Source, I>,
                         source, ids, out, s, RunParts<compute_t<T>>{}, groups.group);
}

}  // namespace bk
