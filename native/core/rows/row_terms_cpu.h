// Runs of rows, whose terms lie on the stack. Threads share segments of runs, whose number depends on that of the rows alone,
// or the rows of each run where these are enough for more threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/math/wide_range.h"
#include "core/rows/row_terms.h"

namespace bk {

constexpr int kTermsOfRun = 512;
constexpr int kMostRunSegments = 128;

template <class C>
size_t row_terms_workspace(int64_t) {
    return 0;
}

// In pairs.
template <class C>
C sum_run(C* terms, int count) {
    for (; count > 1; count = (count + 1) / 2)
        for (int i = 0; i < count / 2; ++i) terms[i] += terms[count - 1 - i];
    return count == 0 ? C(0) : terms[0];
}

// Where the sum is out of range.
template <class C>
BK_COLD C sum_scaled(C* terms, int count) {
    for (int i = 0; i < count; ++i) terms[i] *= kScale<C>;
    return sum_run(terms, count);
}

template <class F, class T, class... In, class... RowIn>
Status sum_row_terms(const Launch& launch, const TermRows<sizeof...(In)>& given, const F& f, const Inputs<In...>& x,
                     const Inputs<RowIn...>& row_inputs, compute_t<T> factor, T* out) {
    using C = compute_t<T>;
    C part[kMostRunSegments], scaled[kMostRunSegments];
    const int64_t length = ceil_div<int64_t>(ceil_div<int64_t>(given.rows, kMostRunSegments), kTermsOfRun) * kTermsOfRun;
    const int64_t segments = ceil_div(given.rows, length);
    const auto sum_segments = [&](int64_t begin, int64_t end) {
        constexpr std::index_sequence_for<In...> ins{};
        constexpr std::index_sequence_for<RowIn...> row_ins{};
        C terms[kTermsOfRun];
        for (int64_t s = begin; s < end; ++s) {
            part[s] = scaled[s] = 0;
            const int64_t last = std::min((s + 1) * length, given.rows);
            for (int64_t first = s * length, done = 0; first < last; first = done) {
                const TermRows<sizeof...(In)> run = given.run(first, std::min<int64_t>(kTermsOfRun, last - first));
                done = first + run.rows;
                const auto make_terms = [&] {  // nothing can fail on the CPU
                    static_cast<void>(row_terms<F, T>(launch, run, f, from_row(x, given, first, ins),
                                                      rows_from(row_inputs, first * given.row_step, row_ins), nullptr, terms));
                };
                make_terms();
                const C sum = sum_run(terms, static_cast<int>(run.rows));
                part[s] += sum;
                if (!is_finite(sum)) make_terms();
                scaled[s] += is_finite(sum) ? sum * kScale<C> : sum_scaled(terms, static_cast<int>(run.rows));
            }
        }
    };
    const int64_t grain = grain_for((int64_t{0} + ... + static_cast<int64_t>(sizeof(In))) * given.columns);
    if (std::min(kTermsOfRun / grain, thread_count()) < segments / ceil_div(grain, length))
        split_ranges(segments, ceil_div(grain, length), sum_segments);
    else
        sum_segments(0, segments);
    const C sum = sum_run(part, static_cast<int>(segments));
    *out = narrow<T>(is_finite(sum) ? sum * factor : sum_run(scaled, static_cast<int>(segments)) * factor * (C(1) / kScale<C>));
    return Status::kOk;
}

}  // namespace bk
