// SPDX-License-Identifier: Apache-2.0
// Order statistics of rows of at most 512 elements: lanes of a warp sort a row in registers (core/sort/sort_warp.cuh), several
// rows at once, and take the elements of all queries from it.
#pragma once

#include <cstdint>

#include "core/collectives/shuffle.cuh"
#include "core/platform.h"
#include "core/sort/sort_warp.cuh"
#include "core/topk/rank_rule.h"
#include "core/topk/rank_table.cuh"

namespace bk {

template <int kItems, class Bits>
__global__ void __launch_bounds__(kWarpSortThreads)
    rank_short_rows_kernel(const __grid_constant__ RankTable<Bits> table, int group) {
    __shared__ uint16_t indices[kWarpSortThreads * kItems];
    const int lane = static_cast<int>(threadIdx.x) % group;
    uint16_t* const sorted = indices + (static_cast<int>(threadIdx.x) - lane) * kItems;  // those of this row
    const int64_t r = (int64_t{blockIdx.x} * kWarpSortThreads + threadIdx.x) / group;
    const bool is_row = r < table.rows.rows;  // whole warps take part in the exchange
    const DeviceRow<Bits> row(table.rows, is_row ? r : 0);
    const int length = static_cast<int>(row.length);
    int nans = 0;
    SortItem<Bits> item[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
        const int i = lane + k * group;
        // Padding is behind all elements: its key is the largest, and its index larger than theirs.
        const Bits key = i < length ? row.key(i) : KeyOrder<Bits>::kAll;
        nans += i < length && key == KeyOrder<Bits>::kAll;
        item[k] = SortItem<Bits>::make(key, static_cast<uint32_t>(i));
    }
    for (int distance = group / 2; distance > 0; distance /= 2) nans += shuffle_xor(nans, distance);
    if (row.order.kind != KeyKind::kFloat) nans = 0;
    bitonic_sort<kItems>(item, group);
#pragma unroll
    for (int k = 0; k < kItems; ++k) sorted[lane * kItems + k] = static_cast<uint16_t>(item[k].index());
    __syncwarp();
    if (!is_row) return;
    for (int64_t query = lane; query < table.rule.queries; query += group) {
        RankChoice choice = choose_ranks(table.rule, length, nans, table.rule.q == nullptr ? 0.0 : table.rule.q[query]);
        if (choice.lower >= 0) choice = {sorted[choice.lower], sorted[choice.upper], choice.weight};
        table.set(row, query, choice);
    }
}

template <int kItems, class Bits>
Status launch_short_rows(const Launch& launch, const RankTable<Bits>& table) {
    int group = 1;
    while (group * kItems < table.rows.length) group *= 2;
    const int64_t blocks = ceil_div<int64_t>(table.rows.rows, kWarpSortThreads / group);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kWarpSortThreads)},
                         rank_short_rows_kernel<kItems, Bits>, table, group);
}

template <class Bits>
Status rank_short_rows(const Launch& launch, const RankTable<Bits>& table) {
    return table.rows.length <= 32 * 4 ? launch_short_rows<4>(launch, table)
                                       : launch_short_rows<kWarpSortItems<Bits>>(launch, table);
}

}  // namespace bk
