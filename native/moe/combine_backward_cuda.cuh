// SPDX-License-Identifier: Apache-2.0
// Gradients of combine on a GPU, token by token: a row of dout is read once for all slots, where a walk in the order of rows
// reads it from memory for each of them as soon as dout is larger than the L2 cache.
#pragma once

#include <cstdint>

#include "core/collectives/team.h"
#include "core/math/math.h"
#include "core/types/dtype.h"
#include "core/types/lanes.h"

namespace bk::moe {

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
struct CombineBackwardTokens {
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

}  // namespace bk::moe
