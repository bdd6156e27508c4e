// SPDX-License-Identifier: Apache-2.0
// Runs of equal adjacent elements, or of equal adjacent rows of elements: the value, start and length of each, in their order,
// and the run of each element. Of a sorted array they are its unique elements.
//
// Elements are equal if their ordered keys are (core/sort/ordered_key.h): -0 equals 0, and every NaN equals every other, or
// with `nan_differs` none.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/select/select_indices.h"
#include "core/sort/ordered_key.h"

namespace bk {

template <class Bits>
struct RunHeads {
    static constexpr int kLanes = kVectorLanes<Bits>;
    const Bits* x;
    int64_t width;  // elements of a row
    KeyOrder<Bits> order;
    bool nan_differs, is_aligned_for_vectors;

    BK_HD bool differ(Bits a, Bits b) const { return a != b || (nan_differs && a == KeyOrder<Bits>::kAll); }
    BK_HD bool at(int64_t index) const {
        if (index == 0) return true;
        const Bits* const row = x + index * width;
        if (width == 1) return differ(order(row[0]), order(row[-1]));
        for (int64_t c = 0; c < width; ++c)
            if (differ(order(row[c]), order(row[c - width]))) return true;
        return false;
    }
#if BK_CUDA
    // Lanes one by one; not inlined into each of a tile's vectors.
    BK_DEVICE_COLD uint32_t test_each(int64_t index, int valid) const {
        uint32_t bits = 0;
        for (int k = 0; k < valid; ++k) bits |= static_cast<uint32_t>(at(index + k)) << k;
        return bits;
    }
    BK_DEVICE uint32_t operator()(int64_t index, int valid) const {
        if (width > 1 || valid < kLanes || !is_aligned_for_vectors) return test_each(index, valid);
        uint32_t bits = 0;
        const Vec<Bits, kLanes> loaded = load<kLanes>(x + index);
        Bits previous = index > 0 ? order(x[index - 1]) : Bits{0};
        for (int k = 0; k < kLanes; ++k) {
            const Bits key = order(loaded.lane[k]);
            bits |= static_cast<uint32_t>(differ(key, previous)) << k;
            previous = key;
        }
        return index == 0 ? bits | 1 : bits;
    }
#endif
};

// Outputs of runs; any array but values and counter may be null. Runs from `limit` on are in inverse only.
template <class Bits, class I>
struct RunOutputs {
    const Bits* x;
    int64_t n, width, limit;
    const I* order;  // element i is the one at order[i] of the array that inverse and first are about; null: at i
    Bits* values;
    I* first;
    I* inverse;
    I* counts;
    I* counter;

    BK_HD I source(int64_t index) const { return order == nullptr ? static_cast<I>(index) : order[index]; }
    BK_HD void put_head(int64_t run, int64_t index) const {
        if (run >= limit) return;
        for (int64_t c = 0; c < width; ++c) values[run * width + c] = x[index * width + c];
        if (first != nullptr) first[run] = source(index);
    }
    BK_HD bool takes_ranks() const { return inverse != nullptr; }
    BK_HD void ranked(int64_t index, int64_t heads_through) const {
        const auto at = static_cast<int64_t>(source(index));
        if (at >= 0 && at < n) inverse[at] = static_cast<I>(heads_through - 1);
    }
};

// Writes all outputs; slots of counts behind the last run become 0.
template <class Bits, class I>
Status find_runs(const Launch& launch, const RunHeads<Bits>& heads, const RunOutputs<Bits, I>& outputs);

// find_runs for each of `batch` arrays of n elements, whose outputs follow each other by `limit`, and by 1.
template <class Bits, class I>
Status find_runs_of_rows(const Launch& launch, int64_t batch, const RunHeads<Bits>& heads, const RunOutputs<Bits, I>& outputs);

template <class T>
RunHeads<bits_t<T>> run_heads(const T* x, int64_t width, bool nan_differs) {
    const KeyOrder<bits_t<T>> order = key_order<T>(false);
    return {reinterpret_cast<const bits_t<T>*>(x), width, order, nan_differs && order.kind == KeyKind::kFloat,
            is_aligned(x, kVectorBytes)};
}

template <class T, class I>
struct UniqueRuns {
    int64_t n;
    int64_t width;
    int64_t max_unique;
    int32_t equal_nan;

    Work work() const { return n == 0 ? Work::kZeros : Work::kAll; }
    Status check() const {
        BK_TRY(require_non_negative({{"n", n}, {"width", width}, {"max_unique", max_unique}}));
        if (sizeof(I) == 4 && n > INT32_MAX)
            return fail(Status::kInvalidProblem, "n is %lld, must be < 2^31 for i32 positions", static_cast<long long>(n));
        return Status::kOk;
    }
    size_t workspace_size() const { return select_workspace(n); }
    Status run(const T* x, const I* order, T* values, I* first, I* inverse, I* counts, I* counter, const Launch& launch) const {
        if (n == 0) {
            if (counts != nullptr) BK_TRY(fill_bytes(launch, counts, 0, sizeof(I) * static_cast<size_t>(max_unique)));
            return fill_bytes(launch, counter, 0, sizeof(I));
        }
        using Bits = bits_t<T>;
        const RunHeads<Bits> heads = run_heads(x, width, equal_nan == 0);
        return find_runs(launch, heads,
                         RunOutputs<Bits, I>{heads.x, n, width, max_unique, order, reinterpret_cast<Bits*>(values), first,
                                             inverse, counts, counter});
    }
};

template <class T>
struct UniqueConsecutive {
    int32_t batch;
    int32_t row_len;
    int32_t max_unique;

    Work work() const { return batch == 0 ? Work::kNone : row_len == 0 ? Work::kZeros : Work::kAll; }
    Status check() const { return require_non_negative({{"batch", batch}, {"row_len", row_len}, {"max_unique", max_unique}}); }
    size_t workspace_size() const { return select_workspace(row_len); }
    Status run(const T* x, T* y_vals, int32_t* y_counts, int32_t* counter, const Launch& launch) const {
        if (row_len == 0) {
            const auto slots = static_cast<size_t>(batch) * static_cast<size_t>(max_unique);
            if (y_counts != nullptr) BK_TRY(fill_bytes(launch, y_counts, 0, sizeof(int32_t) * slots));
            return fill_bytes(launch, counter, 0, sizeof(int32_t) * static_cast<size_t>(batch));
        }
        using Bits = bits_t<T>;
        const RunHeads<Bits> heads = run_heads(x, 1, true);
        return find_runs_of_rows(
            launch, batch, heads,
            RunOutputs<Bits, int32_t>{heads.x, row_len, 1, max_unique, nullptr, reinterpret_cast<Bits*>(y_vals), nullptr,
                                      nullptr, y_counts, counter});
    }
};

// The heads and outputs of row r of a batch.
template <class Bits>
BK_HD RunHeads<Bits> heads_of_row(RunHeads<Bits> heads, int64_t row, int64_t n) {
    heads.x += row * n;
    heads.is_aligned_for_vectors = heads.is_aligned_for_vectors && row * n % heads.kLanes == 0;
    return heads;
}

template <class Bits, class I>
BK_HD RunOutputs<Bits, I> outputs_of_row(RunOutputs<Bits, I> outputs, int64_t row) {
    outputs.x += row * outputs.n;
    outputs.values += row * outputs.limit;
    if (outputs.counts != nullptr) outputs.counts += row * outputs.limit;
    outputs.counter += row;
    return outputs;
}

}  // namespace bk
