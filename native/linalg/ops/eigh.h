// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of Hermitian matrices: a row with strides and batches, and the reference's functions.
#pragma once

#include "linalg/ops/spectral.h"
#include "linalg/spectral/hermitian.h"

namespace bk::linalg {

template <class T>
struct Eigh {
    int32_t batch;
    int32_t n;
    int32_t upper;
    const int64_t* stride_a;
    const int64_t* stride_v;

    Work work() const { return batch == 0 ? Work::kNone : n == 0 ? Work::kZeros : Work::kAll; }
    BK_COLD Status check() const {
        BK_TRY(check_extents());
        BK_TRY(require_flag("upper", upper));
        BK_TRY(of_a().require(false));
        return of_v().require(true);
    }
    Status check_extents() const { return require_non_negative({{"batch", batch}, {"n", n}}); }
    Status locate_a(Operand* at, const char* name, Role role, int64_t size) const {
        return of_a().locate(at, name, role, size);
    }
    Status locate_v(Operand* at, const char* name, Role role, int64_t size) const {
        return of_v().locate(at, name, role, size);
    }
    size_t workspace_size() const { return spectral::team_workspace(batch, n, Job::scratch_bytes(n, true)); }
    Status run(const T* a, real_t<scalar_t<T>>* w, T* v, int32_t* info, const Launch& launch) const {
        if (n == 0) return spectral::clear_info(launch, info, batch);
        const Job job{spectral::strided(scalars(a), stride_a), spectral::strided(scalars(v), stride_v), w, info, n, upper == 1};
        return spectral::run_matrix_teams(launch, batch, n, Job::scratch_bytes(n, true), job);
    }

private:
    using Job = spectral::HermitianJob<scalar_t<T>>;
    StridedMatrices of_a() const { return {"stride_a", stride_a, {batch, n, n}}; }
    StridedMatrices of_v() const { return {"stride_v", stride_v, {batch, n, n}}; }
};

template <class T>
Status eigh_workspace(int32_t uplo, int32_t n, size_t* out_bytes) {
    BK_TRY(require_flag("uplo", uplo));
    BK_TRY(spectral::require_positive({{"n", n}}));
    return spectral::set_size("out_bytes", out_bytes,
                              spectral::team_workspace(1, n, spectral::HermitianJob<scalar_t<T>>::scratch_bytes(n, true)));
}

// One column-major matrix, which becomes the eigenvectors.
template <class T>
Status run_eigh(int32_t uplo, int32_t n, int32_t lda, void* a_inout, void* eigenvalues_out, int32_t* info_out, void* workspace,
                size_t workspace_bytes, void* stream) {
    using S = scalar_t<T>;
    BK_TRY(require_flag("uplo", uplo));
    BK_TRY(spectral::require_positive({{"n", n}}));
    BK_TRY(spectral::require_column_pitch("lda", lda, "n", n));
    BK_TRY(spectral::require_arrays({{"a_inout", a_inout, sizeof(T)},
                                     {"eigenvalues_out", eigenvalues_out, sizeof(real_t<S>)},
                                     {"info_out", info_out, sizeof(int32_t)}}));
    const auto by = spectral::Strides::columns(lda);
    S* const a = static_cast<S*>(a_inout);
    const spectral::HermitianJob<scalar_t<T>> job{{a, by},  {a, by}, static_cast<real_t<S>*>(eigenvalues_out),
                                                  info_out, n,       uplo == 1};
    return spectral::run_matrix_teams({workspace, workspace_bytes, stream}, 1, n, job.scratch_bytes(n, true), job);
}

}  // namespace bk::linalg
