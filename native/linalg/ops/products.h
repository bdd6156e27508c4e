// SPDX-License-Identifier: Apache-2.0
// Products of singular vectors: pseudoinverses with ranks, and polar decompositions.
#pragma once

#include "linalg/ops/host_numbers.h"
#include "linalg/ops/spectral.h"
#include "linalg/spectral/singular.h"

namespace bk::linalg {

template <class T>
struct Pinv {
    int32_t batch;
    int32_t m;
    int32_t n;
    const int64_t* stride_a;
    const int64_t* stride_y;
    double atol;
    double rtol;

    Work work() const { return batch == 0 ? Work::kNone : m == 0 || n == 0 ? Work::kZeros : Work::kAll; }
    BK_COLD Status check() const {
        BK_TRY(check_extents());
        BK_TRY(of_a().require(false));
        return of_y().require(true);
    }
    Status check_extents() const { return require_non_negative({{"batch", batch}, {"m", m}, {"n", n}}); }
    Status locate_a(Operand* at, const char* name, Role role, int64_t size) const {
        return of_a().locate(at, name, role, size);
    }
    Status locate_y(Operand* at, const char* name, Role role, int64_t size) const {
        return of_y().locate(at, name, role, size);
    }
    size_t workspace_size() const { return spectral::team_workspace(batch, std::max(m, n), Job::scratch_bytes(shape())); }
    Status run(const T* a, T* y, int32_t* rank, int32_t* info, const Launch& launch) const {
        if (work() == Work::kZeros) {
            BK_TRY(spectral::clear_info(launch, rank, batch));
            return spectral::clear_info(launch, info, batch);
        }
        Job job{};
        job.a = spectral::strided(scalars(a), stride_a);
        job.inverse = spectral::strided(scalars(y), stride_y);
        job.counted = rank;
        job.info = info;
        job.shape = {m, n, y != nullptr, false};
        job.atol = atol;
        // A negative tolerance is the default of NumPy and PyTorch.
        job.rtol = rtol < 0 ? std::max(m, n) * 2.0 * static_cast<double>(spectral::Numbers<R>::kRoundoff) : rtol;
        return spectral::run_matrix_teams(launch, batch, std::max(m, n), Job::scratch_bytes(job.shape), job);
    }

private:
    using R = real_t<scalar_t<T>>;
    using Job = spectral::SingularJob<scalar_t<T>>;
    StridedMatrices of_a() const { return {"stride_a", stride_a, {batch, m, n}}; }
    StridedMatrices of_y() const { return {"stride_y", stride_y, {batch, n, m}}; }
    spectral::SingularShape shape() const { return {m, n, true, false}; }
};

template <class T>
struct Polar {
    int32_t batch;
    int32_t m;
    int32_t n;
    const int64_t* stride_a;
    const int64_t* stride_u;
    const int64_t* stride_p;

    // Without rows p is 0.
    Work work() const { return batch == 0 ? Work::kNone : m == 0 || n == 0 ? Work::kZeros : Work::kAll; }
    BK_COLD Status check() const {
        BK_TRY(check_extents());
        BK_TRY(of_a().require(false));
        BK_TRY(of_u().require(true));
        return of_p().require(true);
    }
    Status check_extents() const { return require_non_negative({{"batch", batch}, {"m", m}, {"n", n}}); }
    Status locate_a(Operand* at, const char* name, Role role, int64_t size) const {
        return of_a().locate(at, name, role, size);
    }
    Status locate_u(Operand* at, const char* name, Role role, int64_t size) const {
        return of_u().locate(at, name, role, size);
    }
    Status locate_p(Operand* at, const char* name, Role role, int64_t size) const {
        return of_p().locate(at, name, role, size);
    }
    size_t workspace_size() const { return spectral::team_workspace(batch, std::max(m, n), Job::scratch_bytes(shape())); }
    Status run(const T* a, T* u, T* p, int32_t* info, const Launch& launch) const {
        const auto to = spectral::strided(scalars(p), stride_p);
        if (m == 0 || n == 0) BK_TRY(spectral::clear_info(launch, info, batch));
        if (n == 0 || (m == 0 && p == nullptr)) return Status::kOk;
        if (m == 0) {
            const spectral::ConstantJob<scalar_t<T>> zeros{to, n, false};
            return run_items(launch, int64_t{batch} * n * n, sizeof(T), zeros);
        }
        Job job{};
        job.a = spectral::strided(scalars(a), stride_a);
        job.unitary = spectral::strided(scalars(u), stride_u);
        job.hermitian = to;
        job.info = info;
        job.shape = shape();
        return spectral::run_matrix_teams(launch, batch, std::max(m, n), Job::scratch_bytes(shape()), job);
    }

private:
    using Job = spectral::SingularJob<scalar_t<T>>;
    StridedMatrices of_a() const { return {"stride_a", stride_a, {batch, m, n}}; }
    StridedMatrices of_u() const { return {"stride_u", stride_u, {batch, m, n}}; }
    StridedMatrices of_p() const { return {"stride_p", stride_p, {batch, n, n}}; }
    spectral::SingularShape shape() const { return {m, n, true, false}; }
};

}  // namespace bk::linalg
