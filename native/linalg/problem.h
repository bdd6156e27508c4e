// SPDX-License-Identifier: Apache-2.0
// Problems on batches of matrices, as drivers take them. S is a scalar with arithmetic (linalg/scalar.h).
//
// `info` has a number a matrix, or is NULL. Failures concern one matrix: its results are NaN.
#pragma once

#include <algorithm>
#include <cstdint>

#include "linalg/team.h"

namespace bk::linalg {

// l l^H = a of n x n matrices, whose lower triangles are read and written; may be the same memory. A view of an upper
// triangle, transposed, is that of the upper factor. info: 0, or the order of the first minor that is not positive definite.
template <class S>
struct CholeskyProblem {
    int64_t batch, n;
    Matrices<const S> a;
    Matrices<S> l;
    int32_t* info;
    bool clears;  // the other triangle of l
};

// P a = L U of m x n with partial pivoting. Row k was exchanged with row pivots[k], counted from 1. info: 0, or the first k,
// from 1, for which U(k, k) is 0.
template <class S>
struct LuProblem {
    int64_t batch, m, n;
    Matrices<const S> a;
    Matrices<S> lu;
    int32_t* pivots;
    int64_t pivot_step;  // of neighbouring matrices
    int32_t* info;
};

// a = Q R of m x n: R in the upper triangle of packed, the vectors of reflectors below.
template <class S>
struct QrProblem {
    int64_t batch, m, n;
    Matrices<const S> a;
    Matrices<S> packed;
    S* tau;
    int64_t tau_step;
    int32_t* info;  // zeros
};

// c = the product of reflectors H_i = I - tau_i v_i v_i^H, i < k, and `from`, or the identity; c is m x n, and v m x k with the
// vectors below its diagonal.
template <class S>
struct ReflectProblem {
    int64_t batch, m, n, k;
    Matrices<const S> v;
    const S* tau;
    int64_t tau_step;
    Matrices<const S> from;  // c, or not read
    Matrices<S> c;
    bool is_identity;   // from
    bool is_ascending;  // H_0 is applied first, else the last
    bool conjugates_tau, conjugates_v;
    int32_t* info;  // zeros
};

// Kind of the matrix of a system of equations.
enum class Solves : int32_t {
    kLower,     // a lower triangle
    kUpper,     // an upper triangle
    kLu,        // L and U of one
    kAdjoint,   // the transposed view of L and U
    kCholesky,  // a lower triangle L, of L L^H
    kGeneral,   // any matrix, which is factored
};

// x = m^-1 b of n x n matrices and n x k right-hand sides, b being the identity if is_identity. info of kGeneral is that of
// LuProblem; a singular matrix gives NaN.
template <class S>
struct SolveProblem {
    int64_t batch, n, k;
    Solves what;
    bool unit;        // the diagonal of a triangle
    bool conjugates;  // the matrix
    bool is_identity;
    Matrices<const S> m;
    Matrices<const S> b;
    Matrices<S> x;
    const int32_t* pivots;  // of kLu and kAdjoint, from 1
    int64_t pivot_step;
    Matrices<S> lu;  // of kGeneral, if its data is not NULL
    int32_t* new_pivots;
    int32_t* info;
};

// Determinants of n x n matrices: det, or sign and the logarithm of the modulus; each may be NULL.
template <class S>
struct DeterminantProblem {
    int64_t batch, n;
    Matrices<const S> a;
    S *det, *sign;
    real_t<S>* log_modulus;
};

// The x of least norm that makes |a x - b| least, for m x n matrices a of any rank: columns of a with a diagonal element of
// the pivoted R above rcond times the first count.
template <class S>
struct LeastSquaresProblem {
    int64_t batch, m, n, k;
    Matrices<const S> a, b;
    Matrices<S> x;
    real_t<S> rcond;
    real_t<S>* residuals;  // [batch, k] sums of |a x - b|^2, or NULL
    int32_t* rank;         // or NULL
    int32_t* info;         // zeros
};

// ld, pivots = the factors of symmetric or Hermitian a, of which the lower triangle is read; or, if x is given, x = a^-1 b with
// the factors in a (linalg/drivers/ldl.h).
template <class S>
struct LdlProblem {
    int64_t batch, n, k;  // k: right-hand sides, 0 for a factorisation
    bool hermitian;
    Matrices<const S> a;
    Matrices<S> ld;
    int32_t* new_pivots;
    int32_t* info;
    const int32_t* pivots;
    Matrices<const S> b;
    Matrices<S> x;
};

// e = exp(a) of n x n matrices.
template <class S>
struct ExponentialProblem {
    int64_t batch, n;
    Matrices<const S> a;
    Matrices<S> e;
};

// Parts of factorisations as matrices of their own: the triangles below and above, of LuProblem with its permutation P^T
// (a = P^T L U), of QrProblem R alone. Outputs without data are not wanted.
template <class S>
struct UnpackProblem {
    int64_t batch, m, n;
    Matrices<const S> packed;
    const int32_t* pivots;
    Matrices<S> p, l, u;
    int64_t u_rows;
};

// Drivers. Each has a function of the bytes of workspace that a problem needs.
template <class S>
int64_t cholesky_bytes(int64_t batch, int64_t n);
template <class S>
Status cholesky(const Launch& launch, const CholeskyProblem<S>& p, void* workspace);

template <class S>
int64_t lu_bytes(int64_t batch, int64_t m, int64_t n);
template <class S>
Status factor_lu(const Launch& launch, const LuProblem<S>& p, void* workspace);

template <class S>
int64_t qr_bytes(int64_t batch, int64_t m, int64_t n);
template <class S>
Status factor_qr(const Launch& launch, const QrProblem<S>& p, void* workspace);

template <class S>
int64_t reflect_bytes(int64_t batch, int64_t m, int64_t n, int64_t k);
template <class S>
Status reflect(const Launch& launch, const ReflectProblem<S>& p, void* workspace);

template <class S>
int64_t solve_bytes(const SolveProblem<S>& p);
template <class S>
Status solve(const Launch& launch, const SolveProblem<S>& p, void* workspace);

template <class S>
int64_t determinant_bytes(int64_t batch, int64_t n);
template <class S>
Status determinant(const Launch& launch, const DeterminantProblem<S>& p, void* workspace);

template <class S>
int64_t least_squares_bytes(int64_t batch, int64_t m, int64_t n, int64_t k);
template <class S>
Status least_squares(const Launch& launch, const LeastSquaresProblem<S>& p, void* workspace);

template <class S>
int64_t ldl_bytes(int64_t batch, int64_t n, int64_t k);
template <class S>
Status ldl(const Launch& launch, const LdlProblem<S>& p, void* workspace);

template <class S>
int64_t exponential_bytes(int64_t batch, int64_t n);
template <class S>
Status exponential(const Launch& launch, const ExponentialProblem<S>& p, void* workspace);

template <class S>
Status unpack(const Launch& launch, const UnpackProblem<S>& p);

}  // namespace bk::linalg
