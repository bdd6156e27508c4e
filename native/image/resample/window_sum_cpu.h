// SPDX-License-Identifier: Apache-2.0
// Interpolation on the CPU, row by row of results.
#pragma once

#include "image/resample/row_copies_cpu.h"
#include "image/resample/row_sums_cpu.h"
#include "image/resample/window_sum.h"

namespace bk::image {

template <class T>
Status window_sum(const Launch&, const SampleAxes& axes, bool is_adjoint, bool accumulates, const ImageLayout& x_layout,
                  const T* x, const ImageLayout& y_layout, T* y) {
    RowSums<T, T, compute_t<T>> rows{{}, x, y, x_layout, y_layout, accumulates};
    for (int d = 0; d < 3; ++d) rows.axis[d] = {axes.of + d, nullptr, is_adjoint};
    return rows.run();
}

template <class T>
Status nearest(const Launch&, const SampleAxes& axes, const ImageLayout& x_layout, const T* x, const ImageLayout& y_layout,
               T* y) {
    return RowCopies<bits_t<T>>{reinterpret_cast<const bits_t<T>*>(x), reinterpret_cast<bits_t<T>*>(y), x_layout, y_layout,
                                axes.of}
        .run();
}

}  // namespace bk::image
