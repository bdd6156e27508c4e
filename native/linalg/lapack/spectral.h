// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and singular values by LAPACK, of a scaled matrix in a team's scratch: syevd, gesdd and geev. Scratch of LAPACK
// lies behind the team's; functions return false if LAPACK did not converge.
#pragma once

#include "linalg/lapack/lapack.h"
#include "linalg/spectral/team.h"

namespace bk::linalg::spectral {

// The TeamBytes of own(m, n) and, from `least` on, lapack(m, n) bytes.
template <class Own, class OfLapack>
TeamBytes team_bytes(int m, int n, int64_t least, const Own& own, const OfLapack& lapack) {
    if (!is_of_lapack(m, n, least)) return {own(m, n)};
    const int most = static_cast<int>(kBatchExtent), rows = std::min(m, most), columns = std::min(n, most);
    const auto round = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
    return {own(m, n), round(lapack(m, n)), round(own(rows, columns)) + round(lapack(rows, columns))};
}

template <class E>
struct HermitianLapack {
    using R = real_t<E>;
    int64_t size, real_size, integer_size;
    E* work;
    R* real_work;
    int64_t* integers;

    static HermitianLapack carve(Scratch& scratch, int64_t n) {
        const int64_t square = times(n, n);
        HermitianLapack l;
        l.size = (kIsComplex<E> ? square : 2 * square) + (kLapackBlock + 6) * n + 1;
        l.real_size = kIsComplex<E> ? 2 * square + 5 * n + 1 : 0;
        l.integer_size = 5 * n + 3;
        l.work = scratch.take<E>(l.size);
        l.real_work = scratch.take<R>(l.real_size);
        l.integers = scratch.take<int64_t>(l.integer_size);
        return l;
    }
    static int64_t bytes(int64_t n) {
        Scratch scratch(nullptr);
        carve(scratch, n);
        return scratch.bytes();
    }
};

template <class E>
struct SingularLapack {
    using R = real_t<E>;
    Columns<E> a;
    int64_t size;
    E* work;
    R* real_work;
    int64_t* integers;

    static SingularLapack carve(Scratch& scratch, int64_t rows, int64_t n, bool wants_vectors) {
        const int64_t square = wants_vectors ? times(n, n) : 0, panel = wants_vectors ? times(rows, n) : 0;
        SingularLapack l;
        l.a.pitch = lapack_pitch<E>(rows);
        l.a.data = scratch.take<E>(times(l.a.pitch, n));
        l.size = (kIsComplex<E> ? 1 : 4) * square + (kLapackBlock + 10) * (rows + n);
        l.work = scratch.take<E>(l.size);
        l.real_work = scratch.take<R>(kIsComplex<E> ? std::max(5 * square + 7 * n, 2 * panel + 2 * square + n) : 0);
        l.integers = scratch.take<int64_t>(8 * n);
        return l;
    }
    static int64_t bytes(int64_t rows, int64_t n, bool wants_vectors) {
        Scratch scratch(nullptr);
        carve(scratch, rows, n, wants_vectors);
        return scratch.bytes();
    }
};

template <class E>
struct GeneralLapack {
    using R = real_t<E>;
    int64_t size;
    E* work;
    R* real_work;

    static GeneralLapack carve(Scratch& scratch, int64_t n) {
        GeneralLapack l;
        l.size = (kLapackBlock + 8) * n;
        l.work = scratch.take<E>(l.size);
        l.real_work = scratch.take<R>(2 * n);
        return l;
    }
    static int64_t bytes(int64_t n) {
        Scratch scratch(nullptr);
        carve(scratch, n);
        return scratch.bytes();
    }
};

#if !BK_CUDA
// Columns of a become eigenvectors, and w the values in ascending order.
template <class E>
bool eigh_by_lapack(const MatrixTeam& team, int n, E* a, int64_t pitch, real_t<E>* w, bool wants_vectors) {
    Scratch scratch(team.lapack_scratch);
    const auto l = HermitianLapack<E>::carve(scratch, n);
    const int64_t extent = n;
    const char* const job = wants_vectors ? "V" : "N";
    int64_t failed = 0;
    if constexpr (kIsComplex<E>)
        lapack<E>()->syevd(job, "L", &extent, a, &pitch, w, l.work, &l.size, l.real_work, &l.real_size, l.integers,
                           &l.integer_size, &failed, 1, 1);
    else
        lapack<E>()->syevd(job, "L", &extent, a, &pitch, w, l.work, &l.size, l.integers, &l.integer_size, &failed, 1, 1);
    return failed == 0;
}

// Columns of u, which holds the matrix of rows >= n columns, become left vectors, those of v right ones.
template <class E>
bool svd_by_lapack(const MatrixTeam& team, int rows, int n, E* u, int64_t u_pitch, E* v, int64_t v_pitch, real_t<E>* s,
                   bool wants_vectors, bool is_full) {
    Scratch scratch(team.lapack_scratch);
    const auto l = SingularLapack<E>::carve(scratch, rows, n, wants_vectors);
    for (int64_t j = 0; j < n; ++j) std::copy_n(u + j * u_pitch, rows, l.a.column(j));
    const int64_t m = rows, columns = n;
    const char* const job = !wants_vectors ? "N" : is_full ? "A" : "S";
    int64_t failed = 0;
    if constexpr (kIsComplex<E>)
        lapack<E>()->gesdd(job, &m, &columns, l.a.data, &l.a.pitch, s, u, &u_pitch, v, &v_pitch, l.work, &l.size, l.real_work,
                           l.integers, &failed, 1);
    else
        lapack<E>()->gesdd(job, &m, &columns, l.a.data, &l.a.pitch, s, u, &u_pitch, v, &v_pitch, l.work, &l.size, l.integers,
                           &failed, 1);
    for (int64_t j = 0; wants_vectors && j < n; ++j)  // V^H becomes V
        for (int64_t i = 0; i <= j; ++i) {
            const E above = v[i + j * v_pitch];
            v[i + j * v_pitch] = conj(v[j + i * v_pitch]);
            v[j + i * v_pitch] = conj(above);
        }
    return failed == 0;
}

// a diag(weight) b^H of the first `count` columns of a, rows x count, and b, n x count, in the scratch of svd_by_lapack().
template <class E, class Weight>
Columns<E> product_by_lapack(const MatrixTeam& team, int rows, int n, int count, const E* a, int64_t a_pitch, const E* b,
                             int64_t b_pitch, const Weight& weight) {
    Scratch scratch(team.lapack_scratch);
    const auto l = SingularLapack<E>::carve(scratch, rows, n, true);
    for (int k = 0; k < count; ++k)
        for (int i = 0; i < n; ++i) l.work[i + int64_t{k} * n] = weight(k) * b[i + k * b_pitch];
    const int64_t m = rows, columns = n, depth = count;
    const E one = element_of<E>(1), zero = element_of<E>(0);
    lapack<E>()->gemm("N", "C", &m, &columns, &depth, &one, a, &a_pitch, l.work, &columns, &zero, l.a.data, &l.a.pitch, 1, 1);
    return l.a;
}

// Vectors of a real matrix are those of LAPACK: a pair has a column of real and one of imaginary parts. NULL is not wanted.
template <class E>
bool eig_by_lapack(const MatrixTeam& team, int n, E* a, int64_t pitch, Complex<real_t<E>>* w, E* left, E* right) {
    Scratch scratch(team.lapack_scratch);
    const auto l = GeneralLapack<E>::carve(scratch, n);
    const int64_t extent = n;
    const char *const wants_left = left != nullptr ? "V" : "N", *const wants_right = right != nullptr ? "V" : "N";
    int64_t failed = 0;
    if constexpr (kIsComplex<E>) {
        lapack<E>()->geev(wants_left, wants_right, &extent, a, &pitch, w, left, &pitch, right, &pitch, l.work, &l.size,
                          l.real_work, &failed, 1, 1);
    } else {
        lapack<E>()->geev(wants_left, wants_right, &extent, a, &pitch, l.real_work, l.real_work + n, left, &pitch, right,
                          &pitch, l.work, &l.size, &failed, 1, 1);
        for (int k = 0; k < n; ++k) w[k] = {l.real_work[k], l.real_work[n + k]};
    }
    return failed == 0;
}
#endif

}  // namespace bk::linalg::spectral
