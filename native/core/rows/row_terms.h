// A term of each row, or their mean or sum: what a row function (core/rows/row_map.h) saves, twice, as one value of the
// storage type and one of the compute type.
//
// A sum takes its terms unrounded and in an order that depends on their number alone. On a GPU they go through a workspace;
// one that holds only a part of them takes more launches, and without one a block takes row after row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "core/rows/row_map.h"

namespace bk {

// Rows of `columns` neighbours: those of input k are stride[k] elements apart. Each of the inputs of one value a row has a
// value for every row, row_step elements behind that of the row before it.
template <int In>
struct TermRows {
    int64_t rows, columns;
    int64_t stride[In];
    int64_t row_step = 1;
};

// Bytes of workspace for the sum of as many terms.
template <class C>
size_t row_terms_workspace(int64_t rows);

template <size_t... I, size_t... R>
RowAxes<sizeof...(I), sizeof...(R) + 2> axes_of(const TermRows<sizeof...(I)>& given, std::index_sequence<I...>,
                                                std::index_sequence<R...>) {
    RowAxes<sizeof...(I), sizeof...(R) + 2> axes;
    const int64_t from_row[] = {given.stride[I]..., (static_cast<void>(R), given.row_step)..., 1, 1};
    const int64_t from_cell[] = {(static_cast<void>(I), int64_t{1})...};
    axes.outer.append(given.rows, from_row);
    axes.inner.append(given.columns, from_cell);
    return axes;
}

// Either `each` or `wide` is null.
template <class F, class T, class... In, class... RowIn>
Status row_terms(const Launch& launch, const TermRows<sizeof...(In)>& given, const F& f, const Inputs<In...>& x,
                 const Inputs<RowIn...>& row_inputs, T* each, compute_t<T>* wide) {
    const auto axes = axes_of(given, std::index_sequence_for<In...>{}, std::make_index_sequence<sizeof...(RowIn)>{});
    return map_rows(launch, axes, f, x, inputs(), row_inputs, outputs(), outputs(each, wide));
}

// out = factor times the sum of the terms.
template <class F, class T, class... In, class... RowIn>
Status sum_row_terms(const Launch& launch, const TermRows<sizeof...(In)>& given, const F& f, const Inputs<In...>& x,
                     const Inputs<RowIn...>& row_inputs, compute_t<T> factor, T* out);

// The operands from row `first` on.
template <class... In, size_t... I>
Inputs<In...> from_row(const Inputs<In...>& x, const int64_t* stride, int64_t first, std::index_sequence<I...>) {
    return inputs((get<I>(x.pointer) + first * stride[I])...);
}
template <class... RowIn, size_t... R>
Inputs<RowIn...> rows_from([[maybe_unused]] const Inputs<RowIn...>& x, [[maybe_unused]] int64_t first,
                           std::index_sequence<R...>) {
    return inputs((get<R>(x.pointer) + first)...);
}

}  // namespace bk

#if BK_CUDA
#include "core/rows/row_terms_cuda.cuh"
#else
#include "core/rows/row_terms_cpu.h"
#endif
