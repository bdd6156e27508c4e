// SPDX-License-Identifier: Apache-2.0
// CPU: values of kSliceRows rows at a time are stored on the stack. Threads split either the segments of rows, whose
// number depends on the row count alone, or the rows of each slice if that occupies more threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/math/wide_range.h"
#include "core/row/row_values.h"

namespace bk {

constexpr int kSliceRows = 512;
constexpr int kMaxSliceSegments = 128;

template <class C>
size_t row_values_workspace(int64_t) {
    return 0;
}

// Pairwise sum in place.
template <class C>
C pairwise_sum(C* values, int count) {
    for (; count > 1; count = (count + 1) / 2)
        for (int i = 0; i < count / 2; ++i) values[i] += values[count - 1 - i];
    return count == 0 ? C(0) : values[0];
}

// Sum of scaled values, for sums that overflow.
template <class C>
BK_COLD C scaled_pairwise_sum(C* values, int count) {
    for (int i = 0; i < count; ++i) values[i] *= kScale<C>;
    return pairwise_sum(values, count);
}

template <class F, class T, class... In, class... RowIn>
Status sum_row_values(const Launch& launch, const StridedRows<sizeof...(In)>& given, const F& f, const Inputs<In...>& x,
                      const Inputs<RowIn...>& row_inputs, compute_t<T> factor, T* out) {
    using C = compute_t<T>;
    C partials[kMaxSliceSegments], scaled_partials[kMaxSliceSegments];
    const int64_t length = ceil_div<int64_t>(ceil_div<int64_t>(given.rows, kMaxSliceSegments), kSliceRows) * kSliceRows;
    const int64_t segments = ceil_div(given.rows, length);
    const auto sum_segments = [&](int64_t begin, int64_t end) {
        constexpr std::index_sequence_for<In...> ins{};
        constexpr std::index_sequence_for<RowIn...> row_ins{};
        C values[kSliceRows];
        for (int64_t s = begin; s < end; ++s) {
            partials[s] = scaled_partials[s] = 0;
            const int64_t last = std::min((s + 1) * length, given.rows);
            for (int64_t first = s * length, done = 0; first < last; first = done) {
                const StridedRows<sizeof...(In)> slice = given.slice(first, std::min<int64_t>(kSliceRows, last - first));
                done = first + slice.rows;
                const auto compute_values = [&] {  // nothing can fail on the CPU
                    static_cast<void>(row_values<F, T>(launch, slice, f, from_row(x, given, first, ins),
                                                       rows_from(row_inputs, first * given.row_step, row_ins), nullptr,
                                                       values));
                };
                compute_values();
                const C sum = pairwise_sum(values, static_cast<int>(slice.rows));
                partials[s] += sum;
                if (!is_finite(sum)) compute_values();
                scaled_partials[s] +=
                    is_finite(sum) ? sum * kScale<C> : scaled_pairwise_sum(values, static_cast<int>(slice.rows));
            }
        }
    };
    const int64_t grain = grain_for((int64_t{0} + ... + static_cast<int64_t>(sizeof(In))) * given.columns);
    if (std::min(kSliceRows / grain, thread_count()) < segments / ceil_div(grain, length))
        split_ranges(segments, ceil_div(grain, length), sum_segments);
    else
        sum_segments(0, segments);
    const C sum = pairwise_sum(partials, static_cast<int>(segments));
    *out = narrow<T>(is_finite(sum) ? sum * factor
                                    : pairwise_sum(scaled_partials, static_cast<int>(segments)) * factor * (C(1) / kScale<C>));
    return Status::kOk;
}

}  // namespace bk
