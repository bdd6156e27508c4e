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

// A few rows' sums of a thread.
template <int kRows>
struct RowSums {
    float row[kRows];
    BK_HD RowSums operator+(const RowSums& other) const {
        RowSums both;
        for (int i = 0; i < kRows; ++i) both.row[i] = row[i] + other.row[i];
        return both;
    }
};

// Item i has token i, whose row of dout is read once for all its rows, and some rows of dy, which are 0 if they have no pair.
template <class T, int N>
struct CombineBackwardJob {
    static constexpr int kRows = 4;  // of a token, read together
    int64_t width, top_k, rows, tokens, rows_of_item;
    const T *dout, *y;
    const int32_t *order, *position;
    const float* weights;  // or null
    T* dy;                 // or null
    float* dweights;       // or null

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t own = item * rows_of_item + team.rank;
        const bool checks = dy != nullptr && team.rank < rows_of_item && own < rows;
        const int64_t pair = checks ? order[own] : 0;
        if (item < tokens)
            for (int64_t k = 0; k < top_k; k += kRows) of_rows(team, item, k);
        if (dy != nullptr) clear_rows(team, item, checks && !is_pair_of(pair, own));
    }

private:
    BK_HD bool is_pair_of(int64_t pair, int64_t p) const { return pair >= 0 && pair < tokens * top_k && position[pair] == p; }

    // Rows of slots k to k + kRows - 1 of a token.
    BK_HD void of_rows(const Team& team, int64_t token, int64_t k) const {
        int64_t row[kRows], pair[kRows];
        bool has[kRows];
        BK_UNROLL
        for (int i = 0; i < kRows; ++i) {
            pair[i] = token * top_k + k + i;
            row[i] = k + i < top_k ? position[pair[i]] : -1;
            has[i] = row[i] >= 0 && row[i] < rows;
        }
        float weight[kRows];
        BK_UNROLL
        for (int i = 0; i < kRows; ++i) {
            has[i] = has[i] && order[row[i]] == pair[i];
            weight[i] = !has[i] ? 0.0f : weights == nullptr ? 1.0f : weights[pair[i]];
        }
        const bool sums = dweights != nullptr;
        float sum[kRows][N] = {};
        for (int64_t c = team.rank * N; c < width; c += team.size * N) {
            const int count = lane_count<N>(width - c);
            const auto g = load_lanes<N>(dout + token * width + c);
            decltype(load_lanes<N>(y)) cell[kRows] = {};
            BK_UNROLL
            for (int i = 0; i < kRows; ++i)
                if (sums && has[i]) cell[i] = load_lanes<N>(y + row[i] * width + c);
            BK_UNROLL
            for (int i = 0; i < kRows; ++i) {
                if (!has[i]) continue;
                if (sums)
                    each_lane<N>(count,
                                 [&](int v) { sum[i][v] = math::fma(widen_lane(g, v), widen_lane(cell[i], v), sum[i][v]); });
                if (dy != nullptr)
                    store_lanes<N>(dy + row[i] * width + c, count,
                                   [&](int v) { return narrow<T>(weight[i] * widen_lane(g, v)); });
            }
        }
        if (!sums) return;
        RowSums<kRows> mine;
        BK_UNROLL
        for (int i = 0; i < kRows; ++i) mine.row[i] = sum_of_lanes(sum[i]);
        const RowSums<kRows> all = team.sum(mine);
        BK_UNROLL
        for (int i = 0; i < kRows; ++i)
            if (team.rank == 0 && k + i < top_k) dweights[pair[i]] = has[i] ? all.row[i] : 0.0f;
    }

    // Zeros in the item's rows without a pair; `has_one`: the thread knows one.
    BK_HD void clear_rows(const Team& team, int64_t item, bool has_one) const {
        const bool looks = rows_of_item > team.size;  // a row a thread has been looked at
        if (!looks && team.largest(has_one ? 1 : 0) == 0) return;
        for (int64_t p = item * rows_of_item; p < (item + 1) * rows_of_item && p < rows; ++p) {
            if (is_pair_of(order[p], p)) continue;
            for (int64_t c = team.rank * N; c < width; c += team.size * N)
                store_lanes<N>(dy + p * width + c, lane_count<N>(width - c), [&](int) { return narrow<T>(0.0f); });
        }
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
        constexpr int64_t kRowsOfItem = 16;  // at most, so that rows without tokens are shared out too
        const int64_t items = std::max<int64_t>(tokens, ceil_div<int64_t>(rows, kRowsOfItem));
        const CombineBackwardJob<T, N> job{width,    top_k,   rows, tokens,  ceil_div<int64_t>(rows, items), dout, y, order,
                                           position, weights, dy,   dweights};
        return run_teams(launch, items, width * static_cast<int64_t>(3 * sizeof(T)), job, false, top_k);
    }
};

}  // namespace bk::moe
