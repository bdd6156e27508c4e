// SPDX-License-Identifier: Apache-2.0
// Matrices of a batch in the caller's memory, and their copies in scratch.
#pragma once

#include "linalg/spectral/team.h"

namespace bk::linalg::spectral {

// Strides in elements, of the batch, of rows and of columns.
struct Strides {
    int64_t batch = 0, row = 0, column = 0;

    static Strides of(const int64_t* three) { return {three[0], three[1], three[2]}; }
    // Column-major matrices with a pitch, `step` elements apart.
    static Strides columns(int64_t pitch, int64_t step = 0) { return {step, 1, pitch}; }
    BK_HD Strides transposed() const { return {batch, column, row}; }
    BK_HD bool rows_are_closer() const { return (row < 0 ? -row : row) <= (column < 0 ? -column : column); }
};

template <class E>
struct View {
    E* base = nullptr;
    Strides by;

    BK_HD E* matrix(int64_t item) const { return base + item * by.batch; }
};

// body(i, j) for all elements of a matrix; adjacent lanes take what is adjacent in memory.
template <class Body>
BK_LINALG void for_elements(const MatrixTeam& team, const Strides& by, int rows, int columns, const Body& body) {
    if (kIsOneLoop) {
        const bool by_rows = by.rows_are_closer();
        for_columns(team, 0, by_rows ? columns : rows, [&](int j) {
            for_lanes(team, 0, by_rows ? rows : columns, [&](int i) { body(by_rows ? i : j, by_rows ? j : i); });
        });
    } else if (by.rows_are_closer()) {
        for_columns(team, 0, columns, [&](int j) { for_lanes(team, 0, rows, [&](int i) { body(i, j); }); });
    } else {
        for_columns(team, 0, rows, [&](int i) { for_lanes(team, 0, columns, [&](int j) { body(i, j); }); });
    }
}

// Multiplies columns `pitch` elements apart by a power of two that brings `most`, their largest part, near 1. Returns it, or 0
// if `most` is not finite.
template <class R, class E, class Pitch>
BK_LINALG R scale_columns(const MatrixTeam& team, E* a, Pitch pitch, int rows, int columns, R most) {
    if (!is_finite(most)) return R(0);
    const R scale = inverse_power(most);
    for_columns(team, 0, columns,
                [&](int j) { for_lanes(team, 0, rows, [&](int i) { a[i + j * pitch] = a[i + j * pitch] * scale; }); });
    team.sync();
    return scale;
}

// Every element of matrix `item` becomes `value`.
template <class E>
BK_LINALG_STEP void fill_matrix(const MatrixTeam& team, const View<E>& view, int64_t item, int rows, int columns, E value) {
    if (view.base == nullptr) return;
    E* const to = view.matrix(item);
    for_elements(team, view.by, rows, columns, [&](int i, int j) { to[i * view.by.row + j * view.by.column] = value; });
}

// Column j of matrix `item` becomes column order[j] of scratch times factor[j], or its conjugate.
template <class E>
BK_LINALG_STEP void store_columns(const MatrixTeam& team, const View<E>& view, int64_t item, const E* a, int64_t pitch,
                                  int rows, int columns, const int* order, const E* factor, bool conjugates = false) {
    E* const to = view.matrix(item);
    for_elements(team, view.by, rows, columns, [&](int i, int j) {
        to[i * view.by.row + j * view.by.column] = conj_if(conjugates, a[i + order[j] * pitch] * factor[j]);
    });
}

// The phase, of modulus 1, that makes one element of a vector real and positive: the first whose modulus is within 1/1000 of
// the largest. So vectors do not depend on rounding errors, on the target, or on the algorithm.
template <class E>
BK_LINALG_STEP E phase_of(const MatrixTeam& team, const E* vector, int length) {
    using R = real_t<E>;
    R most = 0;
    for_lanes(team, 0, length, [&](int i) { most = larger(most, square(vector[i])); });
    most = team.lane_reduce(most, [](R a, R b) { return larger(a, b); }) * R(0.998);
    int first = length - 1;
    for_lanes(team, 0, length, [&](int i) {
        if (i < first && square(vector[i]) >= most) first = i;
    });
    first = team.lane_reduce(first, [](int a, int b) { return a < b ? a : b; });
    const E x = vector[first];
    const R size = modulus(x);
    if (size == 0) return element_of<E>(1);
    if constexpr (kIsComplex<E>)
        return conj(x) * (1 / size);
    else
        return x < 0 ? E(-1) : E(1);
}

// order[k] = index of the k-th number in ascending (descending) order; equal ones keep theirs.
template <class R>
BK_LINALG_STEP void sort_indices(const MatrixTeam& team, const R* x, int n, bool descends, int* order) {
    for_own(team, 0, n, [&](int i) {
        int before = 0;
        for (int j = 0; j < n; ++j) {
            const bool is_first = descends ? x[j] > x[i] : x[j] < x[i];
            before += is_first || (x[j] == x[i] && j < i) ? 1 : 0;
        }
        order[before] = i;
    });
    team.sync();
}

}  // namespace bk::linalg::spectral
