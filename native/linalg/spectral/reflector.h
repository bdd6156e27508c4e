// SPDX-License-Identifier: Apache-2.0
// Householder reflectors H = I - tau v v^H, v = (1, x / (alpha - beta)), with H^H (alpha, x) = (beta, 0) and beta real, as
// LAPACK's larfg has them. Vectors lie below their pivots in a column-major matrix in scratch.
#pragma once

#include "linalg/spectral/team.h"

namespace bk::linalg::spectral {

template <class E>
struct Reflector {
    real_t<E> beta;
    E tau, scale;  // v = scale * x below the pivot

    // `tail` is the squared length of x. Vectors so short that squares lose digits count as 0: entries are scaled to at
    // most 1, so that the error is far below one rounding of the matrix.
    static BK_LINALG Reflector of(E alpha, real_t<E> tail) {
        using R = real_t<E>;
        const R re = real(alpha), im = imaginary(alpha), of_alpha = square(alpha), least = Numbers<R>::kFloor;
        if (tail < least && (im == 0 || of_alpha < least)) return {re, element_of<E>(0), element_of<E>(0)};
        const R length = root(tail < least ? of_alpha : of_alpha + tail), beta = -with_sign(length, re);
        const E scale = tail < least ? element_of<E>(0) : element_of<E>(1) / (alpha - element_of<E>(beta));
        return {beta, element_of<E>((beta - re) / beta, -im / beta), scale};
    }
};

// The team's reflector of column entries [pivot, rows), which become v without its 1.
template <class E>
BK_LINALG_STEP Reflector<E> reflect_column(const MatrixTeam& team, E* column, int pivot, int rows) {
    real_t<E> tail = 0;
    for_own(team, pivot + 1, rows, [&](int i) { tail += square(column[i]); });
    const E alpha = column[pivot];
    const Reflector<E> h = Reflector<E>::of(alpha, team.sum(tail));
    for_own(team, pivot + 1, rows, [&](int i) { column[i] = column[i] * h.scale; });
    return h;
}

// column[pivot..rows) -= factor v (v^H column), by one warp; v is below its pivot, where it is 1.
template <class E>
BK_LINALG void apply_to_column(const MatrixTeam& team, const E* v, E factor, E* column, int pivot, int rows) {
    const E at_pivot = column[pivot];
    const E below = lane_total<E>(team, pivot + 1, rows, [&](int i) { return conj(v[i]) * column[i]; });
    const E weight = factor * (below + at_pivot);
    for_lanes(team, pivot + 1, rows, [&](int i) { column[i] -= weight * v[i]; });
    team.sync_lanes();  // all have read the pivot
    if (team.lane() == 0) column[pivot] = at_pivot - weight;
}

// Overwrites reflectors, vector k below row k + offset of column k, by the first `columns` columns of their product
// H_0 H_1 ... H_(count - 1) of `rows` rows (LAPACK's org2r). offset is 0 or 1.
template <class E>
BK_LINALG_STEP void form_product(const MatrixTeam& team, E* a, int64_t pitch, int rows, int columns, int count, int offset,
                                 const E* tau) {
    const E zero = element_of<E>(0), one = element_of<E>(1);
    for_columns(team, count + offset, columns,
                [&](int j) { for_lanes(team, 0, rows, [&](int i) { a[i + j * pitch] = i == j ? one : zero; }); });
    team.sync();
    for (int k = count - 1; k >= 0; --k) {
        const int pivot = k + offset;
        const E* v = a + k * pitch;
        const E factor = tau[k];
        for_columns(team, pivot + 1, columns, [&](int j) {
            E* const column = a + j * pitch;
            const E below = lane_total<E>(team, pivot + 1, rows, [&](int i) { return conj(v[i]) * column[i]; });
            const E weight = factor * below;
            for_lanes(team, pivot + 1, rows, [&](int i) { column[i] -= weight * v[i]; });
            if (team.lane() == 0) column[pivot] = -weight;
        });
        team.sync();
        E* const column = a + pivot * pitch;
        for_own(team, pivot + 1, rows, [&](int i) { column[i] = -(factor * v[i]); });
        if (team.rank() == 0) column[pivot] = one - factor;
        team.sync();
    }
    if (offset == 1) {
        for_own(team, 0, rows, [&](int i) { a[i] = i == 0 ? one : zero; });
        for_own(team, 1, columns, [&](int j) { a[j * pitch] = zero; });
    }
    team.sync();
}

}  // namespace bk::linalg::spectral
