// SPDX-License-Identifier: Apache-2.0
// One-sided Jacobi iteration (Hestenes 1958) on blocks of columns, by all SMs: rotations from the right make the columns of X
// orthogonal, X W = U S. The matrix W, if it is wanted, gets the same rotations, from the identity on.
//
// Columns are in panels of 16, each row-major. A step of a sweep takes disjoint pairs of panels, round-robin: a block computes
// the Gram matrix of a pair's 32 columns and the orthogonal matrix that makes it diagonal, with the longest column first, and
// other blocks apply it to rows of the pair. A sweep in which no pair was far from orthogonal is the last: the launches
// behind it find a flag that says so. A column that vanishes is replaced by noise far below the rounding errors of the
// matrix, so that U is orthogonal whatever the rank.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "linalg/spectral/team.h"

namespace bk::linalg::spectral {

constexpr int kPanel = 16, kPair = 2 * kPanel;
constexpr int kJacobiSweeps = 30;  // as many as LAPACK's gesvj; 8 to 12 are usual, above 20 with all singular values of f64

// Norms of columns of matrices with a largest element near 1: the noise that replaces columns which vanish, below the
// roundoff; columns of the first sweeps that are as good as noise, and that would take long to become orthogonal among
// themselves; and later ones, so far below noise that no combination of it is so short.
template <class R>
struct Noise;
template <>
struct Noise<float> {
    static constexpr float kNorm = 1e-8f, kEarly = 3e-9f, kLate = 1e-16f;
};
template <>
struct Noise<double> {
    static constexpr double kNorm = 2e-17, kEarly = 5e-18, kLate = 2e-25;
};

// An array of each matrix, `step` bytes apart.
template <class T>
struct PerMatrix {
    T* first;
    int64_t step;

    BK_HD T* operator[](int64_t item) const {
        return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(first) + static_cast<uintptr_t>(item * step));
    }
};

// Memory of the iteration for a matrix.
template <class E>
struct JacobiParts {
    E *panels, *factors;
    int32_t* state;  // is_due(sweep) for each, whether columns were replaced, and for each pair whether it rotates in this step

    BK_HD static int panels_of(int n) { return 2 * ((n + kPair - 1) / kPair); }
    BK_HD static JacobiParts carve(Scratch& scratch, int rows, int carried, int n) {
        const int64_t panels = panels_of(n);
        JacobiParts parts;
        parts.panels = scratch.take<E>(times(panels * kPanel, int64_t{rows} + carried));
        parts.factors = scratch.take<E>(panels / 2 * kPair * kPair);
        parts.state = scratch.take<int32_t>(kJacobiSweeps + 2 + panels / 2);
        return parts;
    }
};

// X has `rows` rows and W `carried`, which follow them, n or 0.
template <class E>
struct JacobiProblem {
    int64_t items;
    int rows, carried, n;
    PerMatrix<E> panels, factors;
    PerMatrix<int32_t> state;

    static JacobiProblem of(int64_t items, int64_t step, int rows, int carried, int n, const JacobiParts<E>& parts) {
        return {items, rows, carried, n, {parts.panels, step}, {parts.factors, step}, {parts.state, step}};
    }
    BK_HD int panel_count() const { return JacobiParts<E>::panels_of(n); }
    BK_HD int pairs() const { return panel_count() / 2; }
    BK_HD int64_t all_rows() const { return int64_t{rows} + carried; }
    BK_HD E* panel(int64_t item, int number) const { return panels[item] + number * all_rows() * kPanel; }
    BK_HD E& at(int64_t item, int64_t row, int column) const {
        return panel(item, column / kPanel)[row * kPanel + column % kPanel];
    }
    BK_HD int32_t& is_due(int64_t item, int sweep) const { return state[item][sweep]; }
    BK_HD int32_t& has_noise(int64_t item) const { return state[item][kJacobiSweeps + 1]; }
    BK_HD int32_t& rotates(int64_t item, int pair) const { return state[item][kJacobiSweeps + 2 + pair]; }
};

// Matrices that are worked on at once, so that each SM has some blocks.
inline int64_t jacobi_items(int n) { return std::max<int64_t>(1, 1056 / (JacobiParts<float>::panels_of(n) / 2)); }

// X = the column-major matrices `from`, of which an upper triangle is read if is_upper, plus `shift` times the identity
// unless that is NULL; W = I. Matrices with a `scale` of 0 are left out.
template <class E>
struct JacobiStart {
    PerMatrix<E> from;
    int64_t pitch;
    bool is_upper;
    PerMatrix<real_t<E>> shift, scale;
};

// is_due(item, kJacobiSweeps) is 0 for those that converged.
template <class E>
Status orthogonalise(const Launch& launch, const JacobiProblem<E>& p, const JacobiStart<E>& start);

}  // namespace bk::linalg::spectral
