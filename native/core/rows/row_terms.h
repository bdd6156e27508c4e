// A term of each row, or their mean or sum: what a row function (core/rows/row_map.h) saves, twice, as one value of the
// storage type and one of the compute type.
//
// A sum takes its terms unrounded and in an order that depends on their shape alone, on a GPU without a workspace also on
// whether it has clusters of blocks. There terms go through the workspace; one that holds only a part of them takes more
// launches, and without one the blocks of a single cluster, or a single block, take all rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "core/rows/row_map.h"

namespace bk {

// Rows of `columns` elements, in items of `neighbours` rows that lie side by side: items of input k are stride[k] elements
// apart, the rows of one are neighbours, and the elements of a row column_step apart. Each of the inputs of one value a row has
// a value for every row, row_step elements behind that of the row before it.
template <int In>
struct TermRows {
    int64_t rows, columns;
    int64_t stride[In];
    int64_t row_step = 1, neighbours = 1, column_step = 1;

    // At most `most` rows from row `first` on, of whole items or of one.
    TermRows run(int64_t first, int64_t most) const {
        TermRows part = *this;
        const int64_t within = first % neighbours;
        const bool is_whole = within == 0 && most >= neighbours;
        part.rows = is_whole ? std::min(most / neighbours * neighbours, rows - first) : std::min(most, neighbours - within);
        if (!is_whole) part.neighbours = part.rows;
        return part;
    }
    // The same rows, of no elements all at one address: their strides may be so large that addresses would overflow.
    TermRows placed() const {
        TermRows all = *this;
        if (columns == 0) std::fill_n(all.stride, In, int64_t{0});
        return all;
    }
    // Where row r of input k begins.
    BK_HD int64_t offset(int k, int64_t r) const {
        if (neighbours == 1) return r * stride[k];
        return r / neighbours * stride[k] + r % neighbours;
    }
};

// Bytes of workspace for the sum of as many terms.
template <class C>
size_t row_terms_workspace(int64_t rows);

template <size_t... I, size_t... R>
RowAxes<sizeof...(I), sizeof...(R) + 2> axes_of(const TermRows<sizeof...(I)>& given, std::index_sequence<I...>,
                                                std::index_sequence<R...>) {
    RowAxes<sizeof...(I), sizeof...(R) + 2> axes;
    const int64_t beside = given.neighbours, of_item = given.row_step * beside;
    const int64_t from_item[] = {given.stride[I]..., (static_cast<void>(R), of_item)..., beside, beside};
    const int64_t from_row[] = {(static_cast<void>(I), int64_t{1})..., (static_cast<void>(R), given.row_step)..., 1, 1};
    const int64_t from_cell[] = {(static_cast<void>(I), given.column_step)...};
    axes.outer.append(given.rows / beside, from_item);
    if (beside > 1) axes.outer.append(beside, from_row);
    axes.inner.append(given.columns, from_cell);
    return axes;
}

// What F saves of each row goes to `each`, rounded to T, or to `wide`, as it is: one of the two is null.
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
Inputs<In...> from_row(const Inputs<In...>& x, const TermRows<sizeof...(In)>& rows, int64_t first, std::index_sequence<I...>) {
    return inputs((get<I>(x.pointer) + rows.offset(I, first))...);
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
