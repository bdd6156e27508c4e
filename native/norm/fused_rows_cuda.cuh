// As many blocks as the chip holds take rows in turns. A thread has the same eight columns of each row, and keeps their sums in
// registers; a row is on the chip from its load to its store.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/workspace.h"
#include "core/reduce/shuffle.cuh"
#include "core/types/vec.h"
#include "norm/fused_rows.h"

namespace bk {

// Of a thread: their sums and a row's are in registers.
template <class T>
constexpr int kFusedColumns = sizeof(compute_t<T>) == 8 ? 4 : 8;
constexpr int kFusedLeastThreads = 256;  // of a block, which has several short rows at a time
constexpr int kFusedMostThreads = 1024;
constexpr int64_t kFusedThreads = 132 * 1024;  // of all blocks: what an H200 holds; the same everywhere, as sums depend on it

struct FusedGrid {
    int across;   // threads of a row, a power of two
    int threads;  // of a block
    int64_t blocks;
    int groups() const { return threads / across; }
};

template <class T>
FusedGrid fused_grid(const FusedRows& rows) {
    FusedGrid grid{1, kFusedLeastThreads, 0};
    while (grid.across * kFusedColumns<T> < rows.n) grid.across *= 2;
    grid.threads = std::max(grid.across, kFusedLeastThreads);
    grid.blocks = std::min(ceil_div<int64_t>(rows.rows, grid.groups()), kFusedThreads / grid.threads);
    return grid;
}

template <class C>
struct FusedPair {
    C h, product;
};

// Of the `across` threads of a row; all of them get the same bits. Every thread of the block calls it.
template <class C>
BK_DEVICE FusedPair<C> add_across(FusedPair<C> mine, int across, FusedPair<C> (&exchange)[32]) {
    for (int distance = 1; distance < min(across, 32); distance *= 2) {
        const FusedPair<C> other = shuffle_xor(mine, distance);
        mine = {mine.h + other.h, mine.product + other.product};
    }
    if (across <= 32) return mine;
    const int lane = threadIdx.x % 32, warps = across / 32, first = threadIdx.x / across * warps;
    if (lane == 0) exchange[threadIdx.x / 32] = mine;
    __syncthreads();
    mine = exchange[first + lane % warps];
    for (int distance = 1; distance < warps; distance *= 2) {
        const FusedPair<C> other = shuffle_xor(mine, distance);
        mine = {mine.h + other.h, mine.product + other.product};
    }
    return mine;
}

// parts_beta may be null. Of a residual's gradient, which is added to dx, the loads are under way while threads add up.
template <class T, class S, bool kIsOfSum>
__global__ void __launch_bounds__(kFusedMostThreads)
    fused_rows_kernel(const FusedRows rows, const FusedOperands<T, S, kIsOfSum> operands, int across,
                      compute_t<T>* BK_RESTRICT parts_gamma, compute_t<T>* BK_RESTRICT parts_beta) {
    using C = compute_t<T>;
    constexpr int N = kVectorLanes<T>, kColumns = kFusedColumns<T>, kVectors = kColumns / N;
    __shared__ FusedPair<C> exchange[2][32];
    __shared__ C total[kFusedLeastThreads * kColumns];
    const int column = threadIdx.x % across, group = threadIdx.x / across, groups = blockDim.x / across;
    const int n = static_cast<int>(rows.n);
    C sum_gamma[kColumns] = {}, sum_beta[kColumns] = {};
    int turn = 0;
    for (int64_t first = int64_t{blockIdx.x} * groups; first < rows.rows; first += int64_t{gridDim.x} * groups) {
        const int64_t row = first + group;
        const bool exists = row < rows.rows;
        C h[kColumns], xh[kColumns];
        Vec<T, N> given_dy[kVectors], given_x[kVectors];
        [[maybe_unused]] Vec<T, N> extra[kIsOfSum ? kVectors : 1];
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            const int element = (column + v * across) * N;
            if (!exists || element >= n) continue;
            given_dy[v] = load<N>(operands.dy + row * rows.step_dy + element);
            given_x[v] = load<N>(operands.x + row * rows.step_x + element);
        }
        const C center = exists && operands.is_centered ? widen(operands.mean[row * rows.step_saved]) : C(0);
        C scale = exists ? widen(operands.statistic[row * rows.step_saved]) : C(1);
        if (!operands.is_centered) scale = C(1) / scale;
        FusedPair<C> sums{0, 0};
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            const int element = (column + v * across) * N;
            if (!exists || element >= n) {
#pragma unroll
                for (int i = 0; i < N; ++i) h[v * N + i] = xh[v * N + i] = C(0);
                continue;
            }
            Vec<T, N> weight;
            if (operands.gamma != nullptr) weight = load<N>(operands.gamma + element);
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const int k = v * N + i;
                const C slope = widen(given_dy[v].lane[i]);
                xh[k] = (widen(given_x[v].lane[i]) - center) * scale;
                C factor = widen(weight.lane[i]);
                if (kIsOfSum) factor += operands.gamma_offset;
                h[k] = operands.gamma != nullptr ? slope * factor : slope;
                sum_gamma[k] += slope * xh[k];
                sum_beta[k] += slope;
                sums.h += h[k];
                sums.product += h[k] * xh[k];
            }
        }
        const bool has_extra = kIsOfSum && operands.extra != nullptr;
        if (has_extra) {
#pragma unroll
            for (int v = 0; v < kVectors; ++v) {
                const int element = (column + v * across) * N;
                if (exists && element < n) extra[kIsOfSum ? v : 0] = load<N>(operands.extra + row * rows.step_extra + element);
            }
        }
        sums = add_across(sums, across, exchange[turn]);
        turn ^= 1;
        const C level = operands.is_centered ? sums.h / static_cast<C>(n) : C(0), slope = sums.product / static_cast<C>(n);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            const int element = (column + v * across) * N;
            if (!exists || element >= n) continue;
            Vec<T, N> y;
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const C dx = scale * (h[v * N + i] - level - xh[v * N + i] * slope);
                y.lane[i] = narrow<T>(has_extra ? widen(extra[kIsOfSum ? v : 0].lane[i]) + dx : dx);
            }
            store<N>(operands.dx + row * rows.step_dx + element, y);
        }
    }
    const auto store_sums = [&](C* part, const C(&sum)[kColumns]) {
        if (part == nullptr) return;
        part += int64_t{blockIdx.x} * n;
        if (groups == 1) {
#pragma unroll
            for (int k = 0; k < kColumns; ++k) {
                const int element = (column + k / N * across) * N + k % N;
                if (element < n) part[element] = sum[k];
            }
            return;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kColumns; ++k) total[threadIdx.x * kColumns + k] = sum[k];
        __syncthreads();
        for (int c = threadIdx.x; c < across * kColumns; c += blockDim.x) {
            const int k = c % kColumns, element = (c / kColumns + k / N * across) * N + k % N;
            C all = 0;
            for (int g = 0; g < groups; ++g) all += total[g * across * kColumns + c];
            if (element < n) part[element] = all;
        }
    };
    store_sums(parts_gamma, sum_gamma);
    store_sums(parts_beta, sum_beta);
}

template <class T>
struct FusedParts {
    compute_t<T>*gamma, *beta;
};

template <class T>
FusedParts<T> carve_fused_parts(Carver* carver, const FusedRows& rows) {
    const int64_t count = fused_grid<T>(rows).blocks * rows.n;
    compute_t<T>* const gamma = carver->take<compute_t<T>>(count);
    return {gamma, carver->take<compute_t<T>>(count)};
}

template <class T>
size_t fused_rows_workspace(const FusedRows& rows) {
    constexpr int N = kVectorLanes<T>;
    const bool steps = rows.step_dy % N == 0 && rows.step_x % N == 0 && rows.step_dx % N == 0 && rows.step_extra % N == 0;
    if (rows.n % N != 0 || rows.n > kFusedMostThreads * kFusedColumns<T> || (rows.rows > 1 && !steps)) return 0;
    Carver carver;
    carve_fused_parts<T>(&carver, rows);
    return carver.bytes();
}

template <class T, class S, bool kIsOfSum>
bool can_fuse_rows(const FusedRows& rows, const FusedOperands<T, S, kIsOfSum>& operands) {
    return fused_rows_workspace<T>(rows) > 0 && is_aligned(operands.dy, kVectorBytes) && is_aligned(operands.x, kVectorBytes) &&
           is_aligned(operands.extra, kVectorBytes) && is_aligned(operands.gamma, kVectorBytes) &&
           is_aligned(operands.dx, kVectorBytes);
}

template <class T, class S, bool kIsOfSum>
Status fused_rows(const Launch& launch, const FusedRows& rows, const FusedOperands<T, S, kIsOfSum>& operands) {
    const FusedGrid grid = fused_grid<T>(rows);
    Carver carver(launch.workspace);
    FusedParts<T> parts = carve_fused_parts<T>(&carver, rows);
    if (operands.dbeta == nullptr) parts.beta = nullptr;
    const Grid blocks{dim3(static_cast<unsigned>(grid.blocks)), dim3(static_cast<unsigned>(grid.threads))};
    BK_TRY((launch_kernel(launch, blocks, fused_rows_kernel<T, S, kIsOfSum>, rows, operands, grid.across, parts.gamma,
                          parts.beta)));
    return add_fused_parts(launch, grid.blocks, rows.n, static_cast<const compute_t<T>*>(parts.gamma),
                           static_cast<const compute_t<T>*>(parts.beta), operands.dgamma, operands.dbeta);
}

}  // namespace bk
