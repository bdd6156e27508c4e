// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of general matrices: a row with strides and batches, and the reference's function.
#pragma once

#include "linalg/ops/spectral.h"
#include "linalg/spectral/general.h"

namespace bk::linalg {

template <class T>
struct Eig {
    int32_t batch;
    int32_t n;
    const int64_t* stride_a;
    const int64_t* stride_v;
    const int64_t* stride_vl;

    using E = scalar_t<T>;
    using R = real_t<E>;
    using ComplexT = std::conditional_t<std::is_same_v<R, float>, c32, c64>;

    Work work() const { return batch == 0 ? Work::kNone : n == 0 ? Work::kZeros : Work::kAll; }
    BK_COLD Status check() const {
        BK_TRY(check_extents());
        BK_TRY(of_a().require(false));
        BK_TRY(of_v().require(true));
        return of_vl().require(true);
    }
    Status check_extents() const { return require_non_negative({{"batch", batch}, {"n", n}}); }
    Status locate_a(Operand* at, const char* name, Role role, int64_t size) const {
        return of_a().locate(at, name, role, size);
    }
    Status locate_v(Operand* at, const char* name, Role role, int64_t size) const {
        return of_v().locate(at, name, role, size);
    }
    Status locate_vl(Operand* at, const char* name, Role role, int64_t size) const {
        return of_vl().locate(at, name, role, size);
    }
    size_t workspace_size() const { return spectral::team_workspace(batch, n, Job::scratch_bytes(n, true)); }
    Status run(const T* a, ComplexT* w, ComplexT* v, ComplexT* vl, int32_t* info, const Launch& launch) const {
        if (n == 0) return spectral::clear_info(launch, info, batch);
        Job job{};
        job.a = spectral::strided(scalars(a), stride_a);
        job.w = scalars(w);
        job.v[spectral::kRight] = spectral::strided(scalars(v), stride_v);
        job.v[spectral::kLeft] = spectral::strided(scalars(vl), stride_vl);
        job.info = info;
        job.n = n;
        return spectral::run_matrix_teams(launch, batch, n, Job::scratch_bytes(n, true), job);
    }

private:
    using Job = spectral::GeneralJob<E>;
    StridedMatrices of_a() const { return {"stride_a", stride_a, {batch, n, n}}; }
    StridedMatrices of_v() const { return {"stride_v", stride_v, {batch, n, n}}; }
    StridedMatrices of_vl() const { return {"stride_vl", stride_vl, {batch, n, n}}; }
};

// --- the reference's function -------------------------------------------------------------------------------------------

namespace spectral {

// The arguments of eig. Real matrices have real results: n real and n imaginary parts of eigenvalues, and vectors that share
// two columns.
struct EigArguments {
    int32_t jobvl, jobvr;
    int64_t n, lda, ldvl, ldvr;
    void *a, *w, *vl, *vr;
    int32_t* info;

    BK_COLD Status check(size_t size) const {
        BK_TRY(require_flag("jobvl", jobvl));
        BK_TRY(require_flag("jobvr", jobvr));
        BK_TRY(require_positive({{"n", n}}));
        if (n > INT32_MAX) return fail(Status::kUnsupported, "n is %lld, must be < 2^31", static_cast<long long>(n));
        BK_TRY(require_column_pitch("lda", lda, "n", n));
        BK_TRY(require_arrays({{"a_inout", a, size}, {"w_out", w, size}, {"info_out", info, sizeof(int32_t)}}));
        if (jobvl == 1) {
            BK_TRY(require_column_pitch("ldvl", ldvl, "n", n));
            BK_TRY(require_arrays({{"vl_out", vl, size}}));
        }
        if (jobvr == 1) {
            BK_TRY(require_column_pitch("ldvr", ldvr, "n", n));
            BK_TRY(require_arrays({{"vr_out", vr, size}}));
        }
        return Status::kOk;
    }
    template <class E>
    Status run(const Launch& launch) const {
        using R = real_t<E>;
        GeneralJob<E> job{};
        job.a = {static_cast<const E*>(a), Strides::columns(lda)};
        const Strides left = Strides::columns(ldvl), right = Strides::columns(ldvr);
        void* const to_left = jobvl == 1 ? vl : nullptr;
        void* const to_right = jobvr == 1 ? vr : nullptr;
        if constexpr (kIsComplex<E>) {
            job.w = static_cast<E*>(w);
            job.v[kLeft] = {static_cast<E*>(to_left), left};
            job.v[kRight] = {static_cast<E*>(to_right), right};
        } else {
            job.parts = static_cast<R*>(w);
            job.packed[kLeft] = {static_cast<R*>(to_left), left};
            job.packed[kRight] = {static_cast<R*>(to_right), right};
        }
        job.info = info;
        job.n = static_cast<int>(n);
        return run_matrix_teams(launch, 1, n, job.scratch_bytes(job.n, job.wants_vectors()), job);
    }
};

// f(scalar) with a scalar of the dtype that cudaDataType numbers so.
template <class F>
Status with_scalar(int32_t dtype_tag, const F& f) {
    switch (dtype_tag) {
        case 0: return f(float{});
        case 1: return f(double{});
        case 4: return f(Complex<float>{});
        case 5: return f(Complex<double>{});
        default: return fail(Status::kInvalidProblem, "dtype_tag is %d, must be 0, 1, 4 or 5", dtype_tag);
    }
}

}  // namespace spectral

inline Status run_eig(int32_t dtype_tag, int32_t jobvl, int32_t jobvr, int64_t n, int64_t lda, int64_t ldvl, int64_t ldvr,
                      void* a_inout, void* w_out, void* vl_out, void* vr_out, int32_t* info_out, void* workspace_device,
                      size_t workspace_device_bytes, void*, size_t, void* stream) {
    const spectral::EigArguments arguments{jobvl, jobvr, n, lda, ldvl, ldvr, a_inout, w_out, vl_out, vr_out, info_out};
    return spectral::with_scalar(dtype_tag, [&](auto scalar) {
        using E = decltype(scalar);
        BK_TRY(arguments.check(sizeof(E)));
        return arguments.run<E>({workspace_device, workspace_device_bytes, stream});
    });
}

inline Status eig_workspace(int32_t dtype_tag, int32_t jobvl, int32_t jobvr, int64_t n, size_t* out_device_bytes,
                            size_t* out_host_bytes) {
    using namespace spectral;
    BK_TRY(require_flag("jobvl", jobvl));
    BK_TRY(require_flag("jobvr", jobvr));
    BK_TRY(require_positive({{"n", n}}));
    if (n > INT32_MAX) return fail(Status::kUnsupported, "n is %lld, must be < 2^31", static_cast<long long>(n));
    if (out_host_bytes == nullptr) return fail(Status::kInvalidProblem, "out_host_bytes is NULL");
    size_t bytes = 0;
    BK_TRY(with_scalar(dtype_tag, [&](auto scalar) {
        using Job = GeneralJob<decltype(scalar)>;
        bytes = team_workspace(1, n, Job::scratch_bytes(static_cast<int>(n), jobvl == 1 || jobvr == 1));
        return Status::kOk;
    }));
    BK_TRY(set_size("out_device_bytes", out_device_bytes, bytes));
    *out_host_bytes = 0;
    return Status::kOk;
}

}  // namespace bk::linalg
