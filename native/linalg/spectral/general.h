// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and eigenvectors of a general matrix by a team: balancing, Hessenberg form, Schur form, substitution.
#pragma once

#include "linalg/lapack/spectral.h"
#include "linalg/spectral/hessenberg.h"
#include "linalg/spectral/triangular_vectors.h"
#include "linalg/spectral/view.h"

namespace bk::linalg::spectral {

enum : int { kRight = 0, kLeft = 1 };

// Job of a batch. Complex results are w and v, those of a real matrix may instead be `parts`, n real and n imaginary ones, and
// `packed`, where a complex pair has a column of real and one of imaginary parts. Each may have no base.
template <class E>
struct GeneralJob {
    static constexpr bool kDecomposes = false;
    using Element = E;
    using R = real_t<E>;
    using C = Complex<R>;
    View<const E> a;
    C* w;
    R* parts;
    View<C> v[2];
    View<R> packed[2];
    int32_t* info;
    int n;

    BK_HD bool wants(int side) const { return v[side].base != nullptr || packed[side].base != nullptr; }
    BK_HD bool wants_vectors() const { return wants(kRight) || wants(kLeft); }

    struct Parts {
        E *t, *q;
        int64_t pitch, wide_pitch;
        C *x, *y;  // vectors of T, and of the matrix
        R* scale;
        E *tau, *work;
        C *w, *phase;
        int* order;
    };
    BK_HD static Parts carve(Scratch& scratch, int n, bool wants_vectors) {
        const int kept = wants_vectors ? n : 0;
        Parts p;
        p.pitch = pitch_of<E>(n);
        p.wide_pitch = pitch_of<C>(n);
        p.t = scratch.take<E>(p.pitch * n);
        p.q = scratch.take<E>(p.pitch * kept);
        p.x = scratch.take<C>(p.wide_pitch * kept);
        p.y = scratch.take<C>(p.wide_pitch * kept);
        p.scale = scratch.take<R>(n + kRowsOfVector<C> - 1);
        p.tau = scratch.take<E>(n);
        p.work = scratch.take<E>(n);
        p.w = scratch.take<C>(n);
        p.phase = scratch.take<C>(n);
        p.order = scratch.take<int>(n);
        return p;
    }
    static TeamBytes scratch_bytes(int n, bool wants_vectors) {
        const auto own = [&](int extent, int) {
            Scratch scratch(nullptr);
            carve(scratch, extent, wants_vectors);
            return scratch.bytes();
        };
        return team_bytes(n, n, kGeneralExtent<E>, own, [](int extent, int) { return GeneralLapack<E>::bytes(extent); });
    }

    BK_LINALG void operator()(const MatrixTeam& team, char* memory, int64_t item) const {
        Scratch scratch(memory);
        const bool has_vectors = wants_vectors();
        const Parts p = carve(scratch, n, has_vectors);
        const R scale = load_scaled(team, p, item);
        if (scale == R(0)) return fail(team, item, n + 1);
        const SchurForm<E> form{p.t, p.pitch, n};
        const bool is_of_lapack = decompose_by_lapack(team, p, item);
        if (!is_of_lapack) {
            clear_padding(p.t, p.pitch, n, n);
            clear_upper_halves();
            balance(team, p.t, p.pitch, n, p.scale);
            reduce_to_hessenberg(team, p.t, p.pitch, n, has_vectors ? p.q : nullptr, p.tau, p.work);
            const int left = reduce_to_schur(team, SchurState<E>{p.t, has_vectors ? p.q : nullptr, p.pitch, n, has_vectors});
            if (left > 0) return fail(team, item, left);
            for_own(team, 0, n, [&](int i) { p.w[i] = form.value(i); });
            team.sync();
        }
        sort_values(team, p);
        const R back = 1 / scale;
        for_own(team, 0, n, [&](int k) {
            const C value = p.w[p.order[k]] * back;
            if (w != nullptr) w[item * n + k] = value;
            if (parts != nullptr) {
                parts[item * 2 * n + k] = value.re;
                parts[item * 2 * n + n + k] = value.im;
            }
        });
        if (team.rank() == 0 && info != nullptr) info[item] = 0;
        for (int side = kRight; side <= kLeft; ++side) {
            if (!wants(side)) continue;
            if (is_of_lapack)
                unpack_vectors(p, side == kRight ? p.q : reinterpret_cast<const E*>(p.x));
            else
                find_vectors(team, p, form, side);
            store_vectors(team, p, item, side);
        }
    }

private:
    // The power of two that the loaded matrix was multiplied by; 0 for one that is not finite.
    BK_LINALG R load_scaled(const MatrixTeam& team, const Parts& p, int64_t item) const {
        return scale_columns(team, p.t, p.pitch, n, n, load(team, p, item));
    }
    // Right vectors in p.q and left ones in the memory of p.x. False, with the matrix as it was, if LAPACK is not used or did
    // not converge.
    BK_LINALG bool decompose_by_lapack([[maybe_unused]] const MatrixTeam& team, [[maybe_unused]] const Parts& p,
                                       [[maybe_unused]] int64_t item) const {
#if !BK_CUDA
        if (team.lapack_scratch == nullptr) return false;
        E *const left = wants(kLeft) ? reinterpret_cast<E*>(p.x) : nullptr, *const right = wants(kRight) ? p.q : nullptr;
        if (eig_by_lapack(team, n, p.t, p.pitch, p.w, left, right)) return true;
        load_scaled(team, p, item);
#endif
        return false;
    }
    // Columns of p.y from LAPACK's, on the CPU alone.
    BK_LINALG void unpack_vectors(const Parts& p, const E* from) const {
        for (int k = 0; k < n; ++k) {
            C* const y = p.y + k * p.wide_pitch;
            const E *const x = from + k * p.pitch, *const next = x + p.pitch;
            const bool is_pair = !kIsComplex<E> && p.w[k].im != R(0);
            for (int i = 0; i < n; ++i) {
                y[i] = is_pair ? C{real(x[i]), real(next[i])} : C{real(x[i]), imaginary(x[i])};
                if (is_pair) y[i + p.wide_pitch] = conj(y[i]);
            }
            if (is_pair) ++k;
        }
    }

    BK_LINALG R load(const MatrixTeam& team, const Parts& p, int64_t item) const {
        const E* const from = a.matrix(item);
        R most = 0;
        for_elements(team, a.by, n, n, [&](int i, int j) {
            const E x = from[i * a.by.row + j * a.by.column];
            const R part = largest_part(x);
            most = part <= most ? most : part;
            if (most != most) most = kInfinity<R>;
            p.t[i + j * p.pitch] = x;
        });
        return team.largest(most);
    }

    // Order of eigenvalues: by real parts, then moduli of imaginary ones, of a pair the positive one first. A pair stays
    // together.
    BK_LINALG static bool is_before(C a, int i, C b, int j) {
        if (a.re != b.re) return a.re < b.re;
        const R of_a = absolute(a.im), of_b = absolute(b.im);
        if (of_a != of_b) return of_a < of_b;
        if (!kIsComplex<E>) return i < j;
        return a.im != b.im ? a.im > b.im : i < j;
    }
    BK_LINALG void sort_values(const MatrixTeam& team, const Parts& p) const {
        for_own(team, 0, n, [&](int i) {
            int before = 0;
            for (int j = 0; j < n; ++j) before += is_before(p.w[j], j, p.w[i], i) ? 1 : 0;
            p.order[before] = i;
        });
        team.sync();
    }

    BK_LINALG void find_vectors(const MatrixTeam& team, const Parts& p, const SchurForm<E>& form, int side) const {
        for_columns(team, 0, n, [&](int k) {
            if (k > 0 && form.begins_pair(k - 1)) return;
            const bool is_pair = form.begins_pair(k);
            C* const x = p.x + k * p.wide_pitch;
            if (side == kRight)
                right_vector(team, form, is_pair ? k + 1 : k, is_pair ? 2 : 1, p.w[k], x);
            else
                left_vector(team, form, k, is_pair ? 2 : 1, p.w[k], x);
            if (is_pair) for_lanes(team, 0, n, [&](int i) { x[i + p.wide_pitch] = conj(x[i]); });
        });
        team.sync();
        // y = D Q x, or D^-1 Q x of left vectors.
        for_padded_rows<C>(team, 0, n, [&](int row, auto group) {
            constexpr int kRows = decltype(group)::value;
            for (int k = 0; k < n; ++k) {
                C total[kRows];
                for (int i = 0; i < kRows; ++i) total[i] = as_complex(R(0));
                const C* const x = p.x + k * p.wide_pitch;
                const int begin = side == kRight ? 0 : k > 0 && form.begins_pair(k - 1) ? k - 1 : k;
                const int end = side == kRight ? (form.begins_pair(k) ? k + 2 : k + 1) : n;
                for (int j = begin; j < end; ++j) {
                    const C times = x[j];
                    const E* const column = p.q + j * p.pitch + row;
                    for (int i = 0; i < kRows; ++i) total[i] += times * column[i];
                }
                for (int i = 0; i < kRows; ++i) {
                    const R by = p.scale[row + i];
                    p.y[row + i + k * p.wide_pitch] = side == kRight ? total[i] * by : total[i] / by;
                }
            }
        });
        team.sync();
    }
    BK_LINALG void store_vectors(const MatrixTeam& team, const Parts& p, int64_t item, int side) const {
        for_columns(team, 0, n, [&](int k) {
            C* const y = p.y + p.order[k] * p.wide_pitch;
            R most = 0;
            for_lanes(team, 0, n, [&](int i) { most = larger(most, largest_part(y[i])); });
            const R scale = inverse_power(team.lane_reduce(most, [](R one, R other) { return larger(one, other); }));
            const R squares = lane_total<R>(team, 0, n, [&](int i) { return square(y[i] * scale); });
            const C phase = phase_of(team, y, n);
            if (team.lane() == 0) p.phase[k] = phase * (scale / root(squares));
        });
        team.sync();
        if (v[side].base != nullptr) store_columns(team, v[side], item, p.y, p.wide_pitch, n, n, p.order, p.phase);
        if (packed[side].base != nullptr) store_packed(team, p, packed[side], item);
        team.sync();
    }

    BK_LINALG void store_packed(const MatrixTeam& team, const Parts& p, const View<R>& view, int64_t item) const {
        R* const to = view.matrix(item);
        for_elements(team, view.by, n, n, [&](int i, int j) {
            const C x = p.y[i + p.order[j] * p.wide_pitch] * p.phase[j];
            to[i * view.by.row + j * view.by.column] = p.w[p.order[j]].im >= 0 ? x.re : -x.im;
        });
    }

    BK_LINALG void fail(const MatrixTeam& team, int64_t item, int32_t why) const {
        const R nan = kNaN<R>;
        for_own(team, 0, n, [&](int k) {
            if (w != nullptr) w[item * n + k] = {nan, nan};
            if (parts != nullptr) parts[item * 2 * n + k] = parts[item * 2 * n + n + k] = nan;
        });
        for (int side = kRight; side <= kLeft; ++side) {
            fill_matrix(team, v[side], item, n, n, nan_of<C>());
            fill_matrix(team, packed[side], item, n, n, nan);
        }
        if (team.rank() == 0 && info != nullptr) info[item] = why;
    }
};

}  // namespace bk::linalg::spectral
