// SPDX-License-Identifier: Apache-2.0
// Sweeps of plane rotations: one thread computes them, and the team applies several sweeps at once to rows of a matrix, which
// stay in the nearest memory meanwhile. Rotation i of a sweep mixes columns i and i + 1.
#pragma once

#include "linalg/spectral/team.h"

namespace bk::linalg::spectral {

constexpr int kMostSweeps = 16;

template <class R>
struct Sweeps {
    R *c, *s;    // [kMostSweeps, n - 1]
    int* range;  // [kMostSweeps, 2]: first and last column of a sweep
    int n;

    BK_HD static Sweeps take(Scratch& scratch, int n) {
        Sweeps sweeps;
        sweeps.n = n;
        sweeps.c = scratch.take<R>(int64_t{kMostSweeps} * n);
        sweeps.s = scratch.take<R>(int64_t{kMostSweeps} * n);
        sweeps.range = scratch.take<int>(2 * kMostSweeps);
        return sweeps;
    }
    BK_LINALG void set(int sweep, int i, R cosine, R sine) const {
        c[sweep * n + i] = cosine;
        s[sweep * n + i] = sine;
    }
};

template <class R, class E, int kRows>
BK_LINALG void rotate_rows(const R* c, const R* s, int first, int last, E* a, int64_t pitch) {
    E carried[kRows];
    for (int k = 0; k < kRows; ++k) carried[k] = a[first * pitch + k];
    for (int i = first; i < last; ++i) {
        const R cosine = c[i], sine = s[i];
        E* const left = a + i * pitch;
        const E* const right = left + pitch;
        for (int k = 0; k < kRows; ++k) {
            const E x = carried[k], y = right[k];
            left[k] = x * cosine + y * sine;
            carried[k] = y * cosine - x * sine;
        }
    }
    for (int k = 0; k < kRows; ++k) a[last * pitch + k] = carried[k];
}

// The rows [0, rows) of `a` times the rotations of `count` sweeps.
template <class R, class E>
BK_LINALG_STEP void apply_sweeps(const MatrixTeam& team, const Sweeps<R>& sweeps, int count, E* a, int64_t pitch, int rows) {
    for_padded_rows<E>(team, 0, rows, [&](int row, auto group) {
        for (int sweep = 0; sweep < count; ++sweep)
            rotate_rows<R, E, decltype(group)::value>(sweeps.c + sweep * sweeps.n, sweeps.s + sweep * sweeps.n,
                                                      sweeps.range[2 * sweep], sweeps.range[2 * sweep + 1], a + row, pitch);
    });
}

}  // namespace bk::linalg::spectral
