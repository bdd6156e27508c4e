// SPDX-License-Identifier: Apache-2.0
// Ops of native/linalg/tables/solve.abi: solutions, inverses and determinants of batches of strided matrices.
#pragma once

#include <algorithm>

#include "linalg/ops/operands.h"
#include "linalg/product.h"

namespace bk::linalg {

// The operands of solutions: a of n x n, b and x of n x k.
struct SolveExtents {
    int32_t batch, n, k;
    const int64_t *stride_a, *stride_b, *stride_x;
    const char* name_a;

    StridedMatrices of_a() const { return {name_a, stride_a, {batch, n, n}}; }
    StridedMatrices of_b() const { return {"stride_b", stride_b, {batch, n, k}}; }
    StridedMatrices of_x() const { return {"stride_x", stride_x, {batch, n, k}}; }
    Status check_scalars() const { return require_non_negative({{"batch", batch}, {"n", n}, {"k", k}}); }
    Status check() const {
        BK_TRY(check_scalars());
        BK_TRY(of_a().require(false));
        BK_TRY(of_b().require(false));
        return of_x().require(true);
    }
    template <class T>
    SolveProblem<scalar_t<T>> problem(Solves what, const T* a, const T* b, T* x) const {
        SolveProblem<scalar_t<T>> p{};
        p.batch = batch;
        p.n = n;
        p.k = k;
        p.what = what;
        if (a != nullptr) p.m = matrices(a, stride_a);
        if (b != nullptr) p.b = matrices(b, stride_b);
        if (x != nullptr) p.x = matrices(x, stride_x);
        p.pivot_step = n;
        return p;
    }
};

template <class S>
Status run_solve(const Launch& launch, const SolveProblem<S>& p) {
    void* workspace;
    BK_TRY(take_workspace(launch, solve_bytes(p), &workspace));
    return solve<S>(launch, p, workspace);
}

// Operands and checks that the ops of solutions share; Op has the fields and `extents`.
template <class Op, class T>
struct SolveOperands {
    const Op& op() const { return static_cast<const Op&>(*this); }
    Work work() const { return all_or_none(int64_t{op().batch} * op().n * op().k); }
    Status locate_a(Operand* operand, const char* name, Role role, int64_t size) const {
        return op().extents().of_a().locate(operand, name, role, size);
    }
    Status locate_b(Operand* operand, const char* name, Role role, int64_t size) const {
        return op().extents().of_b().locate(operand, name, role, size);
    }
    Status locate_x(Operand* operand, const char* name, Role role, int64_t size) const {
        return op().extents().of_x().locate(operand, name, role, size);
    }
    Status check() const {
        BK_TRY(op().check_scalars());
        return op().extents().check();
    }
    size_t workspace_size() const { return carved(solve_bytes(op().template problem<T>(nullptr, nullptr, nullptr))); }
};

template <class T>
struct TriangularOp : SolveOperands<TriangularOp<T>, T> {
    int32_t batch;
    int32_t n;
    int32_t k;
    int32_t upper;
    int32_t unit;
    int32_t conjugates;
    const int64_t* stride_a;
    const int64_t* stride_b;
    const int64_t* stride_x;

    SolveExtents extents() const { return {batch, n, k, stride_a, stride_b, stride_x, "stride_a"}; }
    Status check_scalars() const {
        BK_TRY(extents().check_scalars());
        BK_TRY(require_flag("upper", upper));
        BK_TRY(require_flag("unit", unit));
        return require_flag("conjugates", conjugates);
    }
    template <class E>
    SolveProblem<scalar_t<T>> problem(const E* a, const E* b, E* x) const {
        auto p = extents().problem(upper != 0 ? Solves::kUpper : Solves::kLower, a, b, x);
        p.unit = unit != 0;
        p.conjugates = conjugates != 0;
        return p;
    }
    Status run(const T* a, const T* b, T* x, const Launch& launch) const { return run_solve(launch, problem(a, b, x)); }
};

template <class T>
struct CholeskySolveOp : SolveOperands<CholeskySolveOp<T>, T> {
    int32_t batch;
    int32_t n;
    int32_t k;
    int32_t upper;
    const int64_t* stride_a;
    const int64_t* stride_b;
    const int64_t* stride_x;

    SolveExtents extents() const { return {batch, n, k, stride_a, stride_b, stride_x, "stride_a"}; }
    Status check_scalars() const {
        BK_TRY(extents().check_scalars());
        return require_flag("upper", upper);
    }
    template <class E>
    SolveProblem<scalar_t<T>> problem(const E* a, const E* b, E* x) const {
        auto p = extents().problem(Solves::kCholesky, a, b, x);
        p.m = lower_view(p.m, upper != 0);
        p.conjugates = upper != 0;  // the transposed view of U is the conjugate of L
        return p;
    }
    Status run(const T* a, const T* b, T* x, const Launch& launch) const { return run_solve(launch, problem(a, b, x)); }
};

template <class T>
struct LuSolveOp : SolveOperands<LuSolveOp<T>, T> {
    int32_t batch;
    int32_t n;
    int32_t k;
    int32_t transposes;
    int32_t conjugates;
    const int64_t* stride_lu;
    const int64_t* stride_b;
    const int64_t* stride_x;

    SolveExtents extents() const { return {batch, n, k, stride_lu, stride_b, stride_x, "stride_lu"}; }
    Status locate_lu(Operand* operand, const char* name, Role role, int64_t size) const {
        return this->locate_a(operand, name, role, size);
    }
    Status check_scalars() const {
        BK_TRY(extents().check_scalars());
        BK_TRY(require_flag("transposes", transposes));
        return require_flag("conjugates", conjugates);
    }
    template <class E>
    SolveProblem<scalar_t<T>> problem(const E* lu, const E* b, E* x) const {
        auto p = extents().problem(transposes == 0 ? Solves::kLu : Solves::kAdjoint, lu, b, x);
        if (transposes != 0) p.m = p.m.transposed();
        p.conjugates = conjugates != 0;
        return p;
    }
    Status run(const T* lu, const int32_t* pivots, const T* b, T* x, const Launch& launch) const {
        auto p = problem(lu, b, x);
        p.pivots = pivots;
        return run_solve(launch, p);
    }
};

template <class T>
struct SolveOp : SolveOperands<SolveOp<T>, T> {
    int32_t batch;
    int32_t n;
    int32_t k;
    const int64_t* stride_a;
    const int64_t* stride_b;
    const int64_t* stride_x;

    SolveExtents extents() const { return {batch, n, k, stride_a, stride_b, stride_x, "stride_a"}; }
    Work work() const { return all_or_none(batch); }
    Status check_scalars() const { return extents().check_scalars(); }
    template <class E>
    SolveProblem<scalar_t<T>> problem(const E* a, const E* b, E* x) const {
        return extents().problem(Solves::kGeneral, a, b, x);
    }
    Status run(const T* a, const T* b, T* x, int32_t* info, const Launch& launch) const {
        if (n == 0) return fill_bytes(launch, info, 0, batch * sizeof(int32_t));
        auto p = problem(a, k == 0 ? nullptr : b, k == 0 ? nullptr : x);
        p.info = info;
        return run_solve(launch, p);
    }
};

template <class T>
struct InverseOp {
    int32_t batch;
    int32_t n;
    const int64_t* stride_a;
    const int64_t* stride_x;

    Work work() const { return all_or_none(batch); }
    SolveExtents extents() const { return {batch, n, n, stride_a, nullptr, stride_x, "stride_a"}; }
    Status check_scalars() const { return require_non_negative({{"batch", batch}, {"n", n}}); }
    Status check() const {
        BK_TRY(check_scalars());
        BK_TRY(extents().of_a().require(false));
        return extents().of_x().require(true);
    }
    Status locate_a(Operand* operand, const char* name, Role role, int64_t size) const {
        return extents().of_a().locate(operand, name, role, size);
    }
    Status locate_x(Operand* operand, const char* name, Role role, int64_t size) const {
        return extents().of_x().locate(operand, name, role, size);
    }
    SolveProblem<scalar_t<T>> problem(const T* a, T* x) const {
        const T* const none = nullptr;
        auto p = extents().problem(Solves::kGeneral, a, none, x);
        p.is_identity = true;
        return p;
    }
    size_t workspace_size() const { return carved(solve_bytes(problem(nullptr, nullptr))); }
    Status run(const T* a, T* x, int32_t* info, const Launch& launch) const {
        if (n == 0) return fill_bytes(launch, info, 0, batch * sizeof(int32_t));
        auto p = problem(a, x);
        p.info = info;
        return run_solve(launch, p);
    }
};

template <class T>
struct DeterminantOp {
    int32_t batch;
    int32_t n;
    const int64_t* stride_a;

    Work work() const { return all_or_none(batch); }
    StridedMatrices of_a() const { return {"stride_a", stride_a, {batch, n, n}}; }
    Status check_scalars() const { return require_non_negative({{"batch", batch}, {"n", n}}); }
    Status check() const {
        BK_TRY(check_scalars());
        return of_a().require(false);
    }
    Status locate_a(Operand* operand, const char* name, Role role, int64_t size) const {
        return of_a().locate(operand, name, role, size);
    }
    int64_t bytes() const { return determinant_bytes<scalar_t<T>>(batch, n); }
    size_t workspace_size() const { return carved(bytes()); }

protected:
    Status run_all(const T* a, T* det, T* sign, real_t<scalar_t<T>>* log_modulus, const Launch& launch) const {
        using S = scalar_t<T>;
        void* workspace;
        BK_TRY(take_workspace(launch, bytes(), &workspace));
        return determinant<S>(
            launch, {batch, n, n == 0 ? Matrices<const S>{} : matrices(a, stride_a), scalars(det), scalars(sign), log_modulus},
            workspace);
    }
};

template <class T>
struct DetOp : DeterminantOp<T> {
    Status run(const T* a, T* det, const Launch& launch) const { return this->run_all(a, det, nullptr, nullptr, launch); }
};

template <class T>
struct SlogdetOp : DeterminantOp<T> {
    Status run(const T* a, T* sign, real_t<scalar_t<T>>* logabsdet, const Launch& launch) const {
        return this->run_all(a, nullptr, sign, logabsdet, launch);
    }
};

template <class T>
struct LeastSquaresOp {
    int32_t batch;
    int32_t m;
    int32_t n;
    int32_t k;
    double rcond;
    const int64_t* stride_a;
    const int64_t* stride_b;
    const int64_t* stride_x;

    Work work() const { return all_or_none(batch); }
    StridedMatrices of_a() const { return {"stride_a", stride_a, {batch, m, n}}; }
    StridedMatrices of_b() const { return {"stride_b", stride_b, {batch, m, k}}; }
    StridedMatrices of_x() const { return {"stride_x", stride_x, {batch, n, k}}; }
    Status check_scalars() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"m", m}, {"n", n}, {"k", k}}));
        return rcond == rcond ? Status::kOk : fail(Status::kInvalidProblem, "rcond is %g, must be a number", rcond);
    }
    Status check() const {
        BK_TRY(check_scalars());
        BK_TRY(of_a().require(false));
        BK_TRY(of_b().require(false));
        return of_x().require(true);
    }
    Status locate_a(Operand* operand, const char* name, Role role, int64_t size) const {
        return of_a().locate(operand, name, role, size);
    }
    Status locate_b(Operand* operand, const char* name, Role role, int64_t size) const {
        return of_b().locate(operand, name, role, size);
    }
    Status locate_x(Operand* operand, const char* name, Role role, int64_t size) const {
        return of_x().locate(operand, name, role, size);
    }
    int64_t bytes() const { return least_squares_bytes<scalar_t<T>>(batch, m, n, k); }
    size_t workspace_size() const { return carved(bytes()); }

    real_t<scalar_t<T>> threshold() const {
        using R = real_t<scalar_t<T>>;
        return rcond < 0 ? kEpsilon<R> * static_cast<R>(std::max(m, n)) : static_cast<R>(rcond);
    }

    Status run(const T* a, const T* b, T* x, real_t<scalar_t<T>>* residuals, int32_t* rank, const Launch& launch) const {
        using S = scalar_t<T>;
        void* workspace;
        BK_TRY(take_workspace(launch, bytes(), &workspace));
        LeastSquaresProblem<S> p{batch, m, n, k, {}, {}, {}, threshold(), residuals, rank, nullptr};
        if (!of_a().is_empty()) p.a = matrices(a, stride_a);
        if (!of_b().is_empty()) p.b = matrices(b, stride_b);
        if (!of_x().is_empty()) p.x = matrices(x, stride_x);
        return least_squares<S>(launch, p, workspace);
    }
};

template <class T>
struct LdlSolveOp {
    int32_t batch;
    int32_t n;
    int32_t k;
    int32_t hermitian;
    const int64_t* stride_ld;
    const int64_t* stride_b;
    const int64_t* stride_x;

    SolveExtents extents() const { return {batch, n, k, stride_ld, stride_b, stride_x, "stride_ld"}; }
    Work work() const { return all_or_none(int64_t{batch} * n * k); }
    Status check_scalars() const {
        BK_TRY(extents().check_scalars());
        return require_flag("hermitian", hermitian);
    }
    Status check() const {
        BK_TRY(check_scalars());
        return extents().check();
    }
    Status locate_ld(Operand* operand, const char* name, Role role, int64_t size) const {
        return extents().of_a().locate(operand, name, role, size);
    }
    Status locate_b(Operand* operand, const char* name, Role role, int64_t size) const {
        return extents().of_b().locate(operand, name, role, size);
    }
    Status locate_x(Operand* operand, const char* name, Role role, int64_t size) const {
        return extents().of_x().locate(operand, name, role, size);
    }
    int64_t bytes() const { return ldl_bytes<scalar_t<T>>(batch, n, k); }
    size_t workspace_size() const { return carved(bytes()); }

    Status run(const T* ld, const int32_t* pivots, const T* b, T* x, const Launch& launch) const {
        using S = scalar_t<T>;
        void* workspace;
        BK_TRY(take_workspace(launch, bytes(), &workspace));
        return ldl<S>(launch,
                      {batch,
                       n,
                       k,
                       hermitian != 0,
                       matrices(ld, stride_ld),
                       {},
                       nullptr,
                       nullptr,
                       pivots,
                       matrices(b, stride_b),
                       matrices(x, stride_x)},
                      workspace);
    }
};

template <class T>
struct ExponentialOp {
    int32_t batch;
    int32_t n;
    const int64_t* stride_a;
    const int64_t* stride_e;

    Work work() const { return all_or_none(int64_t{batch} * n); }
    StridedMatrices of(const char* name, const int64_t* strides) const { return {name, strides, {batch, n, n}}; }
    Status check_scalars() const { return require_non_negative({{"batch", batch}, {"n", n}}); }
    Status check() const {
        BK_TRY(check_scalars());
        BK_TRY(of("stride_a", stride_a).require(false));
        return of("stride_e", stride_e).require(true);
    }
    Status locate_a(Operand* operand, const char* name, Role role, int64_t size) const {
        return of("stride_a", stride_a).locate(operand, name, role, size);
    }
    Status locate_e(Operand* operand, const char* name, Role role, int64_t size) const {
        return of("stride_e", stride_e).locate(operand, name, role, size);
    }
    int64_t bytes() const { return exponential_bytes<scalar_t<T>>(batch, n); }
    size_t workspace_size() const { return carved(bytes()); }

    Status run(const T* a, T* e, const Launch& launch) const {
        void* workspace;
        BK_TRY(take_workspace(launch, bytes(), &workspace));
        return exponential<scalar_t<T>>(launch, {batch, n, matrices(a, stride_a), matrices(e, stride_e)}, workspace);
    }
};

template <class T>
struct MatmulOp {
    int32_t batch;
    int32_t m;
    int32_t n;
    int32_t k;
    const int64_t* stride_a;
    const int64_t* stride_b;
    const int64_t* stride_y;

    Work work() const { return all_or_none(int64_t{batch} * m * n); }
    StridedMatrices of_a() const { return {"stride_a", stride_a, {batch, m, k}}; }
    StridedMatrices of_b() const { return {"stride_b", stride_b, {batch, k, n}}; }
    StridedMatrices of_y() const { return {"stride_y", stride_y, {batch, m, n}}; }
    Status check_scalars() const { return require_non_negative({{"batch", batch}, {"m", m}, {"n", n}, {"k", k}}); }
    Status check() const {
        BK_TRY(check_scalars());
        BK_TRY(of_a().require(false));
        BK_TRY(of_b().require(false));
        return of_y().require(true);
    }
    Status locate_a(Operand* operand, const char* name, Role role, int64_t size) const {
        return of_a().locate(operand, name, role, size);
    }
    Status locate_b(Operand* operand, const char* name, Role role, int64_t size) const {
        return of_b().locate(operand, name, role, size);
    }
    Status locate_y(Operand* operand, const char* name, Role role, int64_t size) const {
        return of_y().locate(operand, name, role, size);
    }

    Status run(const T* a, const T* b, T* y, const Launch& launch) const {
        ProductProblem<scalar_t<T>> p{};
        p.batch = batch;
        p.m = m;
        p.n = n;
        p.k = k;
        if (k > 0) {
            p.a = matrices(a, stride_a);
            p.b = matrices(b, stride_b);
        }
        p.c = matrices(y, stride_y);
        return product<scalar_t<T>>(launch, p);
    }
};

}  // namespace bk::linalg
