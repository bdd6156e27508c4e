// SPDX-License-Identifier: Apache-2.0
// Thread groups for rows of a matrix: 1 to 32 lanes (a power of two) share a row, each with one vector of N columns.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/types/vec.h"

namespace bk {

struct RowGroups {
    int lanes;          // vector width
    int group;          // threads per group, 1 to 32
    int64_t tiles;      // groups over the columns; grid.y
    int64_t per_block;  // groups per block, along grid.x

    // aligned: rows allow 16-byte vectors if `columns` is a multiple of one.
    template <class T>
    static RowGroups choose(int64_t columns, bool aligned, int threads) {
        RowGroups g;
        g.lanes = aligned && columns % kVectorLanes<T> == 0 ? kVectorLanes<T> : 1;
        const int64_t vectors = columns / g.lanes;
        g.group = 1;
        while (g.group < 32 && g.group < vectors) g.group *= 2;
        g.tiles = ceil_div<int64_t>(vectors, g.group);
        g.per_block = threads / g.group;
        return g;
    }
};

// Coordinates of the calling thread: lane in its group, group index, first column.
struct RowLane {
    int lane;
    int64_t worker;
    int64_t column;

    template <int N>
    static BK_DEVICE RowLane here(int group) {
        RowLane self;
        self.lane = threadIdx.x & (group - 1);
        self.worker = int64_t{blockIdx.x} * (blockDim.x / group) + threadIdx.x / group;
        self.column = (int64_t{blockIdx.y} * group + self.lane) * N;
        return self;
    }
};

// Warp lane mask of the calling thread's group.
BK_DEVICE unsigned group_mask(int group) {
    return group == 32 ? 0xffffffffu : ((1u << group) - 1) << (threadIdx.x & 31 & ~(group - 1));
}

// Two (group + 1)-ary searches at once: the least x[e] in [low[e], high[e]) with is_past(e, x), else high[e]. is_past
// is monotone; each lane probes one candidate per round.
template <class IsPast>
BK_DEVICE void group_search(int64_t (&low)[2], int64_t (&high)[2], int group, int lane, const IsPast& is_past) {
    const unsigned mask = group_mask(group);
    const int base = static_cast<int>(threadIdx.x) & 31 & ~(group - 1);
    while (low[0] < high[0] || low[1] < high[1]) {
        int64_t step[2];
        bool past[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            step[e] = (high[e] - low[e]) / (group + 1) + 1;
            const int64_t mine = low[e] + step[e] * (lane + 1) - 1;
            past[e] = mine >= high[e] || is_past(e, mine);
        }
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            // Lanes before the first vote are not past: the answer lies in the interval that ends at the voting lane.
            const unsigned votes = __ballot_sync(mask, past[e]) & mask;
            const int before = votes == 0 ? group : __ffs(votes) - 1 - base;
            const int64_t next = low[e] + step[e] * before;
            high[e] = votes == 0 ? high[e] : min(high[e], next + step[e] - 1);
            low[e] = min(next, high[e]);
        }
    }
}

template <int N, class T, class C>
BK_DEVICE void add_row(C (&sum)[N], const Vec<T, N>& row) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += widen_lane(row, i);
}

template <int N, class T, class C>
BK_DEVICE Vec<T, N> narrow_row(const C (&sum)[N]) {
    Vec<T, N> row;
#pragma unroll
    for (int i = 0; i < N; ++i) row.lane[i] = narrow<T>(sum[i]);
    return row;
}

template <int N, class C>
BK_DEVICE void clear_row(C (&sum)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = C(0);
}

}  // namespace bk
