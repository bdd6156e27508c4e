// SPDX-License-Identifier: Apache-2.0
// Rows of tokens in the order of experts, and back: permute, combine, and their gradients.
//
//   permute     y[p] = x[order[p] / top_k], 0 for a negative order[p]
//   combine     out[t] = sum over k of weights[t, k] y[position[t, k]], in f32, slots in order; negative positions add nothing
//   gradients   of permute: combine without weights; of combine: dy[position] = weight dout, dweight = sum of dout y
//
// order and position are those of moe/sort.h. A team has a tile of a row; gradients of weights are sums over a whole row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/workspace.h"
#include "core/collectives/team.h"
#include "core/math/math.h"
#include "core/types/lanes.h"
#include "moe/checks.h"
#if BK_CUDA
#include "moe/combine_backward_cuda.cuh"
#include "moe/permute_cuda.cuh"
#endif

namespace bk::moe {

constexpr int64_t kRowTile = 4096;  // columns of a team

struct RowTiles {
    int64_t width, count;

    static RowTiles of(int64_t width) { return {width, ceil_div(width, kRowTile)}; }
    BK_HD int64_t row(int64_t item) const { return item / count; }
    BK_HD int64_t begin(int64_t item) const { return item % count * kRowTile; }
    BK_HD int64_t end(int64_t item) const {
        const int64_t most = begin(item) + kRowTile;
        return most < width ? most : width;
    }
};

// Lanes of a vector, if all rows are aligned to it.
template <class T>
int row_lanes(int64_t width, std::initializer_list<const void*> arrays) {
    bool fits = width % kVectorLanes<T> == 0;
    for (const void* each : arrays) fits = fits && is_aligned(each, kVectorBytes);
    return fits ? kVectorLanes<T> : 1;
}

// body(N), with the lanes of a thread, or with 1 if rows are not aligned to vectors.
template <class T, class Body>
Status with_lanes([[maybe_unused]] int64_t width, [[maybe_unused]] std::initializer_list<const void*> arrays,
                  const Body& body) {
#if BK_CUDA
    if (row_lanes<T>(width, arrays) == 1) return body(std::integral_constant<int, 1>{});
#endif
    return body(std::integral_constant<int, kLanesOfThread<T> >{});
}

// Permute moves elements of Bits.
template <class Bits, int N>
struct PermuteJob {
    RowTiles tiles;
    int64_t tokens, top_k;
    const Bits* x;
    const int32_t* order;
    Bits* y;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t p = tiles.row(item), pair = order[p], token = pair < 0 ? -1 : pair / top_k;
        const bool has_row = token >= 0 && token < tokens;
        const Bits* const from = x + (has_row ? token : 0) * tiles.width;
        Bits* const to = y + p * tiles.width;
        const int64_t end = tiles.end(item);
        for (int64_t c = tiles.begin(item) + team.rank * N; c < end; c += team.size * N)
            store(to + c, has_row ? load<N>(from + c) : Vec<Bits, N>{});
    }
};

template <class T, int N>
struct CombineJob {
    RowTiles tiles;
    int64_t top_k, rows;
    const T* y;
    const int32_t* position;
    const float* weights;  // or null
    T* out;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t token = tiles.row(item), end = tiles.end(item);
        const int32_t* const from = position + token * top_k;
        for (int64_t c = tiles.begin(item) + team.rank * N; c < end; c += team.size * N) {
            const int count = lane_count<N>(end - c);
            float sum[N] = {};
            for (int64_t k = 0; k < top_k; ++k) {
                const int64_t p = from[k];
                if (p < 0 || p >= rows) continue;
                const float weight = weights == nullptr ? 1.0f : weights[token * top_k + k];
                const auto cell = load_lanes<N>(y + p * tiles.width + c);
                each_lane<N>(count, [&](int v) { sum[v] = math::fma(weight, widen_lane(cell, v), sum[v]); });
            }
            store_lanes<N>(out + token * tiles.width + c, count, [&](int v) { return narrow<T>(sum[v]); });
        }
    }
};

// Item i has row i of dy, and the pair of this row; and dweights of pair i, if it has no row.
template <class T, int N>
struct CombineBackwardJob {
    int64_t width, top_k, rows, pairs, tokens;
    const T *dout, *y;
    const int32_t *order, *position;
    const float* weights;  // or null
    T* dy;                 // or null
    float* dweights;       // or null

    BK_HD void operator()(const Team& team, int64_t item) const {
        if (item < rows) of_row(team, item);
        if (dweights == nullptr || item >= pairs || team.rank != 0) return;
        const int64_t p = position[item];
        if (p < 0 || p >= rows || order[p] != item) dweights[item] = 0;
    }

    BK_HD void of_row(const Team& team, int64_t p) const {
        const int64_t pair = order[p];
        const bool has_pair = pair >= 0 && pair < pairs && position[pair] == p;
        const int64_t token = has_pair ? pair / top_k : 0;
        const float weight = !has_pair ? 0 : weights == nullptr ? 1.0f : weights[pair];
        const bool sums = has_pair && dweights != nullptr;
        float sum[N] = {};
        for (int64_t c = team.rank * N; c < width; c += team.size * N) {
            const int count = lane_count<N>(width - c);
            if (!has_pair) {
                if (dy != nullptr) store_lanes<N>(dy + p * width + c, count, [&](int) { return narrow<T>(0.0f); });
                continue;
            }
            const auto g = load_lanes<N>(dout + token * width + c);
            if (sums) {
                const auto cell = load_lanes<N>(y + p * width + c);
                each_lane<N>(count, [&](int v) { sum[v] = math::fma(widen_lane(g, v), widen_lane(cell, v), sum[v]); });
            }
            if (dy != nullptr)
                store_lanes<N>(dy + p * width + c, count, [&](int v) { return narrow<T>(weight * widen_lane(g, v)); });
        }
        if (!sums) return;
        const float mine = sum_of_lanes(sum);
        const float all = team.sum(mine);
        if (team.rank == 0) dweights[pair] = all;
    }
};

template <class T>
struct MoePermute {
    int32_t tokens, rows, width, top_k;

    Work work() const { return all_or_none(int64_t{rows} * width); }
    Status check() const {
        BK_TRY(require_non_negative({{"tokens", tokens}, {"rows", rows}, {"width", width}}));
        return require_positive({{"top_k", top_k}});
    }
    Status run(const T* x, const int32_t* order, T* y, const Launch& launch) const {
        using Bits = bits_t<T>;
        const auto* const from = reinterpret_cast<const Bits*>(x);
        auto* const to = reinterpret_cast<Bits*>(y);
        constexpr int kLanes = kVectorLanes<Bits>;
#if BK_CUDA
        const int64_t row_bytes = width * static_cast<int64_t>(sizeof(T));
        if (row_lanes<T>(width, {x, y}) == kLanes && walks_tokens(tokens, rows, top_k, row_bytes))
            return permute_tokens(launch, tokens, rows, top_k, row_bytes, x, order, y);
#endif
        if (row_lanes<T>(width, {x, y}) == kLanes) return run_with<Bits, kLanes>(from, order, to, launch);
        return run_with<Bits, 1>(from, order, to, launch);
    }

private:
    template <class Bits, int N>
    Status run_with(const Bits* x, const int32_t* order, Bits* y, const Launch& launch) const {
        const RowTiles tiles = RowTiles::of(width);
        const int64_t bytes = std::min<int64_t>(width, kRowTile) * static_cast<int64_t>(sizeof(T));
        return run_teams(launch, rows * tiles.count, bytes, PermuteJob<Bits, N>{tiles, tokens, top_k, x, order, y});
    }
};

template <class T>
struct MoeCombine {
    int32_t tokens, top_k, rows, width;

    Work work() const { return all_or_none(int64_t{tokens} * width); }
    Status check() const {
        return require_non_negative({{"tokens", tokens}, {"top_k", top_k}, {"rows", rows}, {"width", width}});
    }
    Status run(const T* y, const int32_t* position, const float* weights, T* out, const Launch& launch) const {
        return with_lanes<T>(width, {y, out},
                             [&](auto lanes) { return run_with<lanes.value>(y, position, weights, out, launch); });
    }

private:
    template <int N>
    Status run_with(const T* y, const int32_t* position, const float* weights, T* out, const Launch& launch) const {
        const RowTiles tiles = RowTiles::of(width);
        const int64_t bytes = std::min<int64_t>(width, kRowTile) * static_cast<int64_t>(sizeof(T));
        const CombineJob<T, N> job{tiles, top_k, rows, y, position, weights, out};
        return run_teams(launch, tokens * tiles.count, bytes, job, false, top_k);
    }
};

template <class T>
struct MoePermuteBackward : MoeCombine<T> {
    Status run(const T* dy, const int32_t* position, T* dx, const Launch& launch) const {
        return MoeCombine<T>::run(dy, position, nullptr, dx, launch);
    }
};

template <class T>
struct MoeCombineBackward {
    int32_t tokens, top_k, rows, width;

    Work work() const { return all_or_none(std::max(int64_t{rows} * width, int64_t{tokens} * top_k)); }
    Status check() const {
        return require_non_negative({{"tokens", tokens}, {"top_k", top_k}, {"rows", rows}, {"width", width}});
    }
    Status run(const T* dout, const T* y, const int32_t* order, const int32_t* position, const float* weights, T* dy,
               float* dweights, const Launch& launch) const {
        return with_lanes<T>(width, {dout, y, dy == nullptr ? dout : dy}, [&](auto lanes) {
            return run_with<lanes.value>(dout, y, order, position, weights, dy, dweights, launch);
        });
    }

private:
    template <int N>
    Status run_with(const T* dout, const T* y, const int32_t* order, const int32_t* position, const float* weights, T* dy,
                    float* dweights, const Launch& launch) const {
#if BK_CUDA
        constexpr int64_t kRowsOfItem = 16;  // at most, so that rows without tokens are shared out too
        const int64_t items = std::max<int64_t>(tokens, ceil_div<int64_t>(rows, kRowsOfItem));
        const CombineBackwardTokens<T, N> job{width,    top_k,   rows, tokens,  ceil_div<int64_t>(rows, items), dout, y, order,
                                              position, weights, dy,   dweights};
        return run_teams(launch, items, width * static_cast<int64_t>(3 * sizeof(T)), job, false, top_k);
#else
        const int64_t pairs = int64_t{tokens} * top_k;
        const CombineBackwardJob<T, N> job{width, top_k, rows, pairs, tokens, dout, y, order, position, weights, dy, dweights};
        return run_teams(launch, std::max<int64_t>(rows, pairs), width * static_cast<int64_t>(3 * sizeof(T)), job);
#endif
    }
};

}  // namespace bk::moe
