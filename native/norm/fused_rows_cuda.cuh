// As many blocks as the chip holds take rows in turns. A thread has the same eight columns of each row, and keeps their sums in
// registers; a row is on the chip from its load to its store.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/workspace.h"
#include "core/math/math.h"
#include "core/reduce/shuffle.cuh"
#include "core/reduce/square_scale.h"
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

// Adds up among `count` neighbouring lanes, a power of two.
template <class Sums>
BK_DEVICE Sums add_lanes_up(Sums mine, int count) {
    const auto add = [&](int distance) { mine = mine + shuffle_xor(mine, distance); };
    if (count == 32) {
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) add(distance);
    } else {
        for (int distance = 1; distance < count; distance *= 2) add(distance);
    }
    return mine;
}

// Of the `across` threads of a row, a power of two; all of them get the same bits. Every thread of the block calls it.
template <class Sums>
BK_DEVICE Sums add_across(Sums mine, int across, Sums (&exchange)[32]) {
    mine = add_lanes_up(mine, min(across, 32));
    if (across <= 32) return mine;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = across / 32;
    if (lane == 0) exchange[warp] = mine;
    __syncthreads();
    return add_lanes_up(exchange[(warp & -warps) | (lane & (warps - 1))], warps);
}

// Whether there is such a row among those that go from barrier to barrier together.
BK_DEVICE bool any_row(bool is_one, int across) {
    if (across <= 32) return __any_sync(0xffffffffu, is_one);
    return across < kFusedLeastThreads ? __syncthreads_or(is_one) : is_one;
}

// What a thread has of a row, as it lies in memory. Words are what goes from one turn to the next: elements would be taken
// apart as soon as they are loaded, and so waited for.
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

// Whether a thread loads its part of the next row before the sums of the one at hand: of 16-bit elements, which alone are too
// few bytes under way, and of which there are registers for two rows.
template <class T>
constexpr bool kFusedLoadsAhead = sizeof(T) == 2;

// Where kComputes the statistics are new ones: an instance of its own, as a thread has no registers for both. parts_beta may be
// null. Of a residual's gradient, which is added to dx, the loads are under way while threads add up.
template <class T, class S, bool kIsOfSum, bool kComputes>
__global__ void __launch_bounds__(kFusedMostThreads)
    fused_rows_kernel(const FusedRows rows, const FusedOperands<T, S, kIsOfSum> operands, int across,
                      compute_t<T>* BK_RESTRICT parts_gamma, compute_t<T>* BK_RESTRICT parts_beta) {
    using C = compute_t<T>;
    using Row = FusedRow<T, S>;
    constexpr int N = Row::N, kColumns = kFusedColumns<T>, kVectors = Row::kVectors;
    using Sums = std::conditional_t<kComputes, FusedTriple<C>, FusedPair<C>>;
    using Scale = SquareScale<T>;
    __shared__ Sums exchange[2][32];
    __shared__ C total[kFusedLeastThreads * kColumns];
    const int column = threadIdx.x % across, group = threadIdx.x / across, groups = blockDim.x / across;
    const int n = static_cast<int>(rows.n);
    const auto element_of = [&](int v) { return (column + v * across) * N; };
    const C offset = kIsOfSum && operands.gamma != nullptr ? operands.gamma_offset : C(0);
    Vec<T, N> weight[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
        for (int i = 0; i < N; ++i) weight[v].lane[i] = narrow<T>(C(1));
        if (operands.gamma != nullptr && element_of(v) < n) weight[v] = load<N>(operands.gamma + element_of(v));
    }
    const int64_t step = int64_t{gridDim.x} * groups;
    int64_t first = int64_t{blockIdx.x} * groups, row_ahead = first + group;
    const auto load_row = [&] {
        Row given;
        const bool exists = row_ahead < rows.rows;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            const bool has = exists && element_of(v) < n;
            given.words.dy[v] = bit_cast<uint4>(load_if<N>(has, operands.dy + row_ahead * rows.step_dy + element_of(v)));
            given.words.x[v] = bit_cast<uint4>(load_if<N>(has, operands.x + row_ahead * rows.step_x + element_of(v)));
        }
        given.center =
            exists && operands.is_centered && !kComputes ? operands.mean[row_ahead * rows.step_saved] : narrow<S>(C(0));
        given.statistic = exists && !kComputes ? operands.statistic[row_ahead * rows.step_saved] : narrow<S>(C(1));
        row_ahead += step;
        return given;
    };
    C sum_gamma[kColumns] = {}, sum_beta[kColumns] = {};
    int turn = 0;
    const auto add_up = [&](Sums mine) {
        mine = add_across(mine, across, exchange[turn]);
        turn ^= 1;
        return mine;
    };
    const C share = C(1) / static_cast<C>(n);
    Row next;
    if constexpr (kFusedLoadsAhead<T>) next = load_row();
    for (; first < rows.rows; first += step) {
        const int64_t row = first + group;
        const bool exists = row < rows.rows;
        Row given;
        if constexpr (kFusedLoadsAhead<T>) given = next;
        (kFusedLoadsAhead<T> ? next : given) = load_row();
        const auto each_vector = [&](const auto& body) {
            // Of two rows there are registers as they lie in memory, not in the compute type.
            if constexpr (kFusedLoadsAhead<T>) {
                given.words = made_anew(given.words);
#pragma unroll
                for (int v = 0; v < kVectors; ++v) weight[v] = made_anew(weight[v]);
            }
            const auto of = bit_cast<typename Row::Vectors>(given.words);
#pragma unroll
            for (int v = 0; v < kVectors; ++v)
                if (exists && element_of(v) < n) body(v, of.dy[v], of.x[v]);
        };
        const auto factor = [&](int v, int i) {
            return kIsOfSum ? widen_lane(weight[v], i) + offset : widen_lane(weight[v], i);
        };
        C center = widen(given.center), scale = widen(given.statistic), level = 0;
        if (!operands.is_centered) scale = C(1) / scale;
        // Of x, where the statistic is yet to come and squares would leave the range: of its differences from the center.
        C unit = 1;
        const auto from_center = [&](C x) { return kComputes ? x * unit - center : x - center; };
        Sums sums;
        const auto sum_up = [&] {
            if (kComputes && operands.is_centered) {
                sums = {};
                each_vector([&](int v, const Vec<T, N>& dy, const Vec<T, N>& x) {
#pragma unroll
                    for (int i = 0; i < N; ++i) {
                        sums.first += widen_lane(x, i) * unit;
                        sums.second += widen_lane(dy, i) * factor(v, i);
                    }
                });
                sums = add_up(sums);
                center = sums.first * share;
                level = sums.second * share;
            }
            // Where the statistic is yet to come, scale is 1.
            sums = {};
            each_vector([&](int v, const Vec<T, N>& dy, const Vec<T, N>& x) {
#pragma unroll
                for (int i = 0; i < N; ++i) {
                    const C h = widen_lane(dy, i) * factor(v, i), xh = from_center(widen_lane(x, i)) * scale;
                    sums.first += kComputes ? xh * xh : h;
                    sums.second += h * xh;
                    if constexpr (kComputes) sums.third += xh;
                }
            });
        };
        sum_up();
        [[maybe_unused]] Vec<T, N> extra[kIsOfSum ? kVectors : 1];
        const bool has_extra = kIsOfSum && operands.extra != nullptr;
        if (has_extra) {
#pragma unroll
            for (int v = 0; v < kVectors; ++v)
                if (exists && element_of(v) < n)
                    extra[kIsOfSum ? v : 0] = load<N>(operands.extra + row * rows.step_extra + element_of(v));
        }
        sums = add_up(sums);
        C slope = sums.second * share, scale_of_dx = scale;
        if constexpr (kComputes) {
            const C wanted = exists ? Scale::unit_of(center, sums.first, operands.eps * static_cast<C>(n)) : C(1);
            if (any_row(wanted != C(1), across)) {
                unit = wanted;
                sum_up();
                sums = add_up(sums);
            }
            C variance = sums.first * share;
            slope = sums.second * share;
            if (operands.is_centered) {  // what rounding has left of the mean
                const C rest = Scale::is_finite(sums.third) ? sums.third * share : C(0);
                center += rest;
                variance = math::max(variance - rest * rest, C(0) * variance);
                slope -= rest * level;
            }
            const C spread = Spread<T>::of(variance, operands.eps, unit);
            scale = C(1) / spread;
            scale_of_dx = scale * unit;
            slope *= scale;
            if (exists && column == 0) {
                if (operands.is_centered) operands.new_mean[row * rows.step_saved] = Scale::unscaled(center, unit);
                operands.new_statistic[row * rows.step_saved] =
                    operands.is_centered ? scale_of_dx : Scale::unscaled(spread, unit);
            }
        } else if (operands.is_centered) {
            level = sums.first * share;
        }
        each_vector([&](int v, const Vec<T, N>& dy, const Vec<T, N>& x) {
            Vec<T, N> y;
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const C given_slope = widen_lane(dy, i), xh = from_center(widen_lane(x, i)) * scale;
                sum_gamma[v * N + i] += given_slope * xh;
                sum_beta[v * N + i] += given_slope;
                const C dx = scale_of_dx * (given_slope * factor(v, i) - level - xh * slope);
                y.lane[i] = narrow<T>(has_extra ? widen(extra[kIsOfSum ? v : 0].lane[i]) + dx : dx);
            }
            store<N>(operands.dx + row * rows.step_dx + element_of(v), y);
        });
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
    const auto launch_form = [&](auto kernel) {
        return launch_kernel(launch, blocks, kernel, rows, operands, grid.across, parts.gamma, parts.beta);
    };
    if (kIsOfSum && operands.new_statistic != nullptr)
        BK_TRY((launch_form(fused_rows_kernel<T, S, kIsOfSum, kIsOfSum>)));
    else
        BK_TRY((launch_form(fused_rows_kernel<T, S, kIsOfSum, false>)));
    return add_fused_parts(launch, grid.blocks, rows.n, static_cast<const compute_t<T>*>(parts.gamma),
                           static_cast<const compute_t<T>*>(parts.beta), operands.dgamma, operands.dbeta);
}

}  // namespace bk
