// SPDX-License-Identifier: Apache-2.0
// searchsorted on the CPU: each thread stages the splitters of its row on its stack, and searches a group of queries in
// lockstep, so that their cache misses overlap.
#pragma once

#include <algorithm>
#include <cstdint>

#include "search/searchsorted.h"

namespace bk {

constexpr int kSearchGroup = 16;

// Advances every query by one step of the binary search over staged keys.
template <bool kRight, class Bits>
BK_HD void search_group(const Bits* BK_RESTRICT staged, int32_t splitters, int32_t first_step, const Bits* BK_RESTRICT key,
                        int32_t* BK_RESTRICT found) {
    for (int i = 0; i < kSearchGroup; ++i) found[i] = 0;
    for (int32_t step = first_step; step > 0; step /= 2) {
        BK_VECTOR_LOOP
        for (int i = 0; i < kSearchGroup; ++i) {
            const int32_t next = found[i] + step, at = next <= splitters ? next : splitters;
            const Bits element = staged[at - 1];
            const bool after = (kRight ? element <= key[i] : element < key[i]) & (next <= splitters);
            found[i] = after ? next : found[i];
        }
    }
}

// Searches the columns [begin, end) of one row.
template <class Bits, class Sink>
BK_HD void search_columns(const SearchRows<Bits>& problem, const SortedKeys<Bits>& keys, const Bits* staged, const Sink& sink,
                          int64_t row, int64_t begin, int64_t end) {
    const int64_t first_query = row * problem.columns;
    const int32_t first_step = keys.first_step();
    Bits key[kSearchGroup];
    int32_t found[kSearchGroup];
    for (int64_t first = begin; first < end; first += kSearchGroup) {
        const int count = static_cast<int>(std::min<int64_t>(kSearchGroup, end - first));
        for (int i = 0; i < kSearchGroup; ++i)
            key[i] = i < count ? keys.order(problem.queries[first_query + first + i]) : Bits{0};
        if (keys.right)
            search_group<true>(staged, keys.splitters, first_step, key, found);
        else
            search_group<false>(staged, keys.splitters, first_step, key, found);
        for (int i = 0; i < count; ++i) sink(keys, first_query + first + i, key[i], keys.refine(key[i], found[i]));
    }
}

template <class Bits, class Sink>
Status search_rows(const Launch&, const SearchRows<Bits>& problem, const Sink& sink) {
    const int64_t queries = problem.rows * problem.columns;
    if (problem.keys.splitters == 0) {
        parallel_ranges(queries, 256, [&](int64_t begin, int64_t end) {
            for (int64_t query = begin; query < end; ++query) {
                const SortedKeys<Bits> keys = problem.keys_of(problem.has_rows ? query / problem.columns : 0);
                const Bits key = keys.order(problem.queries[query]);
                sink(keys, query, key, keys.search(key, 0, keys.length));
            }
        });
        return Status::kOk;
    }
    parallel_ranges(queries, 1024, [&](int64_t begin, int64_t end) {
        Bits staged[kMaxSplitters<Bits>];
        for (int64_t row = begin / problem.columns; row * problem.columns < end; ++row) {
            const SortedKeys<Bits> keys = problem.keys_of(row);
            for (int32_t i = 0; i < keys.splitters; ++i) staged[i] = keys.key(i * keys.stride);
            const int64_t first = row * problem.columns;
            search_columns(problem, keys, staged, sink, row, std::max(begin, first) - first,
                           std::min(end, first + problem.columns) - first);
        }
    });
    return Status::kOk;
}

}  // namespace bk
