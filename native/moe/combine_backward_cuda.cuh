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
    static constexpr int kRows = 8, kGroup = 4;  // of a token, read together; summed together
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

    using Cell = decltype(load_lanes<N>(static_cast<const T*>(nullptr)));

    // Rows of slots k to k + kRows - 1 of a token. The first columns of y are read while it is not yet known whether they are
    // the token's.
    BK_HD void of_rows(const Team& team, int64_t token, int64_t k) const {
        const int64_t own = team.rank * N, pair = token * top_k + k;
        const bool sums = dweights != nullptr, is_inside = own < width;
        const T* const from = dout + token * width;
        const Cell g = is_inside ? load_lanes<N>(from + own) : Cell{};
        int32_t row[kRows];
        float weight[kRows];
        BK_UNROLL
        for (int i = 0; i < kRows; ++i) {
            row[i] = k + i < top_k ? position[pair + i] : -1;
            weight[i] = weights != nullptr && k + i < top_k ? weights[pair + i] : 1.0f;
        }
        Cell cell[kRows] = {};
        int32_t owner[kRows];
        BK_UNROLL
        for (int i = 0; i < kRows; ++i) {
            const bool exists = row[i] >= 0 && row[i] < rows;
            owner[i] = exists ? order[row[i]] : -1;
            if (sums && is_inside && exists) cell[i] = load_lanes<N>(y + row[i] * width + own);
        }
        RowSums<kRows> mine{};
        BK_UNROLL
        for (int i = 0; i < kRows; ++i)
            if (owner[i] != pair + i) row[i] = -1;
        BK_UNROLL
        for (int i = 0; i < kRows; i += kGroup)
            if (k + i < top_k) of_group(team, from, g, cell + i, row + i, weight + i, mine.row + i);
        if (!sums) return;
        const RowSums<kRows> all = team.sum(mine);
        BK_UNROLL
        for (int i = 0; i < kRows; ++i)
            if (team.rank == 0 && k + i < top_k) dweights[pair + i] = row[i] >= 0 ? all.row[i] : 0.0f;
    }

    // Some rows, negative ones left out, of which the thread's first columns have been read; sums are of its columns.
    BK_HD void of_group(const Team& team, const T* from, Cell g, Cell* cell, const int32_t* row, const float* weight,
                        float* total) const {
        const bool sums = dweights != nullptr;
        const int64_t step = int64_t{team.size} * N;
        float sum[kGroup][N] = {};
        for (int64_t c = team.rank * N; c < width;) {
            const int count = lane_count<N>(width - c);
            BK_UNROLL
            for (int i = 0; i < kGroup; ++i) {
                if (row[i] < 0) continue;
                if (sums)
                    each_lane<N>(count,
                                 [&](int v) { sum[i][v] = math::fma(widen_lane(g, v), widen_lane(cell[i], v), sum[i][v]); });
                if (dy != nullptr)
                    store_lanes<N>(dy + row[i] * width + c, count,
                                   [&](int v) { return narrow<T>(weight[i] * widen_lane(g, v)); });
            }
            c += step;
            if (c >= width) break;
            g = load_lanes<N>(from + c);
            BK_UNROLL
            for (int i = 0; i < kGroup; ++i)
                if (sums && row[i] >= 0) cell[i] = load_lanes<N>(y + row[i] * width + c);
        }
        BK_UNROLL
        for (int i = 0; i < kGroup; ++i) total[i] = sum_of_lanes(sum[i]);
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
