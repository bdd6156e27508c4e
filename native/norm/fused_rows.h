// One pass over dy and x for all gradients of rms_norm and layer_norm, also of a sum: dx, and parts of the sums over rows that
// are dgamma and dbeta, which a second, small pass adds up. For dense rows that fit on the chip.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/reduce/reduce.h"
#include "core/types/dtype.h"

namespace bk {

// Rows of n neighbours, `step` elements from one to the next.
struct FusedRows {
    int64_t rows, n;
    int64_t step_dy, step_x, step_dx, step_saved, step_extra;
};

// gamma, dgamma and dbeta may be null. A row's statistics are S. Where kIsOfSum its factors are gamma + gamma_offset, and
// `extra`, if it is not null, is added to dx; else there is neither. Where new_statistic is not null the statistics are those
// of x, with eps, and are written, the mean only if it is_centered; there are no given ones.
template <class T, class S, bool kIsOfSum>
struct FusedOperands {
    bool is_centered;  // dx has no mean, and the saved statistic is scale, not 1 / scale
    compute_t<T> gamma_offset;
    const T *dy, *x, *extra, *gamma;
    const S *mean, *statistic;
    T *dx, *dgamma, *dbeta;
    compute_t<T>*new_mean = nullptr, *new_statistic = nullptr;
    compute_t<T> eps = 0;
};

// Adds up parts[0] and parts[1], of each row's elements.
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
Status add_fused_parts(const Launch& launch, int64_t count, int64_t n, const compute_t<T>* gamma, const compute_t<T>* beta,
                       T* dgamma, T* dbeta) {
    ReduceAxes<2, 2> axes;
    axes.kept.append(n, {1, 1, 1, 1});
    axes.reduced.append(count, {n, n});
    const Launch alone{nullptr, 0, launch.stream};
    return reduce(alone, axes, FusedSums<compute_t<T>>{}, outputs(dgamma, dbeta),
                  inputs(gamma, beta == nullptr ? gamma : beta));
}

// Bytes of workspace; 0 where another way is better.
template <class T>
size_t fused_rows_workspace(const FusedRows& rows);

// Whether the pointers are aligned for it.
template <class T, class S, bool kIsOfSum>
bool can_fuse_rows(const FusedRows& rows, const FusedOperands<T, S, kIsOfSum>& operands);

// The workspace is as long as it must be.
template <class T, class S, bool kIsOfSum>
Status fused_rows(const Launch& launch, const FusedRows& rows, const FusedOperands<T, S, kIsOfSum>& operands);

}  // namespace bk

#if BK_CUDA
#include "norm/fused_rows_cuda.cuh"
#else
#include "norm/fused_rows_cpu.h"
#endif
