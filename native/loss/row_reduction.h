// SPDX-License-Identifier: Apache-2.0
// The common part of losses with one value per row: forward with its reduction, backward, and the op members (check,
// work, results, workspace_size) that follow from an op's fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/row/row_map.h"
#include "core/row/row_values.h"
#include "loss/reduction.h"

namespace bk {

template <class T, class F, class... In, class... RowIn>
Status row_loss(const Launch& launch, int32_t reduction_mode, const StridedRows<sizeof...(In)>& given, const F& f,
                const Inputs<In...>& x, const Inputs<RowIn...>& row_inputs, T* out) {
    using C = compute_t<T>;
    const StridedRows<sizeof...(In)> rows = given.placed();
    if (rows.rows == 0) return write_empty_loss(launch, reduction_mode, out);
    if (reduction_mode == kReductionNone) return row_values(launch, rows, f, x, row_inputs, out, static_cast<C*>(nullptr));
    const C scale = reduction_scale<C>(rows.rows, reduction_mode);
    if (sizeof...(RowIn) > 0 || rows.columns > 0) return sum_row_values(launch, rows, f, x, row_inputs, scale, out);
    StridedRows<sizeof...(In)> one = rows;  // empty rows all have the same loss: one row, scaled
    one.rows = one.rows_per_item = 1;
    return sum_row_values(launch, one, f, x, row_inputs, scale * static_cast<C>(rows.rows), out);
}

template <class T>
size_t row_loss_workspace(int64_t rows, int32_t reduction_mode) {
    return reduction_mode == kReductionNone ? 0 : row_values_workspace<compute_t<T>>(rows);
}

// out = gradients of F, with the strides of the first input. `columns` have one value per column, row_inputs one per
// row, of which the last is dy; `saved` gets what F saves of each row.
template <class F, class... In, class... Column, class... RowIn, class... Out, class... Saved, size_t... I, size_t... R,
          size_t... O, size_t... S>
Status row_gradients(const Launch& launch, int32_t reduction_mode, const StridedRows<sizeof...(In)>& given, const F& f,
                     const Inputs<In...>& x, const Inputs<Column...>& columns, const Inputs<RowIn...>& row_inputs,
                     const Outputs<Out...>& out, const Outputs<Saved...>& saved, std::index_sequence<I...>,
                     std::index_sequence<R...>, std::index_sequence<O...>, std::index_sequence<S...>) {
    constexpr size_t kLast = sizeof...(R) - 1;
    const StridedRows<sizeof...(In)> rows = given.placed();
    RowAxes<sizeof...(In) + sizeof...(Out), sizeof...(RowIn) + sizeof...(Saved)> axes;
    const int64_t dy_stride = reduction_mode == kReductionNone ? 1 : 0, inner = rows.rows_per_item, step = rows.column_step;
    axes.outer.append(rows.rows / inner,
                      {rows.stride[I]..., (static_cast<void>(O), rows.stride[0])...,
                       (R == kLast ? dy_stride * inner : rows.row_step * inner)..., (static_cast<void>(S), inner)...});
    if (inner > 1)
        axes.outer.append(inner, {(static_cast<void>(I), 1)..., (static_cast<void>(O), 1)...,
                                  (R == kLast ? dy_stride : rows.row_step)..., (static_cast<void>(S), 1)...});
    axes.inner.append(rows.columns, {(static_cast<void>(I), step)..., (static_cast<void>(O), step)...});
    return map_rows(launch, axes, f, x, columns, row_inputs, out, saved);
}
template <class F, class... In, class... Column, class... RowIn, class... Out, class... Saved>
Status row_gradients(const Launch& launch, int32_t reduction_mode, const StridedRows<sizeof...(In)>& rows, const F& f,
                     const Inputs<In...>& x, const Inputs<Column...>& columns, const Inputs<RowIn...>& row_inputs,
                     const Outputs<Out...>& out, const Outputs<Saved...>& saved) {
    return row_gradients(launch, reduction_mode, rows, f, x, columns, row_inputs, out, saved, std::index_sequence_for<In...>{},
                         std::index_sequence_for<RowIn...>{}, std::index_sequence_for<Out...>{},
                         std::index_sequence_for<Saved...>{});
}
template <class F, class... In, class... RowIn, class... Out>
Status row_gradients(const Launch& launch, int32_t reduction_mode, const StridedRows<sizeof...(In)>& rows, const F& f,
                     const Inputs<In...>& x, const Inputs<RowIn...>& row_inputs, const Outputs<Out...>& out) {
    return row_gradients(launch, reduction_mode, rows, f, x, inputs(), row_inputs, out, outputs());
}

// Members of ops with the fields n_rows, `extent` and reduction_mode; __VA_ARGS__ are further extents to check.
#define BK_ROW_LOSS(extent, ...)                                                                                      \
    Status check() const { return check_loss({{"n_rows", n_rows}, {#extent, extent}, __VA_ARGS__}, reduction_mode); } \
    Work work() const { return work_of_loss(n_rows, reduction_mode); }                                                \
    int64_t results() const { return loss_numel(n_rows, reduction_mode); }                                            \
    size_t workspace_size() const { return row_loss_workspace<T>(n_rows, reduction_mode); }
#define BK_ROW_LOSS_CHECKS(extent, ...)                                                                               \
    Status check() const { return check_loss({{"n_rows", n_rows}, {#extent, extent}, __VA_ARGS__}, reduction_mode); } \
    Work work() const { return n_rows == 0 || extent == 0 ? Work::kNone : Work::kAll; }                               \
    int64_t results() const { return loss_numel(n_rows, reduction_mode); }
// BK_ROW_LOSS_BACKWARD is for ops with a field scale_scalar, BK_ROW_LOSS_GRADIENT for ops without.
#define BK_ROW_LOSS_BACKWARD(extent, ...)   \
    BK_ROW_LOSS_CHECKS(extent, __VA_ARGS__) \
    compute_t<T> grad_scale() const { return backward_scale<compute_t<T>>(n_rows, reduction_mode, scale_scalar); }
#define BK_ROW_LOSS_GRADIENT(extent, ...)   \
    BK_ROW_LOSS_CHECKS(extent, __VA_ARGS__) \
    compute_t<T> grad_scale() const { return reduction_scale<compute_t<T>>(n_rows, reduction_mode); }

// Class indices as low and high 32-bit words: one kernel reads both i64 and i32, whose second word is ignored.
template <class I>
constexpr int64_t kWordsPerIndex = sizeof(I) / sizeof(int32_t);
template <class I, class... Other>
Inputs<int32_t, int32_t, Other...> words_of(const I* target, const Other*... other) {
    const int32_t* const words = reinterpret_cast<const int32_t*>(target);
    return inputs(words, words + kWordsPerIndex<I> - 1, other...);
}

}  // namespace bk
