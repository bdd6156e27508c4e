// SPDX-License-Identifier: Apache-2.0
// A pass of separable interpolation on the CPU, row by row of results.
#pragma once

#include <type_traits>

#include "image/resample/filter_pass.h"
#include "image/resample/row_sums_cpu.h"

namespace bk::image {

template <class From, class To, class T>
Status run_rows(const Pass<T>& pass) {
    RowSums<From, To, weight_t<T>> rows{{},   static_cast<const From*>(pass.x), static_cast<To*>(pass.y), pass.from, pass.to,
                                        false};
    rows.axis[pass.axis - 2] = {nullptr, &pass.table, pass.is_adjoint};
    return rows.run();
}

template <class T>
Status run_pass(const Launch&, const Pass<T>& pass) {
    using Between = between_t<T>;
    if constexpr (!std::is_same_v<T, Between>) {
        if (pass.from_between) return pass.to_between ? run_rows<Between, Between>(pass) : run_rows<Between, T>(pass);
        if (pass.to_between) return run_rows<T, Between>(pass);
    }
    return run_rows<T, T>(pass);
}

}  // namespace bk::image
