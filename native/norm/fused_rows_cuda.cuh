// As many blocks as the chip holds take rows in turns. A thread has the same eight columns of each row, and keeps their sums in
// registers; a row is on the chip from its load to its store.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/workspace.h"
#include "core/math/math.h"
#include "core/reduce/shuffle.cuh"
#include "core/rows/row_kept.cuh"
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

// Of a row of n elements, by two sums: add_up() gives every thread of the row those of all.
template <class C>
struct FusedMoments {
    C mean, variance;  // or 0 and the mean square
};

template <class T, int N, int V, class ElementOf, class AddUp>
BK_DEVICE FusedMoments<compute_t<T>> fused_moments(bool is_centered, int n, const Vec<T, N> (&x)[V],
                                                   const ElementOf& element_of, bool exists, const AddUp& add_up) {
    using C = compute_t<T>;
    const C count = static_cast<C>(n);
    const auto each = [&](const auto& body) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (!exists || element_of(v) >= n) continue;
#pragma unroll
            for (int i = 0; i < N; ++i) body(widen_lane(x[v], i));
        }
    };
    C mean = 0;
    if (is_centered) {
        C sum = 0;
        each([&](C value) { sum += value; });
        mean = add_up({sum, C(0)}).h / count;
    }
    C squares = 0;
    each([&](C value) { squares += (value - mean) * (value - mean); });
    return {mean, add_up({squares, C(0)}).h / count};
}

// What a thread has of a row, as it lies in memory.
template <class T, class S>
struct FusedRow {
    static constexpr int N = kVectorLanes<T>, kVectors = kFusedColumns<T> / N;
    struct Vectors {
        Vec<T, N> dy[kVectors], x[kVectors];
    } of;
    S center, statistic;
};

// Whether a thread loads its part of the next row before the sums of the one at hand: of 16-bit elements, which alone are too
// few bytes under way, and of which there are registers for two rows.
template <class T>
constexpr bool kFusedLoadsAhead = sizeof(T) == 2;

// parts_beta may be null. Of a residual's gradient, which is added to dx, the loads are under way while threads add up.
template <class T, class S, bool kIsOfSum>
__global__ void __launch_bounds__(kFusedMostThreads)
    fused_rows_kernel(const FusedRows rows, const FusedOperands<T, S, kIsOfSum> operands, int across,
                      compute_t<T>* BK_RESTRICT parts_gamma, compute_t<T>* BK_RESTRICT parts_beta) {
    using C = compute_t<T>;
    using Row = FusedRow<T, S>;
    constexpr int N = Row::N, kColumns = kFusedColumns<T>, kVectors = Row::kVectors;
    __shared__ FusedPair<C> exchange[2][32];
    __shared__ C total[kFusedLeastThreads * kColumns];
    const int column = threadIdx.x % across, group = threadIdx.x / across, groups = blockDim.x / across;
    const int n = static_cast<int>(rows.n);
    const auto element_of = [&](int v) { return (column + v * across) * N; };
    const bool computes = kIsOfSum && operands.new_statistic != nullptr;
    const C offset = kIsOfSum && operands.gamma != nullptr ? operands.gamma_offset : C(0);
    Vec<T, N> weight[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
        for (int i = 0; i < N; ++i) weight[v].lane[i] = narrow<T>(C(1));
        if (operands.gamma != nullptr && element_of(v) < n) weight[v] = load<N>(operands.gamma + element_of(v));
    }
    const auto load_row = [&](int64_t row) {
        Row given;
        const bool exists = row < rows.rows;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            const bool has = exists && element_of(v) < n;
            given.of.dy[v] = load_if<N>(has, operands.dy + row * rows.step_dy + element_of(v));
            given.of.x[v] = load_if<N>(has, operands.x + row * rows.step_x + element_of(v));
        }
        given.center = exists && operands.is_centered && !computes ? operands.mean[row * rows.step_saved] : narrow<S>(C(0));
        given.statistic = exists && !computes ? operands.statistic[row * rows.step_saved] : narrow<S>(C(1));
        return given;
    };
    C sum_gamma[kColumns] = {}, sum_beta[kColumns] = {};
    int turn = 0;
    const auto add_up = [&](FusedPair<C> mine) {
        mine = add_across(mine, across, exchange[turn]);
        turn ^= 1;
        return mine;
    };
    const int64_t step = int64_t{gridDim.x} * groups;
    int64_t first = int64_t{blockIdx.x} * groups;
    Row next;
    if constexpr (kFusedLoadsAhead<T>) next = load_row(first + group);
    for (; first < rows.rows; first += step) {
        const int64_t row = first + group;
        const bool exists = row < rows.rows;
        Row given;
        if constexpr (kFusedLoadsAhead<T>) {
            given = next;
            next = load_row(row + step);
        } else {
            given = load_row(row);
        }
        C center = widen(given.center), scale = widen(given.statistic);
        if (computes) {
            const FusedMoments<C> moments = fused_moments<T>(operands.is_centered, n, given.of.x, element_of, exists, add_up);
            const C spread = math::sqrt<C>(moments.variance + operands.eps);
            center = moments.mean;
            scale = operands.is_centered ? C(1) / spread : spread;
            if constexpr (kIsOfSum)
                if (exists && column == 0) {
                    if (operands.is_centered) operands.new_mean[row * rows.step_saved] = center;
                    operands.new_statistic[row * rows.step_saved] = scale;
                }
        }
        if (!operands.is_centered) scale = C(1) / scale;
        struct Term {
            C slope, h, xh;
        };
        const auto term = [&](const typename Row::Vectors& of, int v, int i) {
            const C slope = widen_lane(of.dy[v], i), factor = widen_lane(weight[v], i) + offset;
            return Term{slope, slope * factor, (widen_lane(of.x[v], i) - center) * scale};
        };
        FusedPair<C> sums{0, 0};
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            if (!exists || element_of(v) >= n) continue;
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const Term of = term(given.of, v, i);
                sum_gamma[v * N + i] += of.slope * of.xh;
                sum_beta[v * N + i] += of.slope;
                sums.h += of.h;
                sums.product += of.h * of.xh;
            }
        }
        [[maybe_unused]] Vec<T, N> extra[kIsOfSum ? kVectors : 1];
        const bool has_extra = kIsOfSum && operands.extra != nullptr;
        if (has_extra) {
#pragma unroll
            for (int v = 0; v < kVectors; ++v)
                if (exists && element_of(v) < n)
                    extra[kIsOfSum ? v : 0] = load<N>(operands.extra + row * rows.step_extra + element_of(v));
        }
        sums = add_up(sums);
        const C level = operands.is_centered ? sums.h / static_cast<C>(n) : C(0), slope = sums.product / static_cast<C>(n);
        // Of two rows there are registers as they lie in memory, not in the compute type.
        typename Row::Vectors of = given.of;
        if constexpr (kFusedLoadsAhead<T>) of = made_anew(of);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            if (!exists || element_of(v) >= n) continue;
            Vec<T, N> y;
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const Term each = term(of, v, i);
                const C dx = scale * (each.h - level - each.xh * slope);
                y.lane[i] = narrow<T>(has_extra ? widen(extra[kIsOfSum ? v : 0].lane[i]) + dx : dx);
            }
            store<N>(operands.dx + row * rows.step_dx + element_of(v), y);
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
