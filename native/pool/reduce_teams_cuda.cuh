// SPDX-License-Identifier: Apache-2.0
// Forward pooling of large windows on GPUs: a power of two of threads, and of the blocks of a cluster (sm_90), share a window
// and combine in a fixed order. Their number depends on the window's extents and the layout alone, not on other windows.
// reduce_columns: lanes are channels, and the threads of a window are a stride apart. reduce_runs: lanes are cells;
// windows that are one run of memory, as whole planes are, are read in vectors.
#pragma once

#include <numeric>

#include "core/collectives/cluster_peers.cuh"
#include "core/collectives/shuffle.cuh"
#include "core/intrinsics/cluster.cuh"
#include "pool/operators.h"
#include "pool/thread_lanes.cuh"

namespace bk::pool {

constexpr int64_t kCellsAlone = 32;  // of a window that one thread reduces
constexpr int kCellsAhead = 8;       // loads of a thread in flight

// add(read(offset), t) for the cells first, first + step, ... of a window, in order, several loads at a time.
struct WindowCells {
    int32_t count[kAxes];
    int64_t stride[kAxes];

    BK_DEVICE int32_t rows() const { return count[0] * count[1]; }
    // Rows that follow each other in memory become one.
    BK_DEVICE void merge() {
        if (stride[1] == count[2] * stride[2]) count[2] *= count[1], count[1] = 1;
        if (count[1] == 1 && stride[0] == count[2] * stride[2]) count[2] *= count[0], count[0] = 1;
    }
    template <class Visit>
    BK_DEVICE void each(const Visit& visit) const {
        int32_t t = 0;
        for (int32_t a = 0; a < count[0]; ++a)
            for (int32_t b = 0; b < count[1]; ++b) {
                int64_t offset = a * stride[0] + b * stride[1];
#pragma unroll 4
                for (int32_t c = 0; c < count[2]; ++c, offset += stride[2]) visit(offset, t++);
            }
    }
    template <int kAhead, class Read, class Add>
    BK_DEVICE void each_of(int32_t first, int32_t step, const Read& read, const Add& add) const {
        if (rows() == 1) return each_of_run<kAhead>(count[2], stride[2], first, step, read, add);
        const int32_t row = count[1] * count[2];
        const uint32_t all = static_cast<uint32_t>(count[0] * row), by = static_cast<uint32_t>(step);
        if (static_cast<uint32_t>(first) >= all) return;
        int32_t a = 0, b = 0, c = 0, by_a = 0, by_b = 0, by_c = 1;
        if (step > 1) {
            a = first / row, b = first % row / count[2], c = first % count[2];
            by_a = step / row, by_b = step % row / count[2], by_c = step % count[2];
        }
        for (uint32_t t = static_cast<uint32_t>(first); t < all; t += kAhead * by) {
            decltype(read(int64_t{})) value[kAhead];
#pragma unroll
            for (int i = 0; i < kAhead; ++i) {
                if (t + i * by < all) value[i] = read(a * stride[0] + b * stride[1] + c * stride[2]);
                c += by_c;
                const int32_t carry_c = c >= count[2] ? 1 : 0;
                c -= carry_c * count[2], b += by_b + carry_c;
                const int32_t carry_b = b >= count[1] ? 1 : 0;
                b -= carry_b * count[1], a += by_a + carry_b;
            }
#pragma unroll
            for (int i = 0; i < kAhead; ++i)
                if (t + i * by < all) add(value[i], static_cast<int32_t>(t + i * by));
        }
    }
    // A run of n cells.
    template <int kAhead, class Read, class Add>
    static BK_DEVICE void each_of_run(int32_t n, int64_t stride, int32_t first, int32_t step, const Read& read,
                                      const Add& add) {
        const uint32_t all = static_cast<uint32_t>(n), by = static_cast<uint32_t>(step);
        const int64_t apart = step * stride;
        int64_t offset = first * stride;
        uint32_t t = static_cast<uint32_t>(first);
        decltype(read(int64_t{})) value[kAhead];
        for (; t + (kAhead - 1) * by < all; t += kAhead * by, offset += kAhead * apart) {
#pragma unroll
            for (int i = 0; i < kAhead; ++i) value[i] = read(offset + i * apart);
#pragma unroll
            for (int i = 0; i < kAhead; ++i) add(value[i], static_cast<int32_t>(t + i * by));
        }
        if (t >= all) return;
#pragma unroll
        for (int i = 0; i < kAhead; ++i)
            if (t + i * by < all) value[i] = read(offset + i * apart);
#pragma unroll
        for (int i = 0; i < kAhead; ++i)
            if (t + i * by < all) add(value[i], static_cast<int32_t>(t + i * by));
    }
};

// A window of an item: its cells in the image and where they are in memory.
struct Window {
    Taps taps[kAxes];
    WindowCells cells;
    int64_t begin;

    BK_DEVICE Window(const Problem& p, const Position& at)
        : taps{p.axis[0].taps(at.a), p.axis[1].taps(at.b), p.axis[2].taps(at.c)} {
#pragma unroll
        for (int d = 0; d < kAxes; ++d) {
            cells.count[d] = taps[d].count;
            cells.stride[d] = p.axis[d].dilation * p.x.axis[d];
        }
        begin = p.x.at(taps[0].first, taps[1].first, taps[2].first);
    }
    // The result of a lane, whose cells begin at `own`.
    template <class Op, class T>
    BK_DEVICE typename Op::C finish(const Op& op, const typename Op::Lane& lane, const T* own) const {
        int64_t divisor = 1;
        if constexpr (std::is_same_v<Op, AverageOp<T>>) divisor = op.divisor.of(taps[0], taps[1], taps[2]);
        if (!op.is_lost(lane)) return op.finish(lane, divisor);
        return op.recover([&](const auto& use) { cells.each([&](int64_t offset, int32_t) { use(widen(own[offset])); }); },
                          divisor);
    }
    // Number in its plane of the t-th cell, of the first one for t < 0, or -1 for a window without cells.
    BK_DEVICE int64_t cell_number(const Problem& p, int32_t t) const {
        if (taps[0].count <= 0 || taps[1].count <= 0 || taps[2].count <= 0) return -1;
        const int32_t i = max(t, 0), c = i / taps[2].count, b = c / taps[1].count;
        return p.cell_number(taps[0].first + b * p.axis[0].dilation,
                             taps[1].first + (c - b * taps[1].count) * p.axis[1].dilation,
                             taps[2].first + (i - c * taps[2].count) * p.axis[2].dilation);
    }
};

// Writes the results of an item's lanes.
template <class Op, class T, int V, bool kWhole>
BK_DEVICE void store_windows(const Problem& p, const Op& op, const Window& window, const ItemAt<V, kWhole>& item,
                             const typename Op::Lane (&lane)[V], const LanePointers<const T, V, kWhole>& from, T* y,
                             int64_t* indices) {
    Vec<T, V> result;
#pragma unroll
    for (int v = 0; v < V; ++v)
        result.lane[v] = kWhole || v < item.lanes ? narrow<T>(window.finish(op, lane[v], from.of + v * from.stride)) : T{};
    LanePointers<T, V, kWhole>(y, p.y, item, p.y.at(item.at.a, item.at.b, item.at.c)).write(result);
    if constexpr (Op::kHasPosition) {
        if (indices == nullptr) return;
        Vec<int64_t, V> number;
#pragma unroll
        for (int v = 0; v < V; ++v) number.lane[v] = window.cell_number(p, lane[v].at);
        LanePointers<int64_t, V, kWhole>(indices, p.indices, item, p.indices.at(item.at.a, item.at.b, item.at.c)).write(number);
    }
}

// --- lanes are channels ---

// A team is part of a warp, whose other lanes have adjacent channels, or a block, or the blocks of a cluster.
struct ColumnTeam {
    int threads_log = 0;   // that share a window in a block: those of a warp `inner` apart, or of all its warps
    int inner_log = 5;     // adjacent threads have adjacent items, this many
    unsigned cluster = 1;  // blocks that share it

    static ColumnTeam of(const Problem& p) {
        constexpr int64_t kCellsOfPair = 64, kCellsOfQuad = 128, kCellsOfWarp = 512, kFarCells = 16384, kCellsOfThread = 64;
        const int64_t cells = p.window_cells();
        if (cells <= kCellsAlone) return {};
        if (cells <= kCellsOfPair) return {1, 4, 1};
        if (cells <= kCellsOfQuad) return {2, 3, 1};  // 8 threads read 128 bytes
        if (cells <= kCellsOfWarp) return {3, 2, 1};
        ColumnTeam team = cells < kFarCells ? ColumnTeam{5, 3, 1} : ColumnTeam{6, 2, 1};
        while (team.cluster < most_cluster_blocks() && (kCellsOfThread << team.threads_log) * team.cluster < cells)
            team.cluster *= 2;
        return team;
    }
    BK_HD int windows() const { return kPoolThreads >> threads_log; }  // of a block
    BK_HD bool is_block() const { return kPoolThreads == 1 << (threads_log + inner_log); }
};

template <class Op, class T, int V, bool kWhole>
__global__ void __launch_bounds__(kPoolThreads, kWhole && !Op::kHasPosition && !std::is_same_v<T, f16> ? 3 : 2)
    reduce_columns_kernel(const __grid_constant__ Problem p, const __grid_constant__ ItemGrid grid, ColumnTeam team, Op op,
                          const T* x, T* y, int64_t* indices) {
    using Lane = typename Op::Lane;
    constexpr int kWarps = kPoolThreads / 32, kMostInner = 8;
    __shared__ Lane partial[V][kWarps][kMostInner];
    if (team.cluster > 1) open_cluster(partial, sizeof(partial));
    const int thread = static_cast<int>(threadIdx.x), threads = 1 << team.threads_log, inner = 1 << team.inner_log;
    const int outer = thread >> team.inner_log, rank = outer & (threads - 1), own_inner = thread & (inner - 1);
    int own = (outer >> team.threads_log << team.inner_log) + own_inner;
    const int block = team.cluster > 1 ? rank_of_block() : 0;
    const int64_t first_item = int64_t{blockIdx.x / team.cluster} * team.windows();
    Lane lane[V];
#pragma unroll
    for (int v = 0; v < V; ++v) lane[v] = op.start();
    {
        const ItemAt<V, kWhole> item(grid, min(first_item + own, grid.items - 1));
        Window window(p, item.at);
        window.cells.merge();
        const LanePointers<const T, V, kWhole> from(x, p.x, item, window.begin);
        window.cells.each_of<kCellsAhead>(
            block * threads + rank, threads * static_cast<int>(team.cluster), [&](int64_t offset) { return from.read(offset); },
            [&](const Vec<T, V>& values, int32_t t) {
#pragma unroll
                for (int v = 0; v < V; ++v) op.add(lane[v], widen_lane(values, v), t);
            });
    }
    for (int distance = inner; distance < 32 && distance < threads * inner; distance *= 2)
#pragma unroll
        for (int v = 0; v < V; ++v) op.combine(lane[v], shuffle_xor(lane[v], distance));
    if (team.is_block()) {
        if (thread % 32 < inner)
#pragma unroll
            for (int v = 0; v < V; ++v) partial[v][thread / 32][own_inner] = lane[v];
        __syncthreads();
        if (rank == 0)
            for (int warp = 1; warp < kWarps; ++warp)
#pragma unroll
                for (int v = 0; v < V; ++v) op.combine(lane[v], partial[v][warp][own_inner]);
    }
    if (team.cluster > 1) {
        if (rank == 0)
#pragma unroll
            for (int v = 0; v < V; ++v) partial[v][0][own_inner] = lane[v];
        __syncwarp();  // barriers of clusters need whole warps
        sync_blocks();
        if (block == 0 && rank == 0)
            for (int peer = 1; peer < static_cast<int>(team.cluster); ++peer)
#pragma unroll
                for (int v = 0; v < V; ++v) op.combine(lane[v], *cluster_peer(&partial[v][0][own_inner], peer));
        __syncwarp();  // barriers of clusters need whole warps
        sync_blocks();
    }
    if (block > 0 || rank > 0 || first_item + own >= grid.items) return;
    // The item is computed again: stored, it would take registers while loads are in flight.
    asm volatile("" : "+r"(own));
    const ItemAt<V, kWhole> item(grid, first_item + own);
    const Window window(p, item.at);
    store_windows(p, op, window, item, lane, LanePointers<const T, V, kWhole>(x, p.x, item, window.begin), y, indices);
}

template <bool kWhole, class Op, class T>
Status reduce_columns(const Launch& launch, const Problem& p, int width, const Op& op, const T* x, T* y, int64_t* indices) {
    constexpr int V = kVectorLanes<T>;
    const int32_t extent[] = {p.axis[0].out, p.axis[1].out, p.axis[2].out};
    const ItemGrid grid = ItemGrid::of(p, extent, V, width);
    const ColumnTeam team = ColumnTeam::of(p);
    const int64_t blocks = ceil_div<int64_t>(grid.items, team.windows()) * team.cluster;
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld windows are too many for one launch", (long long)grid.items);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPoolThreads), team.cluster},
                         reduce_columns_kernel<Op, T, V, kWhole>, p, grid, team, op, x, y, indices);
}

// --- lanes are cells ---

struct RunTeam {
    int threads_log = 3;   // that share a window in a block: some of a warp, or the block
    int width = 1;         // cells of a load, if the window is one run
    unsigned cluster = 1;  // blocks that share it; threads are then all of each

    static bool is_whole(const Axis& axis) {
        return axis.out == 1 && axis.kernel == axis.in && axis.dilation == 1 && axis.pad_low == 0 && axis.pad_high == 0;
    }
    // Cells that divide the beginnings and lengths of all rows.
    static int64_t unit_of(const Problem& p) {
        int64_t unit = 1;
        int d = kAxes - 1;
        for (; d >= 0 && is_whole(p.axis[d]) && (p.axis[d].in == 1 || p.x.axis[d] == unit); --d) unit *= p.axis[d].in;
        for (; d >= 0; --d) unit = std::gcd(unit, p.x.axis[d]);
        return std::gcd(std::gcd(unit, p.x.channel), p.x.batch);
    }
    template <class T>
    static RunTeam of(const Problem& p, const T* x) {
        constexpr int64_t kMostOfWarp = 2048, kOfThread = 16, kOfThreadOfCluster = 64;  // loads
        RunTeam team;
        if (is_aligned(x, kVectorBytes))
            while (team.width < kVectorLanes<T> && unit_of(p) % (2 * team.width) == 0) team.width *= 2;
        const int64_t loads = p.window_cells() / team.width;
        if (loads > kOfThread << team.threads_log) team.threads_log = 5;
        if (loads > kMostOfWarp) {
            team.threads_log = 8;
            while (team.cluster < most_cluster_blocks() && kOfThreadOfCluster * kPoolThreads * team.cluster < loads)
                team.cluster *= 2;
        }
        return team;
    }
    BK_HD int windows() const { return kPoolThreads >> threads_log; }  // of a block
};
static_assert(kPoolThreads == 1 << 8, "RunTeam's largest team is a block");

template <class Op, class T>
__global__ void __launch_bounds__(kPoolThreads, std::is_same_v<T, f16> ? 3 : 4)
    reduce_runs_kernel(const __grid_constant__ Problem p, const __grid_constant__ ItemGrid grid, RunTeam team, Op op,
                       const T* x, T* y, int64_t* indices) {
    using Lane = typename Op::Lane;
    __shared__ Lane partial[kPoolThreads / 32];
    if (team.cluster > 1) open_cluster(partial, sizeof(partial));
    const int thread = static_cast<int>(threadIdx.x), threads = 1 << team.threads_log, rank = thread & (threads - 1);
    const int block = team.cluster > 1 ? rank_of_block() : 0;
    const int64_t wanted = int64_t{blockIdx.x / team.cluster} * team.windows() + (thread >> team.threads_log);
    const ItemAt<1, false> item(grid, min(wanted, grid.items - 1));
    Window window(p, item.at);
    window.cells.merge();
    const LanePointers<const T, 1, false> from(x, p.x, item, window.begin);
    Lane lane[1] = {op.start()};
    const int first = block * threads + rank, step = threads * static_cast<int>(team.cluster);
    if (team.width > 1 && window.cells.rows() == 1) {
        with_width<kVectorLanes<T>>(team.width, [&](auto chosen) {
            constexpr int W = decltype(chosen)::value, kAhead = W * sizeof(T) >= kVectorBytes ? kCellsAhead / 2 : kCellsAhead;
            if constexpr (W > 1)
                WindowCells::each_of_run<kAhead>(
                    window.cells.count[2] / W, W, first, step, [&](int64_t offset) { return bk::load<W>(from.of + offset); },
                    [&](const Vec<T, W>& values, int32_t t) {
#pragma unroll
                        for (int w = 0; w < W; ++w) op.add(lane[0], widen_lane(values, w), t * W + w);
                    });
        });
    } else {
        window.cells.each_of<kCellsAhead>(
            first, step, [&](int64_t offset) { return from.of[offset]; },
            [&](T value, int32_t t) { op.add(lane[0], widen(value), t); });
    }
    for (int distance = 1; distance < threads && distance < 32; distance *= 2)
        op.combine(lane[0], shuffle_xor(lane[0], distance));
    if (threads > 32) {
        if (thread % 32 == 0) partial[thread / 32] = lane[0];
        __syncthreads();
        if (thread == 0)
            for (int warp = 1; warp < kPoolThreads / 32; ++warp) op.combine(lane[0], partial[warp]);
    }
    if (team.cluster > 1) {
        if (thread == 0) partial[0] = lane[0];
        __syncwarp();  // barriers of clusters need whole warps
        sync_blocks();
        if (block == 0 && thread == 0)
            for (int peer = 1; peer < static_cast<int>(team.cluster); ++peer) op.combine(lane[0], *cluster_peer(partial, peer));
        __syncwarp();  // barriers of clusters need whole warps
        sync_blocks();
    }
    if (block == 0 && rank == 0 && wanted < grid.items) store_windows(p, op, window, item, lane, from, y, indices);
}

template <class Op, class T>
Status reduce_runs(const Launch& launch, const Problem& p, const Op& op, const T* x, T* y, int64_t* indices) {
    const int32_t extent[] = {p.axis[0].out, p.axis[1].out, p.axis[2].out};
    const ItemGrid grid = ItemGrid::of(p, extent, 1, 0);
    const RunTeam team = RunTeam::of(p, x);
    const int64_t blocks = ceil_div<int64_t>(grid.items, team.windows()) * team.cluster;
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld windows are too many for one launch", (long long)grid.items);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPoolThreads), team.cluster},
                         reduce_runs_kernel<Op, T>, p, grid, team, op, x, y, indices);
}

}  // namespace bk::pool
