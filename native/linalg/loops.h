// SPDX-License-Identifier: Apache-2.0
// Loops of a team over matrices and vectors. Barriers are the caller's, but for those of sums.
#pragma once

#include "linalg/team.h"

namespace bk::linalg {

// f(i, j) for all elements. Lanes share the index that lies closer together in memory: i if `by_rows`.
template <class F>
BK_LINALG void for_elements(const MatrixTeam& team, int64_t m, int64_t n, bool by_rows, const F& f) {
    if (kIsOneLoop) {
        const int64_t outer = by_rows ? n : m, inner = by_rows ? m : n;
        for (int64_t j = team.group; j < outer; j += team.groups)
            for (int64_t i = team.lane; i < inner; i += team.lanes) f(by_rows ? i : j, by_rows ? j : i);
    } else if (by_rows) {
        for (int64_t j = team.group; j < n; j += team.groups)
            for (int64_t i = team.lane; i < m; i += team.lanes) f(i, j);
    } else {
        for (int64_t i = team.group; i < m; i += team.groups)
            for (int64_t j = team.lane; j < n; j += team.lanes) f(i, j);
    }
}

template <class S>
BK_LINALG bool is_by_rows(const Matrix<S>& a) {
    const int64_t row = a.row < 0 ? -a.row : a.row, column = a.column < 0 ? -a.column : a.column;
    return row <= column;
}

// to = from, m x n.
template <class S>
BK_LINALG void load(const MatrixTeam& team, const Matrix<const S>& from, int64_t m, int64_t n, const Columns<S>& to,
                    bool conjugates = false) {
    for_elements(team, m, n, is_by_rows(from), [&](int64_t i, int64_t j) { to(i, j) = conj_if(conjugates, from(i, j)); });
}
template <class S>
BK_LINALG void store(const MatrixTeam& team, const Columns<S>& from, int64_t m, int64_t n, const Matrix<S>& to) {
    for_elements(team, m, n, is_by_rows(to), [&](int64_t i, int64_t j) { to(i, j) = from(i, j); });
}
// The lower triangle of an n x n matrix.
template <class S>
BK_LINALG void load_lower(const MatrixTeam& team, const Matrix<const S>& from, int64_t n, const Columns<S>& to,
                          bool conjugates = false) {
    for_elements(team, n, n, is_by_rows(from), [&](int64_t i, int64_t j) {
        if (i >= j) to(i, j) = conj_if(conjugates, from(i, j));
    });
}
template <class S>
BK_LINALG void store_lower(const MatrixTeam& team, const Columns<S>& from, int64_t n, const Matrix<S>& to) {
    for_elements(team, n, n, is_by_rows(to), [&](int64_t i, int64_t j) {
        if (i >= j) to(i, j) = from(i, j);
    });
}

// y[i] -= f x[i], by the lanes of one group.
template <class S>
BK_LINALG void subtract_multiple(const MatrixTeam& team, int64_t n, S f, const S* x_, S* y_) {
    const S* BK_RESTRICT x = x_;
    S* BK_RESTRICT y = y_;
    for (int64_t i = team.lane; i < n; i += team.lanes) y[i] = subtract_product(y[i], f, x[i]);
}

// a -= x y^T of an m x n matrix; element j of y is y[j step].
template <class S>
BK_LINALG void subtract_outer(const MatrixTeam& team, int64_t m, int64_t n, const S* x, const S* y, int64_t step,
                              bool conjugates, const Columns<S>& a) {
    const int columns = static_cast<int>(n);  // extents are of 31 bits, which bounds the loop for the compiler
    for (int j = team.group; j < columns; j += team.groups)
        subtract_multiple(team, m, conj_if(conjugates, y[j * step]), x, a.column(j));
}

// Partial sums of a loop: several on the CPU, so that it vectorises.
#if BK_CUDA
constexpr int kPartialSums = 1;
#else
constexpr int kPartialSums = 16;
#endif

// The lanes' shares of sum of conj(x[i]) y[i].
template <class S>
BK_LINALG S partial_dot(const MatrixTeam& team, int64_t n, const S* x, const S* y) {
    S partial[kPartialSums];
    for (S& p : partial) p = S(0);
    int64_t i = team.lane;
    if constexpr (kPartialSums > 1) {
        for (; i + kPartialSums <= n; i += kPartialSums)
            for (int k = 0; k < kPartialSums; ++k) partial[k] = add_product(partial[k], conj(x[i + k]), y[i + k]);
    }
    for (; i < n; i += team.lanes) partial[0] = add_product(partial[0], conj(x[i]), y[i]);
    S all = partial[0];
    for (int k = 1; k < kPartialSums; ++k) all = all + partial[k];
    return all;
}

// The Euclidean norm of x[i], by the whole team. Sums of squares that overflow or lose bits are computed again, scaled by the
// largest modulus.
template <class S>
BK_LINALG real_t<S> norm(const MatrixTeam& team, int64_t n, const S* x) {
    using R = real_t<S>;
    R partial[kPartialSums];
    for (R& p : partial) p = R(0);
    int64_t i = team.rank;
    if constexpr (kPartialSums > 1) {
        for (; i + kPartialSums <= n; i += kPartialSums)
            for (int k = 0; k < kPartialSums; ++k) partial[k] += square(x[i + k]);
    }
    for (; i < n; i += team.size) partial[0] += square(x[i]);
    R sum = partial[0];
    for (int k = 1; k < kPartialSums; ++k) sum += partial[k];
    sum = team.sum(sum);
    constexpr R kLow = kLeastNormal<R> / kEpsilon<R>, kHigh = R(1) / kLeastNormal<R>;
    if (sum > kLow && sum < kHigh) return sqrt(sum);
    R largest = R(0);
    int64_t at = 0;
    bool is_nan = false;
    for (int64_t k = team.rank; k < n; k += team.size) {
        const R size = modulus(x[k]);
        is_nan = is_nan || size != size;
        largest = size > largest ? size : largest;
    }
    team.find_largest(largest, at);
    if (team.sum(is_nan ? R(1) : R(0)) > R(0)) return R(NAN);
    if (largest == R(0) || !(largest < R(INFINITY))) return largest;
    sum = R(0);
    for (int64_t k = team.rank; k < n; k += team.size) sum += square(modulus(x[k]) / largest);
    return largest * sqrt(team.sum(sum));
}

template <class S>
BK_LINALG void swap_values(S& a, S& b) {
    const S old = a;
    a = b;
    b = old;
}

}  // namespace bk::linalg
