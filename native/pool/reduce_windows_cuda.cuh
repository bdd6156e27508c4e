// SPDX-License-Identifier: Apache-2.0
// Forward pooling on GPUs: a thread a window of several channels; a power of two of threads share a window of many
// cells, and combine their lanes in shared memory in a fixed order. The number of threads depends on the window alone.
// Small windows of dense planes have tiles instead (tiles/reduce_tiles_cuda.cuh).
// Windows that overlap share their reads in the L1 cache, since adjacent threads have adjacent windows.
#pragma once

#include "pool/reduce_windows.h"
#include "pool/thread_lanes.cuh"
#include "pool/tiles/reduce_tiles_cuda.cuh"

namespace bk::pool {

constexpr int64_t kCellsAlone = 32;  // of a window that one thread reduces
constexpr int64_t kCellsShared = 8;  // of a thread that shares a window
constexpr int kMaxVectorTeam = 32;   // threads of a window, if adjacent ones have adjacent channels

struct WindowTeam {
    int threads;    // that share a window, a power of two
    bool is_inner;  // whether these are adjacent

    static WindowTeam of(const Problem& p, bool is_vector) {
        int threads = 1;
        const int most = is_vector ? kMaxVectorTeam : kPoolThreads;
        if (p.window_cells() > kCellsAlone)
            while (threads < most && threads * kCellsShared < p.window_cells()) threads *= 2;
        return {threads, !is_vector};
    }
    int64_t windows() const { return kPoolThreads / threads; }  // of a block
};

// visit(offset, t) for cells first, first + step, ... of a window of `count` cells, in order.
struct WindowCells {
    int32_t count[kAxes];
    int64_t stride[kAxes];

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
    template <class Visit>
    BK_DEVICE void each_of(int32_t first, int32_t step, const Visit& visit) const {
        if (count[0] == 0 || count[1] == 0 || count[2] == 0) return;
        const int32_t row = count[1] * count[2], all = count[0] * row;
        int32_t a = first / row, b = first % row / count[2], c = first % count[2];
        const int32_t by_a = step / row, by_b = step % row / count[2], by_c = step % count[2];
        for (int32_t t = first; t < all; t += step) {
            visit(a * stride[0] + b * stride[1] + c * stride[2], t);
            c += by_c;
            const int32_t carry_c = c >= count[2] ? 1 : 0;
            c -= carry_c * count[2], b += by_b + carry_c;
            const int32_t carry_b = b >= count[1] ? 1 : 0;
            b -= carry_b * count[1], a += by_a + carry_b;
        }
    }
};

template <class Op, class T, int V, bool kVector>
__global__ void __launch_bounds__(kPoolThreads)
    reduce_windows_kernel(const __grid_constant__ Problem p, const __grid_constant__ ItemGrid grid, WindowTeam team, Op op,
                          const T* x, T* y, int64_t* indices) {
    using Lane = typename Op::Lane;
    using C = typename Op::C;
    BK_LAUNCH_SHARED(uint4, pool_shared);
    Lane* const shared = reinterpret_cast<Lane*>(pool_shared);
    const int thread = static_cast<int>(threadIdx.x), windows = kPoolThreads / team.threads;
    const int rank = team.is_inner ? thread % team.threads : thread / windows;
    const int own = team.is_inner ? thread / team.threads : thread % windows;
    const int64_t wanted = int64_t{blockIdx.x} * windows + own;
    const ItemAt<V, kVector> item(grid, min(wanted, grid.items - 1));
    const Taps taps[kAxes] = {p.axis[0].taps(item.at.a), p.axis[1].taps(item.at.b), p.axis[2].taps(item.at.c)};
    WindowCells cells;
#pragma unroll
    for (int d = 0; d < kAxes; ++d) {
        cells.count[d] = taps[d].count;
        cells.stride[d] = p.axis[d].dilation * p.x.axis[d];
    }
    const int64_t begin = p.x.at(taps[0].first, taps[1].first, taps[2].first);
    const LanePointers<const T, V, kVector> from(x, p.x, item, begin);
    Lane lane[V];
#pragma unroll
    for (int v = 0; v < V; ++v) lane[v] = op.start();
    const auto add = [&](int64_t offset, int32_t t) {
        const auto values = from.read(offset);
#pragma unroll
        for (int v = 0; v < V; ++v) op.add(lane[v], widen_lane(values, v), t);
    };
    if (team.threads == 1) {
        cells.each(add);
    } else {
        cells.each_of(rank, team.threads, add);
        const int apart = team.is_inner ? 1 : windows;
#pragma unroll
        for (int v = 0; v < V; ++v) shared[v * kPoolThreads + thread] = lane[v];
        for (int half = team.threads / 2; half > 0; half /= 2) {
            __syncthreads();
            if (rank >= half) continue;
#pragma unroll
            for (int v = 0; v < V; ++v) {
                op.combine(lane[v], shared[v * kPoolThreads + thread + half * apart]);
                shared[v * kPoolThreads + thread] = lane[v];
            }
        }
    }
    if (rank != 0 || wanted >= grid.items) return;
    int64_t divisor = 1;
    if constexpr (std::is_same_v<Op, AverageOp<T>>) divisor = op.divisor.of(taps[0], taps[1], taps[2]);
    Vec<T, V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) {
        C value = op.finish(lane[v], divisor);
        if (op.is_lost(lane[v])) {
            value = op.recover(
                [&](const auto& use) {
                    const T* const own_cells = kVector ? from.of[0] + v : from.of[kVector ? 0 : v];
                    cells.each([&](int64_t offset, int32_t) { use(widen(own_cells[offset])); });
                },
                divisor);
        }
        result.lane[v] = narrow<T>(value);
    }
    LanePointers<T, V, kVector>(y, p.y, item, p.y.at(item.at.a, item.at.b, item.at.c)).write(result, item.stores);
    if constexpr (Op::kHasPosition) {
        if (indices == nullptr) return;
        const bool has_cells = taps[0].count > 0 && taps[1].count > 0 && taps[2].count > 0;
        Vec<int64_t, V> number;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const int32_t t = max(lane[v].at, 0), c = has_cells ? t / taps[2].count : 0, b = has_cells ? c / taps[1].count : 0;
            const int64_t at = p.cell_number(taps[0].first + b * p.axis[0].dilation,
                                             taps[1].first + (c - b * taps[1].count) * p.axis[1].dilation,
                                             taps[2].first + (t - c * taps[2].count) * p.axis[2].dilation);
            number.lane[v] = has_cells ? at : -1;
        }
        LanePointers<int64_t, V, kVector>(indices, p.indices, item, p.indices.at(item.at.a, item.at.b, item.at.c))
            .write(number, item.stores);
    }
}

template <class T, int V, bool kVector, class Op>
Status launch_reduce_windows(const Launch& launch, const Problem& p, const Op& op, const T* x, T* y, int64_t* indices) {
    const int32_t extent[] = {p.axis[0].out, p.axis[1].out, p.axis[2].out};
    const ItemGrid grid = ItemGrid::of(p, extent, kVector ? V : 0);
    const WindowTeam team = WindowTeam::of(p, kVector);
    const int64_t blocks = ceil_div(grid.items, team.windows());
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld windows are too many for one launch", (long long)grid.items);
    const unsigned bytes = team.threads > 1 ? static_cast<unsigned>(sizeof(typename Op::Lane)) * V * kPoolThreads : 0u;
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPoolThreads), 1, bytes},
                         reduce_windows_kernel<Op, T, V, kVector>, p, grid, team, op, x, y, indices);
}

template <class Op, class T>
Status reduce_windows(const Launch& launch, const Problem& p, const Op& op, const T* x, T* y, int64_t* indices) {
    constexpr int kLanes = kVectorLanes<T>;
    if (has_vectors(p, x, p.x, kLanes) && has_vectors(p, y, p.y, kLanes) && has_vectors(p, indices, p.indices, kLanes))
        return launch_reduce_windows<T, kLanes, true>(launch, p, op, x, y, indices);
    const TileGrid tiles = tiles_of_windows<T>(p, kCellsAlone, indices != nullptr);
    if (tiles.is_possible()) return launch_reduce_tiles(launch, p, tiles, op, x, y, indices);
    return launch_reduce_windows<T, kPlaneLanes, false>(launch, p, op, x, y, indices);
}

}  // namespace bk::pool
