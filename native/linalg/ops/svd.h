// SPDX-License-Identifier: Apache-2.0
// Singular values: a row with strides and batches, and the reference's functions.
#pragma once

#include "linalg/ops/host_numbers.h"
#include "linalg/ops/spectral.h"
#include "linalg/spectral/singular.h"

namespace bk::linalg {

template <class T>
struct Svd {
    int32_t batch;
    int32_t m;
    int32_t n;
    int32_t full_matrices;
    const int64_t* stride_a;
    const int64_t* stride_u;
    const int64_t* stride_vh;

    int32_t least() const { return std::min(m, n); }
    int32_t left_vectors() const { return full_matrices != 0 ? m : least(); }
    int32_t right_vectors() const { return full_matrices != 0 ? n : least(); }
    // A matrix without elements has vectors if all are wanted: an identity.
    Work work() const { return batch == 0 ? Work::kNone : m == 0 || n == 0 ? Work::kZeros : Work::kAll; }
    BK_COLD Status check() const {
        BK_TRY(check_extents());
        BK_TRY(of_a().require(false));
        BK_TRY(of_u().require(true));
        return of_vh().require(true);
    }
    Status check_extents() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"m", m}, {"n", n}}));
        return require_flag("full_matrices", full_matrices);
    }
    Status locate_a(Operand* at, const char* name, Role role, int64_t size) const {
        return of_a().locate(at, name, role, size);
    }
    Status locate_u(Operand* at, const char* name, Role role, int64_t size) const {
        return of_u().locate(at, name, role, size);
    }
    Status locate_vh(Operand* at, const char* name, Role role, int64_t size) const {
        return of_vh().locate(at, name, role, size);
    }
    size_t workspace_size() const { return spectral::team_workspace(batch, std::max(m, n), Job::scratch_bytes(shape(true))); }
    Status run(const T* a, real_t<scalar_t<T>>* s, T* u, T* vh, int32_t* info, const Launch& launch) const {
        if (work() == Work::kZeros) return identities(u, vh, info, launch);
        Job job{};
        job.a = spectral::strided(scalars(a), stride_a);
        job.u = spectral::strided(scalars(u), stride_u);
        job.v = spectral::strided(scalars(vh), stride_vh);
        job.v.by = job.v.by.transposed();
        job.conjugates_v = true;
        job.s = s;
        job.step_s = least();
        job.info = info;
        job.shape = shape(u != nullptr || vh != nullptr);
        job.rank = std::max(m, n);
        return spectral::run_matrix_teams(launch, batch, std::max(m, n), Job::scratch_bytes(job.shape), job);
    }

private:
    using Job = spectral::SingularJob<scalar_t<T>>;
    StridedMatrices of_a() const { return {"stride_a", stride_a, {batch, m, n}}; }
    StridedMatrices of_u() const { return {"stride_u", stride_u, {batch, m, left_vectors()}}; }
    StridedMatrices of_vh() const { return {"stride_vh", stride_vh, {batch, right_vectors(), n}}; }
    spectral::SingularShape shape(bool wants_vectors) const { return {m, n, wants_vectors, full_matrices != 0}; }
    Status identities(T* u, T* vh, int32_t* info, const Launch& launch) const {
        BK_TRY(spectral::clear_info(launch, info, batch));
        const int64_t extent = std::max(m, n);
        const auto to = m != 0 ? spectral::strided(scalars(u), stride_u) : spectral::strided(scalars(vh), stride_vh);
        if (full_matrices == 0 || extent == 0 || to.base == nullptr) return Status::kOk;
        return run_items(launch, batch * extent * extent, sizeof(T), spectral::ConstantJob<scalar_t<T>>{to, extent, true});
    }
};

// --- the reference's functions ------------------------------------------------------------------------------------------

namespace spectral {
constexpr char kAllVectors = 'A', kReducedVectors = 'S', kNoVectors = 'N';

BK_COLD inline Status require_job(const char* name, uint8_t job) {
    if (job == kAllVectors || job == kReducedVectors || job == kNoVectors) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %d, must be 'A', 'S' or 'N'", name, job);
}
}  // namespace spectral

template <class T>
Status svd_workspace(int32_t m, int32_t n, size_t* out_bytes) {
    BK_TRY(spectral::require_positive({{"m", m}, {"n", n}}));
    return spectral::set_size(
        "out_bytes", out_bytes,
        spectral::team_workspace(1, std::max(m, n), spectral::SingularJob<scalar_t<T>>::scratch_bytes({m, n, true, true})));
}

// One column-major matrix with m >= n; vt_out is V^T.
template <class T>
Status run_svd(uint8_t jobu, uint8_t jobv, int32_t m, int32_t n, int32_t lda, void* a_inout, int32_t ldu, int32_t ldvt,
               void* s_out, void* u_out, void* vt_out, int32_t* info_out, void* workspace, size_t workspace_bytes,
               void* stream) {
    using namespace spectral;
    BK_TRY(require_job("jobu", jobu));
    BK_TRY(require_job("jobv", jobv));
    BK_TRY(require_positive({{"m", m}, {"n", n}}));
    if (m < n) return fail(Status::kInvalidProblem, "m is %d, must be >= n, %d", m, n);
    BK_TRY(require_column_pitch("lda", lda, "m", m));
    BK_TRY(require_arrays(
        {{"a_inout", a_inout, sizeof(T)}, {"s_out", s_out, sizeof(T)}, {"info_out", info_out, sizeof(int32_t)}}));
    if (jobu != kNoVectors) {
        BK_TRY(require_column_pitch("ldu", ldu, "m", m));
        BK_TRY(require_arrays({{"u_out", u_out, sizeof(T)}}));
    }
    if (jobv != kNoVectors) {
        BK_TRY(require_column_pitch("ldvt", ldvt, "n", n));
        BK_TRY(require_arrays({{"vt_out", vt_out, sizeof(T)}}));
    }
    SingularJob<scalar_t<T>> job{};
    job.a = {static_cast<const T*>(a_inout), Strides::columns(lda)};
    job.u = {jobu == kNoVectors ? nullptr : static_cast<T*>(u_out), Strides::columns(ldu)};
    job.v = {jobv == kNoVectors ? nullptr : static_cast<T*>(vt_out), Strides::columns(ldvt).transposed()};
    job.s = static_cast<T*>(s_out);
    job.info = info_out;
    job.shape = {m, n, jobu != kNoVectors || jobv != kNoVectors, jobu == kAllVectors};
    job.rank = m;
    return run_matrix_teams({workspace, workspace_bytes, stream}, 1, m, job.scratch_bytes(job.shape), job);
}

template <class T>
Status svd_batched_workspace(int32_t jobz, int32_t n, int32_t batch_size, size_t* out_bytes) {
    BK_TRY(require_flag("jobz", jobz));
    BK_TRY(spectral::require_positive({{"n", n}, {"batch_size", batch_size}}));
    return spectral::set_size(
        "out_bytes", out_bytes,
        spectral::team_workspace(batch_size, n, spectral::SingularJob<scalar_t<T>>::scratch_bytes({n, n, jobz == 1, false})));
}

// Square column-major matrices; v_out is V.
template <class T>
Status run_svd_batched(int32_t jobz, int32_t n, int32_t lda, int32_t ldu, int32_t ldv, void* a_inout, void* s_out, void* u_out,
                       void* v_out, int32_t* info_out, int32_t batch_size, void* workspace, size_t workspace_bytes,
                       void* stream) {
    using namespace spectral;
    BK_TRY(require_flag("jobz", jobz));
    BK_TRY(require_positive({{"n", n}, {"batch_size", batch_size}}));
    BK_TRY(require_column_pitch("lda", lda, "n", n));
    BK_TRY(require_column_pitch("ldu", ldu, "n", n));
    BK_TRY(require_column_pitch("ldv", ldv, "n", n));
    BK_TRY(require_arrays(
        {{"a_inout", a_inout, sizeof(T)}, {"s_out", s_out, sizeof(T)}, {"info_out", info_out, sizeof(int32_t)}}));
    if (jobz == 1) BK_TRY(require_arrays({{"u_out", u_out, sizeof(T)}, {"v_out", v_out, sizeof(T)}}));
    SingularJob<scalar_t<T>> job{};
    job.a = {static_cast<const T*>(a_inout), Strides::columns(lda, int64_t{lda} * n)};
    job.u = {jobz == 1 ? static_cast<T*>(u_out) : nullptr, Strides::columns(ldu, int64_t{ldu} * n)};
    job.v = {jobz == 1 ? static_cast<T*>(v_out) : nullptr, Strides::columns(ldv, int64_t{ldv} * n)};
    job.s = static_cast<T*>(s_out);
    job.step_s = n;
    job.info = info_out;
    job.shape = {n, n, jobz == 1, false};
    job.rank = n;
    return run_matrix_teams({workspace, workspace_bytes, stream}, batch_size, n, job.scratch_bytes(job.shape), job);
}

namespace spectral {
BK_COLD inline Status check_truncated(int32_t jobz, int32_t rank, int32_t m, int32_t n, int32_t batch_size) {
    BK_TRY(require_flag("jobz", jobz));
    BK_TRY(require_positive({{"m", m}, {"n", n}, {"batch_size", batch_size}}));
    if (rank < 1 || rank > std::min(m, n))
        return fail(Status::kInvalidProblem, "rank is %d, must be in [1, %d]", rank, std::min(m, n));
    return Status::kOk;
}

// Bytes of the residuals, which begin the workspace, and of the teams' scratch behind them.
template <class T>
size_t truncated_bytes(const SingularShape& shape, int32_t batch_size, size_t* of_residuals) {
    Carver carver;
    carver.take<double>(batch_size);
    *of_residuals = carver.bytes();
    return *of_residuals +
           team_workspace(batch_size, std::max(shape.m, shape.n), SingularJob<scalar_t<T>>::scratch_bytes(shape));
}
}  // namespace spectral

template <class T>
Status svda_batched_workspace(int32_t jobz, int32_t rank, int32_t m, int32_t n, int32_t batch_size, size_t* out_bytes) {
    BK_TRY(spectral::check_truncated(jobz, rank, m, n, batch_size));
    size_t of_residuals = 0;
    return spectral::set_size("out_bytes", out_bytes,
                              spectral::truncated_bytes<T>({m, n, jobz == 1, false}, batch_size, &of_residuals));
}

// The `rank` largest singular values of column-major matrices and their vectors; v_out is V. h_r_nrm_f_out is in host memory.
template <class T>
Status run_svda_batched(int32_t jobz, int32_t rank, int32_t m, int32_t n, int32_t lda, int32_t ldu, int32_t ldv,
                        int64_t stride_a, int64_t stride_s, int64_t stride_u, int64_t stride_v, const void* a_in, void* s_out,
                        void* u_out, void* v_out, int32_t* info_out, double* h_r_nrm_f_out, int32_t batch_size, void* workspace,
                        size_t workspace_bytes, void* stream) {
    using namespace spectral;
    BK_TRY(check_truncated(jobz, rank, m, n, batch_size));
    BK_TRY(require_column_pitch("lda", lda, "m", m));
    BK_TRY(require_column_pitch("ldu", ldu, "m", m));
    BK_TRY(require_column_pitch("ldv", ldv, "n", n));
    BK_TRY(require_arrays({{"a_in", a_in, sizeof(T)}, {"s_out", s_out, sizeof(T)}, {"info_out", info_out, sizeof(int32_t)}}));
    if (jobz == 1) BK_TRY(require_arrays({{"u_out", u_out, sizeof(T)}, {"v_out", v_out, sizeof(T)}}));
    SingularJob<scalar_t<T>> job{};
    job.a = {static_cast<const T*>(a_in), Strides::columns(lda, stride_a)};
    job.u = {jobz == 1 ? static_cast<T*>(u_out) : nullptr, Strides::columns(ldu, stride_u)};
    job.v = {jobz == 1 ? static_cast<T*>(v_out) : nullptr, Strides::columns(ldv, stride_v)};
    job.s = static_cast<T*>(s_out);
    job.step_s = stride_s;
    job.info = info_out;
    job.shape = {m, n, jobz == 1, false};
    job.rank = rank;
    const Launch launch{workspace, workspace_bytes, stream};
    size_t of_residuals = 0;
    BK_TRY(require_workspace(launch, truncated_bytes<T>(job.shape, batch_size, &of_residuals)));
    Carver carver(workspace);
    double* const residuals = carver.take<double>(batch_size);
    job.residual = h_r_nrm_f_out == nullptr ? nullptr : residuals;
    const Launch behind = launch_with_workspace_from(launch, static_cast<char*>(workspace) + of_residuals);
    BK_TRY(run_matrix_teams(behind, batch_size, std::max(m, n), job.scratch_bytes(job.shape), job));
    return h_r_nrm_f_out == nullptr ? Status::kOk : copy_to_host(launch, h_r_nrm_f_out, residuals, batch_size);
}

}  // namespace bk::linalg
