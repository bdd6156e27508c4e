// SPDX-License-Identifier: Apache-2.0
// Fused backward of rms_norm and layer_norm, also of a residual sum: one pass over dy and x writes dx and partial sums
// over rows of dgamma and dbeta; a second, small pass adds the partials. For dense rows that fit on the chip.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/reduce/reduce.h"
#include "core/types/dtype.h"

namespace bk {

// `rows` rows of n contiguous elements; the pitches are the elements from one row to the next.
struct FusedRows {
    int64_t rows, n;
    int64_t pitch_dy, pitch_x, pitch_dx, pitch_saved, pitch_residual_grad;
};

// gamma, dgamma and dbeta may be null; statistics are of type S. kIsAddNorm scales by gamma + gamma_offset and adds
// residual_grad, if not null, to dx. If new_statistic is not null, the kernel computes the statistics of x with eps
// and writes them, the mean only if is_centered; mean and statistic are not read then.
template <class T, class S, bool kIsAddNorm>
struct FusedOperands {
    bool is_centered;  // layer norm, whose saved statistic is scale; rms norm saves 1 / scale
    compute_t<T> gamma_offset;
    const T *dy, *x, *residual_grad, *gamma;
    const S *mean, *statistic;
    T *dx, *dgamma, *dbeta;
    compute_t<T>*new_mean = nullptr, *new_statistic = nullptr;
    compute_t<T> eps = 0;
};

// Adds the partial dgamma and dbeta of each column.
template <class C>
struct FusedSums {
    struct Acc {
        C gamma, beta;
    };
    static constexpr bool ignores_index = true;

    BK_HD Acc identity() const { return {0, 0}; }
    BK_HD void add(Acc& acc, int64_t, C gamma, C beta) const {
        acc.gamma += gamma;
        acc.beta += beta;
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.gamma + b.gamma, a.beta + b.beta}; }
    BK_HD Pack<C, C> finish(const Acc& acc, int64_t) const { return pack(acc.gamma, acc.beta); }
};

template <class T>
Status reduce_fused_partials(const Launch& launch, int64_t count, int64_t n, const compute_t<T>* gamma,
                             const compute_t<T>* beta, T* dgamma, T* dbeta) {
    ReduceAxes<2, 2> axes;
    axes.kept.append(n, {1, 1, 1, 1});
    axes.reduced.append(count, {n, n});
    const Launch no_workspace{nullptr, 0, launch.stream};
    return reduce(no_workspace, axes, FusedSums<compute_t<T>>{}, outputs(dgamma, dbeta),
                  inputs(gamma, beta == nullptr ? gamma : beta));
}

// Bytes of workspace; 0 if the fused pass does not apply or would be slower.
template <class T>
size_t fused_rows_workspace(const FusedRows& rows);

// Whether the workspace size is not 0 and the pointers are aligned.
template <class T, class S, bool kIsAddNorm>
bool can_fuse_rows(const FusedRows& rows, const FusedOperands<T, S, kIsAddNorm>& operands);

// Requires can_fuse_rows() and a workspace of fused_rows_workspace() bytes.
template <class T, class S, bool kIsAddNorm>
Status fused_rows(const Launch& launch, const FusedRows& rows, const FusedOperands<T, S, kIsAddNorm>& operands);

}  // namespace bk

#if BK_CUDA
#include "norm/fused_rows_cuda.cuh"
#else
#include "norm/fused_rows_cpu.h"
#endif
