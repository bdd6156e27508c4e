// Runs of rows, whose terms lie on the stack.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/rows/row_terms.h"

namespace bk {

constexpr int kTermsOfRun = 512;

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

template <class F, class T, class... In, class... RowIn>
Status sum_row_terms(const Launch& launch, const TermRows<sizeof...(In)>& given, const F& f, const Inputs<In...>& x,
                     const Inputs<RowIn...>& row_inputs, compute_t<T> factor, T* out) {
    using C = compute_t<T>;
    C terms[kTermsOfRun], all = 0;
    for (int64_t first = 0, done = 0; first < given.rows; first = done) {
        const TermRows<sizeof...(In)> run = given.run(first, kTermsOfRun);
        done = first + run.rows;
        BK_TRY((row_terms<F, T>(launch, run, f, from_row(x, given, first, std::index_sequence_for<In...>{}),
                                rows_from(row_inputs, first * given.row_step, std::index_sequence_for<RowIn...>{}), nullptr,
                                terms)));
        all += sum_run(terms, static_cast<int>(run.rows));
    }
    *out = narrow<T>(all * factor);
    return Status::kOk;
}

}  // namespace bk
