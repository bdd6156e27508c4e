// SPDX-License-Identifier: Apache-2.0
// One value per row (such as a loss), or the sum or mean of these. A row function (core/row/row_map.h) saves the value
// twice, in the storage type and in the compute type.
//
// Sums take unrounded values in an order that depends on the shape alone; on a GPU without a workspace also on whether
// it has clusters. CUDA: values go through the workspace, a slice of rows per launch if it is too small for all.
// Without a workspace a single launch of one cluster, or of one block before sm_90, processes all rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "core/row/row_map.h"

namespace bk {

// Rows of `columns` elements, grouped into items of `rows_per_item` adjacent rows (row stride 1). stride[k]: distance of
// items of input k; column_step: distance of elements in a row; row_step: distance of rows in row inputs.
template <int In>
struct StridedRows {
    int64_t rows, columns;
    int64_t stride[In];
    int64_t row_step = 1, rows_per_item = 1, column_step = 1;

    // Slice of at most `most` rows from row `first` on: whole items, or rows of one item.
    StridedRows slice(int64_t first, int64_t most) const {
        StridedRows result = *this;
        const int64_t within = first % rows_per_item;
        const bool is_whole = within == 0 && most >= rows_per_item;
        result.rows =
            is_whole ? std::min(most / rows_per_item * rows_per_item, rows - first) : std::min(most, rows_per_item - within);
        if (!is_whole) result.rows_per_item = result.rows;
        return result;
    }
    // Zeroes the strides of empty rows, which may be so large that addresses would overflow.
    StridedRows placed() const {
        StridedRows all = *this;
        if (columns == 0) std::fill_n(all.stride, In, int64_t{0});
        return all;
    }
    // Offset of row r in input k.
    BK_HD int64_t offset(int k, int64_t r) const {
        if (rows_per_item == 1) return r * stride[k];
        return r / rows_per_item * stride[k] + r % rows_per_item;
    }
};

// Workspace bytes of sum_row_values().
template <class C>
size_t row_values_workspace(int64_t rows);

template <size_t... I, size_t... R>
RowAxes<sizeof...(I), sizeof...(R) + 2> axes_of(const StridedRows<sizeof...(I)>& given, std::index_sequence<I...>,
                                                std::index_sequence<R...>) {
    RowAxes<sizeof...(I), sizeof...(R) + 2> axes;
    const int64_t item_rows = given.rows_per_item, item_step = given.row_step * item_rows;
    const int64_t item_stride[] = {given.stride[I]..., (static_cast<void>(R), item_step)..., item_rows, item_rows};
    const int64_t row_stride[] = {(static_cast<void>(I), int64_t{1})..., (static_cast<void>(R), given.row_step)..., 1, 1};
    const int64_t column_stride[] = {(static_cast<void>(I), given.column_step)...};
    axes.outer.append(given.rows / item_rows, item_stride);
    if (item_rows > 1) axes.outer.append(item_rows, row_stride);
    axes.inner.append(given.columns, column_stride);
    return axes;
}

// Stores the value of each row in `each`, rounded to T, or unrounded in `wide`: one of the two is null.
template <class F, class T, class... In, class... RowIn>
Status row_values(const Launch& launch, const StridedRows<sizeof...(In)>& given, const F& f, const Inputs<In...>& x,
                  const Inputs<RowIn...>& row_inputs, T* each, compute_t<T>* wide) {
    const auto axes = axes_of(given, std::index_sequence_for<In...>{}, std::make_index_sequence<sizeof...(RowIn)>{});
    return map_rows(launch, axes, f, x, inputs(), row_inputs, outputs(), outputs(each, wide));
}

// out = factor * sum of the values of all rows.
template <class F, class T, class... In, class... RowIn>
Status sum_row_values(const Launch& launch, const StridedRows<sizeof...(In)>& given, const F& f, const Inputs<In...>& x,
                      const Inputs<RowIn...>& row_inputs, compute_t<T> factor, T* out);

// The operands from row `first` on.
template <class... In, size_t... I>
Inputs<In...> from_row(const Inputs<In...>& x, const StridedRows<sizeof...(In)>& rows, int64_t first,
                       std::index_sequence<I...>) {
    return inputs((get<I>(x.pointer) + rows.offset(I, first))...);
}
template <class... RowIn, size_t... R>
Inputs<RowIn...> rows_from([[maybe_unused]] const Inputs<RowIn...>& x, [[maybe_unused]] int64_t first,
                           std::index_sequence<R...>) {
    return inputs((get<R>(x.pointer) + first)...);
}

}  // namespace bk

#if BK_CUDA
#include "core/row/row_values_cuda.cuh"
#else
#include "core/row/row_values_cpu.h"
#endif
