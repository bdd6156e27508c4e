// SPDX-License-Identifier: Apache-2.0
// searchsorted: the position of each query in a sorted sequence; and whether the sequence has it.
//
// Elements are compared by ordered keys (core/sort/ordered_key.h): NaN follows all numbers, and -0 equals 0.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "search/sorted_keys.h"

namespace bk {

// Row r of `queries` is searched in the sequence that starts at row r of `keys`, or in the only one.
template <class Bits>
struct SearchRows {
    SortedKeys<Bits> keys;
    const Bits* queries;
    int64_t rows, columns;
    bool has_rows;  // a sequence for each row

    BK_HD SortedKeys<Bits> keys_of(int64_t row) const {
        SortedKeys<Bits> own = keys;
        if (!has_rows) return own;
        own.sequence += row * keys.length;
        if (keys.sorter != nullptr)
            own.sorter = static_cast<const char*>(keys.sorter) + row * keys.length * (keys.wide_sorter ? 8 : 4);
        return own;
    }
};

template <class I>
struct PositionSink {
    I* output;
    template <class Bits>
    BK_HD void operator()(const SortedKeys<Bits>&, int64_t query, Bits, int64_t position) const {
        output[query] = static_cast<I>(position);
    }
};

// NaN equals nothing.
struct MembershipSink {
    boolean* output;
    bool invert;
    template <class Bits>
    BK_HD void operator()(const SortedKeys<Bits>& keys, int64_t query, Bits key, int64_t position) const {
        const bool is_nan = keys.order.kind == KeyKind::kFloat && key == KeyOrder<Bits>::kAll;
        const bool has = !is_nan && position < keys.length && keys.key(position) == key;
        output[query] = boolean{static_cast<uint8_t>(has != invert)};
    }
};

// sink(keys, query, key of the query, position) for each query.
template <class Bits, class Sink>
Status search_rows(const Launch& launch, const SearchRows<Bits>& problem, const Sink& sink);

// Staging splitters pays for this many queries a sequence.
inline bool pays_to_stage(int64_t queries, int64_t length) { return queries >= 256 && queries >= length / 16; }

template <class T, class I>
struct Searchsorted {
    int64_t num_queries;
    int32_t len_sorted;
    int32_t right;

    Work work() const { return all_or_none(num_queries); }
    Status check() const { return require_non_negative({{"num_queries", num_queries}, {"len_sorted", len_sorted}}); }
    Status run(const T* sorted_seq, const T* values, I* output, const Launch& launch) const {
        using Bits = bits_t<T>;
        const bool is_staged = pays_to_stage(num_queries, len_sorted);
        const SearchRows<Bits> problem{sorted_keys(sorted_seq, len_sorted, right != 0, is_staged),
                                       reinterpret_cast<const Bits*>(values), 1, num_queries, false};
        return search_rows(launch, problem, PositionSink<I>{output});
    }
};

template <class T, class I>
struct SearchsortedRows {
    int64_t rows;
    int64_t queries;
    int64_t sequences;
    int64_t len_sorted;
    int32_t right;

    Work work() const { return rows == 0 || queries == 0 ? Work::kNone : Work::kAll; }
    Status check() const {
        BK_TRY(
            require_non_negative({{"rows", rows}, {"queries", queries}, {"sequences", sequences}, {"len_sorted", len_sorted}}));
        if (sequences != 1 && sequences != rows)
            return fail(Status::kInvalidProblem, "sequences is %lld, must be 1 or rows, %lld",
                        static_cast<long long>(sequences), static_cast<long long>(rows));
        if (sizeof(I) == 4 && len_sorted > INT32_MAX)
            return fail(Status::kInvalidProblem, "len_sorted is %lld, must be < 2^31 for i32 positions",
                        static_cast<long long>(len_sorted));
        return Status::kOk;
    }
    Status run(const T* sorted_seq, const I* sorter, const T* values, I* output, const Launch& launch) const {
        using Bits = bits_t<T>;
        const bool has_rows = sequences != 1, is_staged = pays_to_stage(has_rows ? queries : rows * queries, len_sorted);
        const SearchRows<Bits> problem{sorted_keys(sorted_seq, len_sorted, right != 0, is_staged, sorter, sizeof(I) == 8),
                                       reinterpret_cast<const Bits*>(values), has_rows ? rows : 1,
                                       has_rows ? queries : rows * queries, has_rows};
        return search_rows(launch, problem, PositionSink<I>{output});
    }
};

template <class T>
struct IsinSorted {
    int64_t numel;
    int64_t len_sorted;
    int32_t invert;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}, {"len_sorted", len_sorted}}); }
    Status run(const T* values, const T* sorted_seq, boolean* output, const Launch& launch) const {
        using Bits = bits_t<T>;
        const SearchRows<Bits> problem{sorted_keys(sorted_seq, len_sorted, false, pays_to_stage(numel, len_sorted)),
                                       reinterpret_cast<const Bits*>(values), 1, numel, false};
        return search_rows(launch, problem, MembershipSink{output, invert != 0});
    }
};

}  // namespace bk
