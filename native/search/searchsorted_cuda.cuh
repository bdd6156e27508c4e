// SPDX-License-Identifier: Apache-2.0
// searchsorted on a GPU: a block stages the splitters of its row in shared memory, and each thread searches several queries in
// lockstep, whose loads overlap.
#pragma once

#include <algorithm>
#include <cstdint>

#include "search/searchsorted.h"

namespace bk {

constexpr int kSearchThreads = 256, kSearchItems = 4, kSearchTile = kSearchThreads * kSearchItems;
constexpr int64_t kSearchBlocks = 132 * 8;

// Stages the keys of the splitters; all threads of the block call it.
template <class Bits>
BK_DEVICE void stage_splitters(const SortedKeys<Bits>& keys, Bits* staged, int threads) {
    for (int i = static_cast<int>(threadIdx.x); i < keys.splitters; i += threads) staged[i] = keys.key(i * keys.stride);
    __syncthreads();
}

// blocks_per_row blocks share a row.
template <class Bits, class Sink>
__global__ void __launch_bounds__(kSearchThreads)
    search_kernel(const __grid_constant__ SearchRows<Bits> problem, const __grid_constant__ Sink sink, int64_t blocks_per_row) {
    __shared__ Bits staged[kMaxSplitters<Bits>];
    const int64_t row = int64_t{blockIdx.x} / blocks_per_row, block = int64_t{blockIdx.x} % blocks_per_row;
    const SortedKeys<Bits> keys = problem.keys_of(row);
    stage_splitters(keys, staged, kSearchThreads);
    const int32_t first_step = keys.first_step();
    const int64_t last_step = largest_step(keys.stride - 1);
    const int64_t first_query = row * problem.columns;
    for (int64_t first = block * kSearchTile; first < problem.columns; first += blocks_per_row * kSearchTile) {
        Bits key[kSearchItems];
        int32_t found[kSearchItems];
#pragma unroll
        for (int i = 0; i < kSearchItems; ++i) {
            const int64_t column = first + i * kSearchThreads + threadIdx.x;
            key[i] = column < problem.columns ? keys.order(problem.queries[first_query + column]) : Bits{0};
            found[i] = 0;
        }
        for (int32_t step = first_step; step > 0; step /= 2) {
#pragma unroll
            for (int i = 0; i < kSearchItems; ++i) {
                const int32_t next = found[i] + step;
                if (next <= keys.splitters && keys.counts(staged[next - 1], key[i])) found[i] = next;
            }
        }
        int64_t low[kSearchItems], end[kSearchItems];
#pragma unroll
        for (int i = 0; i < kSearchItems; ++i) {
            low[i] = keys.range_begin(found[i]);
            end[i] = keys.range_end(found[i]);
        }
        for (int64_t step = last_step; step > 0; step /= 2) {
#pragma unroll
            for (int i = 0; i < kSearchItems; ++i)
                if (low[i] + step <= end[i] && keys.counts(keys.key(low[i] + step - 1), key[i])) low[i] += step;
        }
#pragma unroll
        for (int i = 0; i < kSearchItems; ++i) {
            const int64_t column = first + i * kSearchThreads + threadIdx.x;
            if (column < problem.columns) sink(keys, first_query + column, key[i], low[i]);
        }
    }
}

// A thread searches one query in memory.
template <class Bits, class Sink>
__global__ void __launch_bounds__(kSearchThreads)
    search_direct_kernel(const __grid_constant__ SearchRows<Bits> problem, const __grid_constant__ Sink sink) {
    const int64_t query = int64_t{blockIdx.x} * kSearchThreads + threadIdx.x;
    if (query >= problem.rows * problem.columns) return;
    const SortedKeys<Bits> keys = problem.keys_of(problem.has_rows ? query / problem.columns : 0);
    const Bits key = keys.order(problem.queries[query]);
    sink(keys, query, key, keys.search(key, 0, keys.length));
}

template <class Bits, class Sink>
Status search_rows(const Launch& launch, const SearchRows<Bits>& problem, const Sink& sink) {
    const int64_t tiles = ceil_div<int64_t>(problem.columns, kSearchTile);
    const int64_t blocks_per_row = std::min(tiles, std::max<int64_t>(1, kSearchBlocks / problem.rows));
    if (problem.keys.splitters > 0 && problem.rows <= kMaxGridX / blocks_per_row)
        return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(problem.rows * blocks_per_row)), dim3(kSearchThreads)},
                             search_kernel<Bits, Sink>, problem, sink, blocks_per_row);
    const int64_t blocks = ceil_div<int64_t>(problem.rows * problem.columns, kSearchThreads);
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "more than 2^39 queries of few rows");
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kSearchThreads)},
                         search_direct_kernel<Bits, Sink>, problem, sink);
}

}  // namespace bk
