// SPDX-License-Identifier: Apache-2.0
// CUDA fused norm backward: persistent blocks stride over the rows. A thread owns the same 8 columns (4 in f64) of
// every row and keeps their dgamma and dbeta in registers; a row stays on the chip from load to store.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/workspace.h"
#include "core/collectives/shuffle.cuh"
#include "core/math/math.h"
#include "core/reduce/square_scale.h"
#include "core/reference_chip.h"
#include "core/row/row_cache.cuh"
#include "core/types/vec.h"
#include "norm/fused_rows.h"

namespace bk {

// Columns a thread; their sums and one row of them are in registers.
template <class T>
constexpr int kFusedColumns = sizeof(compute_t<T>) == 8 ? 4 : 8;
constexpr int kFusedMinThreads = 256;  // threads a block; short rows share it
constexpr int kFusedMaxThreads = 1024;
constexpr int64_t kFusedThreads = kReferenceSms * 1024;  // resident on the chip; fixed, as it decides the order of sums

struct FusedGrid {
    int row_threads;  // a power of two
    int threads;      // a block
    int64_t blocks;
    int rows_per_block() const { return threads / row_threads; }
};

template <class T>
FusedGrid fused_grid(const FusedRows& rows) {
    FusedGrid grid{1, kFusedMinThreads, 0};
    while (grid.row_threads * kFusedColumns<T> < rows.n) grid.row_threads *= 2;
    grid.threads = std::max(grid.row_threads, kFusedMinThreads);
    grid.blocks = std::min(ceil_div<int64_t>(rows.rows, grid.rows_per_block()), kFusedThreads / grid.threads);
    return grid;
}

template <class C>
struct FusedPair {
    C first, second;
    BK_DEVICE FusedPair operator+(const FusedPair& other) const { return {first + other.first, second + other.second}; }
};

template <class C>
struct FusedTriple {
    C first, second, third;
    BK_DEVICE FusedTriple operator+(const FusedTriple& other) const {
        return {first + other.first, second + other.second, third + other.third};
    }
};

// Butterfly sum over `count` adjacent lanes, a power of two.
template <class Sums>
BK_DEVICE Sums sum_adjacent_lanes(Sums mine, int count) {
    const auto add = [&](int distance) { mine = mine + shuffle_xor(mine, distance); };
    if (count == 32) {
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) add(distance);
    } else {
        for (int distance = 1; distance < count; distance *= 2) add(distance);
    }
    return mine;
}

// Sum over the `row_threads` threads of a row, a power of two; all get the same bits. The whole block must call it.
template <class Sums>
BK_DEVICE Sums sum_row_threads(Sums mine, int row_threads, Sums (&exchange)[32]) {
    mine = sum_adjacent_lanes(mine, min(row_threads, 32));
    if (row_threads <= 32) return mine;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = row_threads / 32;
    if (lane == 0) exchange[warp] = mine;
    __syncthreads();
    return sum_adjacent_lanes(exchange[(warp & -warps) | (lane & (warps - 1))], warps);
}

// Whether any row that shares barriers with this thread's row has the flag.
BK_DEVICE bool any_row_set(bool flag, int row_threads) {
    if (row_threads <= 32) return __any_sync(0xffffffffu, flag);
    return row_threads < kFusedMinThreads ? __syncthreads_or(flag) : flag;
}

// A thread's columns of a row. Words carry the prefetched row: a Vec would be unpacked, so waited for, at once.
template <class T, class S>
struct FusedRow {
    static constexpr int N = kVectorLanes<T>, kVectors = kFusedColumns<T> / N;
    struct Vectors {
        Vec<T, N> dy[kVectors], x[kVectors];
    };
    struct Words {
        uint4 dy[kVectors], x[kVectors];
    } words;
    S center, statistic;
};

// Whether a thread prefetches the next row before it sums this one: only for 16-bit elements, of which one row is too
// few bytes in flight and two rows fit in registers.
template <class T>
constexpr bool kFusedPrefetches = sizeof(T) == 2;

// kComputes: the kernel computes the statistics; an instance of its own, since registers do not suffice for both
// forms. partials_beta may be null. Loads of residual_grad are in flight during the reduction.
template <class T, class S, bool kIsAddNorm, bool kComputes>
__global__ void __launch_bounds__(kFusedMaxThreads)
    fused_rows_kernel(const FusedRows rows, const FusedOperands<T, S, kIsAddNorm> operands, int row_threads,
                      compute_t<T>* BK_RESTRICT partials_gamma, compute_t<T>* BK_RESTRICT partials_beta) {
    using C = compute_t<T>;
    using Row = FusedRow<T, S>;
    constexpr int N = Row::N, kColumns = kFusedColumns<T>, kVectors = Row::kVectors;
    using Sums = std::conditional_t<kComputes, FusedTriple<C>, FusedPair<C>>;
    using Scale = SquareScale<T>;
    __shared__ Sums exchange[2][32];
    __shared__ C total[kFusedMinThreads * kColumns];
    const int column = threadIdx.x % row_threads, block_row = threadIdx.x / row_threads,
              rows_per_block = blockDim.x / row_threads;
    const int n = static_cast<int>(rows.n);
    const auto column_of = [&](int v) { return (column + v * row_threads) * N; };
    const C offset = kIsAddNorm && operands.gamma != nullptr ? operands.gamma_offset : C(0);
    Vec<T, N> weight[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
        for (int i = 0; i < N; ++i) weight[v].lane[i] = narrow<T>(C(1));
        if (operands.gamma != nullptr && column_of(v) < n) weight[v] = load<N>(operands.gamma + column_of(v));
    }
    const int64_t step = int64_t{gridDim.x} * rows_per_block;
    int64_t first = int64_t{blockIdx.x} * rows_per_block, next_row = first + block_row;
    const auto load_row = [&] {
        Row loaded;
        const bool exists = next_row < rows.rows;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            const bool has = exists && column_of(v) < n;
            loaded.words.dy[v] = bit_cast<uint4>(load_if<N>(has, operands.dy + next_row * rows.pitch_dy + column_of(v)));
            loaded.words.x[v] = bit_cast<uint4>(load_if<N>(has, operands.x + next_row * rows.pitch_x + column_of(v)));
        }
        loaded.center =
            exists && operands.is_centered && !kComputes ? operands.mean[next_row * rows.pitch_saved] : narrow<S>(C(0));
        loaded.statistic = exists && !kComputes ? operands.statistic[next_row * rows.pitch_saved] : narrow<S>(C(1));
        next_row += step;
        return loaded;
    };
    C sum_gamma[kColumns] = {}, sum_beta[kColumns] = {};
    int phase = 0;
    const auto add_up = [&](Sums mine) {
        mine = sum_row_threads(mine, row_threads, exchange[phase]);
        phase ^= 1;
        return mine;
    };
    const C inv_n = C(1) / static_cast<C>(n);
    Row next;
    if constexpr (kFusedPrefetches<T>) next = load_row();
    for (; first < rows.rows; first += step) {
        const int64_t row = first + block_row;
        const bool exists = row < rows.rows;
        Row current;
        if constexpr (kFusedPrefetches<T>) current = next;
        (kFusedPrefetches<T> ? next : current) = load_row();
        const auto each_vector = [&](const auto& body) {
            // Registers suffice for two rows of T, not of the compute type: conversions must not move up.
            if constexpr (kFusedPrefetches<T>) {
                current.words = launder(current.words);
#pragma unroll
                for (int v = 0; v < kVectors; ++v) weight[v] = launder(weight[v]);
            }
            const auto of = bit_cast<typename Row::Vectors>(current.words);
#pragma unroll
            for (int v = 0; v < kVectors; ++v)
                if (exists && column_of(v) < n) body(v, of.dy[v], of.x[v]);
        };
        const auto gamma_at = [&](int v, int i) {
            return kIsAddNorm ? widen_lane(weight[v], i) + offset : widen_lane(weight[v], i);
        };
        C center = widen(current.center), scale = widen(current.statistic), mean_g = 0;
        if (!operands.is_centered) scale = C(1) / scale;
        // Power of two that scales x if kComputes and squares of x - center would overflow or vanish.
        C unit = 1;
        const auto from_center = [&](C x) { return kComputes ? x * unit - center : x - center; };
        Sums sums;
        const auto reduce_tile = [&] {
            if (kComputes && operands.is_centered) {
                sums = {};
                each_vector([&](int v, const Vec<T, N>& dy, const Vec<T, N>& x) {
#pragma unroll
                    for (int i = 0; i < N; ++i) {
                        sums.first += widen_lane(x, i) * unit;
                        sums.second += widen_lane(dy, i) * gamma_at(v, i);
                    }
                });
                sums = add_up(sums);
                center = sums.first * inv_n;
                mean_g = sums.second * inv_n;
            }
            // With kComputes, scale is 1 here.
            sums = {};
            each_vector([&](int v, const Vec<T, N>& dy, const Vec<T, N>& x) {
#pragma unroll
                for (int i = 0; i < N; ++i) {
                    const C g = widen_lane(dy, i) * gamma_at(v, i), x_hat = from_center(widen_lane(x, i)) * scale;
                    sums.first += kComputes ? x_hat * x_hat : g;
                    sums.second += g * x_hat;
                    if constexpr (kComputes) sums.third += x_hat;
                }
            });
        };
        reduce_tile();
        [[maybe_unused]] Vec<T, N> residual_grad[kIsAddNorm ? kVectors : 1];
        const bool has_residual_grad = kIsAddNorm && operands.residual_grad != nullptr;
        if (has_residual_grad) {
#pragma unroll
            for (int v = 0; v < kVectors; ++v)
                if (exists && column_of(v) < n)
                    residual_grad[kIsAddNorm ? v : 0] =
                        load<N>(operands.residual_grad + row * rows.pitch_residual_grad + column_of(v));
        }
        sums = add_up(sums);
        C mean_gx = sums.second * inv_n, scale_of_dx = scale;
        if constexpr (kComputes) {
            const C required_unit = exists ? Scale::unit_of(center, sums.first, operands.eps * static_cast<C>(n)) : C(1);
            if (any_row_set(required_unit != C(1), row_threads)) {
                unit = required_unit;
                reduce_tile();
                sums = add_up(sums);
            }
            C variance = sums.first * inv_n;
            mean_gx = sums.second * inv_n;
            if (operands.is_centered) {  // corrects the rounding error of the mean
                const C mean_error = Scale::is_finite(sums.third) ? sums.third * inv_n : C(0);
                center += mean_error;
                variance = math::max(variance - mean_error * mean_error, C(0) * variance);
                mean_gx -= mean_error * mean_g;
            }
            const C stddev = StdDev<T>::of(variance, operands.eps, unit);
            scale = C(1) / stddev;
            scale_of_dx = scale * unit;
            mean_gx *= scale;
            if (exists && column == 0) {
                if (operands.is_centered) operands.new_mean[row * rows.pitch_saved] = Scale::unscaled(center, unit);
                operands.new_statistic[row * rows.pitch_saved] =
                    operands.is_centered ? scale_of_dx : Scale::unscaled(stddev, unit);
            }
        } else if (operands.is_centered) {
            mean_g = sums.first * inv_n;
        }
        each_vector([&](int v, const Vec<T, N>& dy, const Vec<T, N>& x) {
            Vec<T, N> y;
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const C dy_i = widen_lane(dy, i), x_hat = from_center(widen_lane(x, i)) * scale;
                sum_gamma[v * N + i] += dy_i * x_hat;
                sum_beta[v * N + i] += dy_i;
                const C dx = scale_of_dx * (dy_i * gamma_at(v, i) - mean_g - x_hat * mean_gx);
                y.lane[i] = narrow<T>(has_residual_grad ? widen(residual_grad[kIsAddNorm ? v : 0].lane[i]) + dx : dx);
            }
            store<N>(operands.dx + row * rows.pitch_dx + column_of(v), y);
        });
    }
    const auto store_sums = [&](C* partial, const C(&sum)[kColumns]) {
        if (partial == nullptr) return;
        partial += int64_t{blockIdx.x} * n;
        if (rows_per_block == 1) {
#pragma unroll
            for (int k = 0; k < kColumns; ++k) {
                const int element = (column + k / N * row_threads) * N + k % N;
                if (element < n) partial[element] = sum[k];
            }
            return;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kColumns; ++k) total[threadIdx.x * kColumns + k] = sum[k];
        __syncthreads();
        for (int c = threadIdx.x; c < row_threads * kColumns; c += blockDim.x) {
            const int k = c % kColumns, element = (c / kColumns + k / N * row_threads) * N + k % N;
            C all = 0;
            for (int g = 0; g < rows_per_block; ++g) all += total[g * row_threads * kColumns + c];
            if (element < n) partial[element] = all;
        }
    };
    store_sums(partials_gamma, sum_gamma);
    store_sums(partials_beta, sum_beta);
}

template <class T>
struct FusedPartials {
    compute_t<T>*gamma, *beta;
};

template <class T>
FusedPartials<T> carve_fused_partials(Carver* carver, const FusedRows& rows) {
    const int64_t count = fused_grid<T>(rows).blocks * rows.n;
    compute_t<T>* const gamma = carver->take<compute_t<T>>(count);
    return {gamma, carver->take<compute_t<T>>(count)};
}

template <class T>
size_t fused_rows_workspace(const FusedRows& rows) {
    constexpr int N = kVectorLanes<T>;
    const bool steps =
        rows.pitch_dy % N == 0 && rows.pitch_x % N == 0 && rows.pitch_dx % N == 0 && rows.pitch_residual_grad % N == 0;
    if (rows.n % N != 0 || rows.n > kFusedMaxThreads * kFusedColumns<T> || (rows.rows > 1 && !steps)) return 0;
    Carver carver;
    carve_fused_partials<T>(&carver, rows);
    return carver.bytes();
}

template <class T, class S, bool kIsAddNorm>
bool can_fuse_rows(const FusedRows& rows, const FusedOperands<T, S, kIsAddNorm>& operands) {
    return fused_rows_workspace<T>(rows) > 0 && is_aligned(operands.dy, kVectorBytes) && is_aligned(operands.x, kVectorBytes) &&
           is_aligned(operands.residual_grad, kVectorBytes) && is_aligned(operands.gamma, kVectorBytes) &&
           is_aligned(operands.dx, kVectorBytes);
}

template <class T, class S, bool kIsAddNorm>
Status fused_rows(const Launch& launch, const FusedRows& rows, const FusedOperands<T, S, kIsAddNorm>& operands) {
    const FusedGrid grid = fused_grid<T>(rows);
    Carver carver(launch.workspace);
    FusedPartials<T> partials = carve_fused_partials<T>(&carver, rows);
    if (operands.dbeta == nullptr) partials.beta = nullptr;
    const Grid blocks{dim3(static_cast<unsigned>(grid.blocks)), dim3(static_cast<unsigned>(grid.threads))};
    const auto launch_form = [&](auto kernel) {
        return launch_kernel(launch, blocks, kernel, rows, operands, grid.row_threads, partials.gamma, partials.beta);
    };
    if (kIsAddNorm && operands.new_statistic != nullptr)
        BK_TRY((launch_form(fused_rows_kernel<T, S, kIsAddNorm, kIsAddNorm>)));
    else
        BK_TRY((launch_form(fused_rows_kernel<T, S, kIsAddNorm, false>)));
    return reduce_fused_partials(launch, grid.blocks, rows.n, static_cast<const compute_t<T>*>(partials.gamma),
                                 static_cast<const compute_t<T>*>(partials.beta), operands.dgamma, operands.dbeta);
}

}  // namespace bk
