// SPDX-License-Identifier: Apache-2.0
// Order statistics of rows: short ones are sorted (core/topk/rank_short_rows.cuh). Others have a block for each row and query:
// a radix select finds the key, a last pass the element with it.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/topk/radix_select.cuh"
#include "core/topk/rank_rule.h"
#include "core/topk/rank_short_rows.cuh"
#include "core/topk/rank_table.cuh"
#include "core/topk/top_k_rows.cuh"

namespace bk {

// The number of elements that `holds` for, by all threads of a block.
template <class Holds>
BK_DEVICE int64_t count_elements(RadixHistogram& shared, int64_t length, const Holds& holds) {
    int64_t own = 0;
    for (int64_t i = threadIdx.x; i < length; i += kRowSelectThreads) own += holds(i);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) own += __shfl_xor_sync(0xffffffffu, own, distance);
    if (threadIdx.x % 32 == 0) shared.warp_total[threadIdx.x / 32] = own;
    __syncthreads();
    int64_t all = 0;
    for (int w = 0; w < kRowSelectThreads / 32; ++w) all += shared.warp_total[w];
    __syncthreads();
    return all;
}

// The index of the element of a rank.
template <class Bits>
BK_DEVICE int64_t find_rank(RadixHistogram& shared, const DeviceRow<Bits>& row, int64_t rank) {
    const auto key_at = [&](int64_t i) { return row.key(i); };
    const RankThreshold<Bits> threshold = block_threshold<kRowSelectThreads, Bits>(shared, key_at, row.length, rank + 1, false);
    // The last tie within the rank has the highest index.
    if (threadIdx.x == 0) shared.found = 0;
    __syncthreads();
    emit_within(row, threshold, [&](int64_t, int64_t i, Bits key) {
        if (key == threshold.key) atomicMax(&shared.found, static_cast<unsigned long long>(i));
    });
    const int64_t index = static_cast<int64_t>(shared.found);
    __syncthreads();
    return index;
}

template <class Bits>
__global__ void __launch_bounds__(kRowSelectThreads, 2) rank_rows_kernel(const __grid_constant__ RankTable<Bits> table) {
    __shared__ RadixHistogram shared;
    const int64_t problems = table.rows.rows * table.rule.queries;
    for (int64_t p = blockIdx.x; p < problems; p += gridDim.x) {
        const int64_t r = p / table.rule.queries, query = p % table.rule.queries;
        const DeviceRow<Bits> row(table.rows, r);
        const bool is_float = row.order.kind == KeyKind::kFloat;
        int64_t nans = 0;
        if (is_float && counts_nans(table.rule.kind))
            nans = count_elements(shared, row.length, [&](int64_t i) { return row.key(i) == KeyOrder<Bits>::kAll; });
        RankChoice choice = choose_ranks(table.rule, row.length, nans, table.rule.q == nullptr ? 0.0 : table.rule.q[query]);
        const bool is_pair = choice.upper != choice.lower;
        if (choice.lower >= 0) {
            const int64_t upper = choice.upper;
            choice.lower = find_rank(shared, row, choice.lower);
            choice.upper = is_pair ? find_rank(shared, row, upper) : choice.lower;
        }
        if (threadIdx.x == 0) table.set(row, query, choice);
    }
}

template <class Bits>
Status select_ranks(const Launch& launch, const RankRows<Bits>& rows, const Bits* x, const RankOutputs<Bits>& outputs) {
    TopKRows<Bits> given;
    static_cast<RowSelection&>(given) = rows;
    given.order = rows.order;
    const RankTable<Bits> table{RowTable<Bits>(given, x, nullptr, {}), rows.rule, outputs, rows.query_step};
    if (rows.length <= kWarpSortLength<Bits>) return rank_short_rows(launch, table);
    const int64_t problems = table.rows.rows * rows.rule.queries;
    const int64_t blocks = problems < kMaxGridX ? problems : kMaxGridX;
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kRowSelectThreads)}, rank_rows_kernel<Bits>,
                         table);
}

#define BK_RANKS(Bits) \
    template Status select_ranks<Bits>(const Launch&, const RankRows<Bits>&, const Bits*, const RankOutputs<Bits>&);

}  // namespace bk
