// SPDX-License-Identifier: Apache-2.0
// Ops of native/linalg/tables/factor.abi: factorisations of batches of strided matrices.
#pragma once

#include <algorithm>

#include "linalg/ops/operands.h"

namespace bk::linalg {

template <class T>
struct CholeskyOp {
    int32_t batch;
    int32_t n;
    int32_t upper;
    const int64_t* stride_a;
    const int64_t* stride_l;

    Work work() const { return all_or_none(batch); }
    StridedMatrices of(const char* name, const int64_t* strides) const { return {name, strides, {batch, n, n}}; }
    Status check_scalars() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"n", n}}));
        return require_flag("upper", upper);
    }
    Status check() const {
        BK_TRY(check_scalars());
        BK_TRY(of("stride_a", stride_a).require(false));
        return of("stride_l", stride_l).require(true);
    }
    Status locate_a(Operand* operand, const char* name, Role role, int64_t size) const {
        return of("stride_a", stride_a).locate(operand, name, role, size);
    }
    Status locate_l(Operand* operand, const char* name, Role role, int64_t size) const {
        return of("stride_l", stride_l).locate(operand, name, role, size);
    }
    int64_t bytes() const { return cholesky_bytes<scalar_t<T>>(batch, n); }
    size_t workspace_size() const { return carved(bytes()); }

    Status run(const T* a, T* l, int32_t* info, const Launch& launch) const {
        if (n == 0) return fill_bytes(launch, info, 0, batch * sizeof(int32_t));
        void* workspace;
        BK_TRY(take_workspace(launch, bytes(), &workspace));
        return cholesky<scalar_t<T>>(launch,
                                     {batch, n, lower_view(matrices(a, stride_a), upper != 0),
                                      lower_view(matrices(l, stride_l), upper != 0), info, true},
                                     workspace);
    }
};

template <class T>
struct LuFactorOp {
    int32_t batch;
    int32_t m;
    int32_t n;
    const int64_t* stride_a;
    const int64_t* stride_lu;

    Work work() const { return all_or_none(batch); }
    int64_t least() const { return std::min(m, n); }
    StridedMatrices of(const char* name, const int64_t* strides) const { return {name, strides, {batch, m, n}}; }
    Status check_scalars() const { return require_non_negative({{"batch", batch}, {"m", m}, {"n", n}}); }
    Status check() const {
        BK_TRY(check_scalars());
        BK_TRY(of("stride_a", stride_a).require(false));
        return of("stride_lu", stride_lu).require(true);
    }
    Status locate_a(Operand* operand, const char* name, Role role, int64_t size) const {
        return of("stride_a", stride_a).locate(operand, name, role, size);
    }
    Status locate_lu(Operand* operand, const char* name, Role role, int64_t size) const {
        return of("stride_lu", stride_lu).locate(operand, name, role, size);
    }
    int64_t bytes() const { return lu_bytes<scalar_t<T>>(batch, m, n); }
    size_t workspace_size() const { return carved(bytes()); }

    Status run(const T* a, T* lu, int32_t* pivots, int32_t* info, const Launch& launch) const {
        if (least() == 0) return fill_bytes(launch, info, 0, batch * sizeof(int32_t));
        void* workspace;
        BK_TRY(take_workspace(launch, bytes(), &workspace));
        return factor_lu<scalar_t<T>>(
            launch, {batch, m, n, matrices(a, stride_a), matrices(lu, stride_lu), pivots, least(), info}, workspace);
    }
};

template <class T>
struct QrFactorOp {
    int32_t batch;
    int32_t m;
    int32_t n;
    const int64_t* stride_a;
    const int64_t* stride_packed;

    Work work() const { return all_or_none(batch * least()); }
    int64_t least() const { return std::min(m, n); }
    StridedMatrices of(const char* name, const int64_t* strides) const { return {name, strides, {batch, m, n}}; }
    Status check_scalars() const { return require_non_negative({{"batch", batch}, {"m", m}, {"n", n}}); }
    Status check() const {
        BK_TRY(check_scalars());
        BK_TRY(of("stride_a", stride_a).require(false));
        return of("stride_packed", stride_packed).require(true);
    }
    Status locate_a(Operand* operand, const char* name, Role role, int64_t size) const {
        return of("stride_a", stride_a).locate(operand, name, role, size);
    }
    Status locate_packed(Operand* operand, const char* name, Role role, int64_t size) const {
        return of("stride_packed", stride_packed).locate(operand, name, role, size);
    }
    int64_t bytes() const { return qr_bytes<scalar_t<T>>(batch, m, n); }
    size_t workspace_size() const { return carved(bytes()); }

    Status run(const T* a, T* packed, T* tau, const Launch& launch) const {
        void* workspace;
        BK_TRY(take_workspace(launch, bytes(), &workspace));
        return factor_qr<scalar_t<T>>(
            launch, {batch, m, n, matrices(a, stride_a), matrices(packed, stride_packed), scalars(tau), least(), nullptr},
            workspace);
    }
};

template <class T>
struct ReflectOp {
    int32_t batch;
    int32_t m;
    int32_t n;
    int32_t k;
    int32_t right;
    int32_t adjoint;
    const int64_t* stride_v;
    const int64_t* stride_c;
    const int64_t* stride_y;

    Work work() const { return all_or_none(int64_t{batch} * m * n); }
    int32_t rows() const { return right != 0 ? n : m; }
    StridedMatrices of(const char* name, const int64_t* strides) const { return {name, strides, {batch, m, n}}; }
    StridedMatrices of_v() const { return {"stride_v", stride_v, {batch, rows(), k}}; }
    Status check_scalars() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"m", m}, {"n", n}, {"k", k}}));
        BK_TRY(require_flag("right", right));
        BK_TRY(require_flag("adjoint", adjoint));
        if (k > rows()) return fail(Status::kInvalidProblem, "k is %d, must be <= %s, %d", k, right != 0 ? "n" : "m", rows());
        return Status::kOk;
    }
    Status check() const {
        BK_TRY(check_scalars());
        BK_TRY(of_v().require(false));
        BK_TRY(of("stride_c", stride_c).require(false));
        return of("stride_y", stride_y).require(true);
    }
    Status locate_v(Operand* operand, const char* name, Role role, int64_t size) const {
        return of_v().locate(operand, name, role, size);
    }
    Status locate_c(Operand* operand, const char* name, Role role, int64_t size) const {
        return of("stride_c", stride_c).locate(operand, name, role, size);
    }
    Status locate_y(Operand* operand, const char* name, Role role, int64_t size) const {
        return of("stride_y", stride_y).locate(operand, name, role, size);
    }
    int64_t bytes() const { return reflect_bytes<scalar_t<T>>(batch, rows(), right != 0 ? m : n, k); }
    size_t workspace_size() const { return carved(bytes()); }

    // c Q is (Q^T c^T)^T, and Q^T has the reflectors of the conjugate vectors in the other order.
    Status run(const T* v, const T* tau, const T* c, T* y, const Launch& launch) const {
        using S = scalar_t<T>;
        void* workspace;
        BK_TRY(take_workspace(launch, bytes(), &workspace));
        ReflectProblem<S> p{batch,
                            m,
                            n,
                            k,
                            k == 0 ? Matrices<const S>{} : matrices(v, stride_v),
                            scalars(tau),
                            k,
                            matrices(c, stride_c),
                            matrices(y, stride_y),
                            false,
                            (right != 0) != (adjoint != 0),
                            adjoint != 0,
                            right != 0,
                            nullptr};
        if (right != 0) {
            std::swap(p.m, p.n);
            p.from = p.from.transposed();
            p.c = p.c.transposed();
        }
        return reflect<S>(launch, p, workspace);
    }
};

template <class T>
struct HouseholderProductOp {
    int32_t batch;
    int32_t m;
    int32_t n;
    int32_t k;
    const int64_t* stride_v;
    const int64_t* stride_q;

    Work work() const { return all_or_none(int64_t{batch} * m * n); }
    StridedMatrices of_v() const { return {"stride_v", stride_v, {batch, m, k}}; }
    StridedMatrices of_q() const { return {"stride_q", stride_q, {batch, m, n}}; }
    Status check_scalars() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"m", m}, {"n", n}, {"k", k}}));
        if (n > m) return fail(Status::kInvalidProblem, "n is %d, must be <= m, %d", n, m);
        if (k > m) return fail(Status::kInvalidProblem, "k is %d, must be <= m, %d", k, m);
        return Status::kOk;
    }
    Status check() const {
        BK_TRY(check_scalars());
        BK_TRY(of_v().require(false));
        return of_q().require(true);
    }
    Status locate_v(Operand* operand, const char* name, Role role, int64_t size) const {
        return of_v().locate(operand, name, role, size);
    }
    Status locate_q(Operand* operand, const char* name, Role role, int64_t size) const {
        return of_q().locate(operand, name, role, size);
    }
    int64_t bytes() const { return reflect_bytes<scalar_t<T>>(batch, m, n, k); }
    size_t workspace_size() const { return carved(bytes()); }

    Status run(const T* v, const T* tau, T* q, const Launch& launch) const {
        using S = scalar_t<T>;
        void* workspace;
        BK_TRY(take_workspace(launch, bytes(), &workspace));
        return reflect<S>(launch,
                          {batch,
                           m,
                           n,
                           k,
                           k == 0 ? Matrices<const S>{} : matrices(v, stride_v),
                           scalars(tau),
                           k,
                           {},
                           matrices(q, stride_q),
                           true,
                           false,
                           false,
                           false,
                           nullptr},
                          workspace);
    }
};

// a = P L U as matrices.
template <class T>
struct LuOp {
    int32_t batch;
    int32_t m;
    int32_t n;
    const int64_t* stride_a;

    Work work() const { return all_or_none(int64_t{batch} * m * (m + int64_t{n})); }
    int64_t least() const { return std::min(m, n); }
    StridedMatrices of_a() const { return {"stride_a", stride_a, {batch, m, n}}; }
    Status check_scalars() const { return require_non_negative({{"batch", batch}, {"m", m}, {"n", n}}); }
    Status check() const {
        BK_TRY(check_scalars());
        return of_a().require(false);
    }
    Status locate_a(Operand* operand, const char* name, Role role, int64_t size) const {
        return of_a().locate(operand, name, role, size);
    }
    struct Parts {
        scalar_t<T>* packed;
        int32_t* pivots;
        char* scratch;
    };
    int64_t bytes() const { return lu_bytes<scalar_t<T>>(batch, m, n); }
    Parts carve(Carver* carver) const {
        return {carver->take<scalar_t<T>>(int64_t{batch} * m * n), carver->take<int32_t>(batch * least()),
                carver->take<char>(bytes())};
    }
    size_t workspace_size() const {
        Carver carver;
        carve(&carver);
        return carver.bytes();
    }

    Status run(const T* a, T* p, T* l, T* u, const Launch& launch) const {
        using S = scalar_t<T>;
        BK_TRY(require_workspace(launch, workspace_size()));
        Carver carver(launch.workspace);
        const Parts parts = carve(&carver);
        const Matrices<S> lu = column_major(parts.packed, m, int64_t{m} * n);
        if (least() > 0)
            BK_TRY(
                factor_lu<S>(launch, {batch, m, n, matrices(a, stride_a), lu, parts.pivots, least(), nullptr}, parts.scratch));
        const auto rows = [&](T* data, int64_t r, int64_t c) { return Matrices<S>{scalars(data), r * c, c, 1}; };
        UnpackProblem<S> q{batch,  m, n, lu.constant(), parts.pivots, rows(p, m, m), rows(l, m, least()), rows(u, least(), n),
                           least()};
        if (least() == 0) q.l.data = q.u.data = nullptr;
        return unpack<S>(launch, q);
    }
};

// a = Q R as matrices.
template <class T>
struct QrOp {
    int32_t batch;
    int32_t m;
    int32_t n;
    int32_t complete;
    const int64_t* stride_a;

    Work work() const { return all_or_none(batch * columns() * (m + int64_t{n})); }
    int64_t least() const { return std::min(m, n); }
    int64_t columns() const { return complete != 0 ? m : least(); }
    StridedMatrices of_a() const { return {"stride_a", stride_a, {batch, m, n}}; }
    Status check_scalars() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"m", m}, {"n", n}}));
        return require_flag("complete", complete);
    }
    Status check() const {
        BK_TRY(check_scalars());
        return of_a().require(false);
    }
    Status locate_a(Operand* operand, const char* name, Role role, int64_t size) const {
        return of_a().locate(operand, name, role, size);
    }
    struct Parts {
        scalar_t<T>*packed, *tau;
        char* scratch;
    };
    int64_t bytes() const {
        return std::max(qr_bytes<scalar_t<T>>(batch, m, n), reflect_bytes<scalar_t<T>>(batch, m, columns(), least()));
    }
    Parts carve(Carver* carver) const {
        return {carver->take<scalar_t<T>>(int64_t{batch} * m * n), carver->take<scalar_t<T>>(batch * least()),
                carver->take<char>(bytes())};
    }
    size_t workspace_size() const {
        Carver carver;
        carve(&carver);
        return carver.bytes();
    }

    Status run(const T* a, T* q, T* r, const Launch& launch) const {
        using S = scalar_t<T>;
        BK_TRY(require_workspace(launch, workspace_size()));
        Carver carver(launch.workspace);
        const Parts parts = carve(&carver);
        const Matrices<S> packed = column_major(parts.packed, m, int64_t{m} * n);
        if (least() > 0)
            BK_TRY(
                factor_qr<S>(launch, {batch, m, n, matrices(a, stride_a), packed, parts.tau, least(), nullptr}, parts.scratch));
        const Matrices<S> of_q{scalars(q), m * columns(), columns(), 1};
        if (q != nullptr && m > 0)
            BK_TRY(reflect<S>(launch,
                              {batch,
                               m,
                               columns(),
                               least(),
                               packed.constant(),
                               parts.tau,
                               least(),
                               {},
                               of_q,
                               true,
                               false,
                               false,
                               false,
                               nullptr},
                              parts.scratch));
        if (r == nullptr || n == 0) return Status::kOk;
        const Matrices<S> of_r{scalars(r), columns() * n, n, 1};
        return unpack<S>(launch, {batch, m, n, packed.constant(), nullptr, {}, {}, of_r, columns()});
    }
};

template <class T>
struct LdlFactorOp {
    int32_t batch;
    int32_t n;
    int32_t hermitian;
    const int64_t* stride_a;
    const int64_t* stride_ld;

    Work work() const { return all_or_none(batch); }
    StridedMatrices of(const char* name, const int64_t* strides) const { return {name, strides, {batch, n, n}}; }
    Status check_scalars() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"n", n}}));
        return require_flag("hermitian", hermitian);
    }
    Status check() const {
        BK_TRY(check_scalars());
        BK_TRY(of("stride_a", stride_a).require(false));
        return of("stride_ld", stride_ld).require(true);
    }
    Status locate_a(Operand* operand, const char* name, Role role, int64_t size) const {
        return of("stride_a", stride_a).locate(operand, name, role, size);
    }
    Status locate_ld(Operand* operand, const char* name, Role role, int64_t size) const {
        return of("stride_ld", stride_ld).locate(operand, name, role, size);
    }
    int64_t bytes() const { return ldl_bytes<scalar_t<T>>(batch, n, 0); }
    size_t workspace_size() const { return carved(bytes()); }

    Status run(const T* a, T* ld, int32_t* pivots, int32_t* info, const Launch& launch) const {
        using S = scalar_t<T>;
        if (n == 0) return fill_bytes(launch, info, 0, batch * sizeof(int32_t));
        void* workspace;
        BK_TRY(take_workspace(launch, bytes(), &workspace));
        return ldl<S>(
            launch,
            {batch, n, 0, hermitian != 0, matrices(a, stride_a), matrices(ld, stride_ld), pivots, info, nullptr, {}, {}},
            workspace);
    }
};

}  // namespace bk::linalg
