// Gradients of gamma and beta: sums over rows, or over all of a channel, of dy * (x - mean) * scale and of dy.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/reduce/reduce.h"

namespace bk {

template <class T>
struct NormColumns {
    using C = compute_t<T>;
    struct Acc {
        C gamma, beta;    // of the last few terms
        C gammas, betas;  // of those before
    };
    static constexpr bool ignores_index = true;

    bool is_centered;

    BK_HD Acc identity() const { return {0, 0, 0, 0}; }
    BK_HD void add(Acc& acc, int64_t, C dy, C x, C mean, C statistic) const {
        acc.gamma += dy * (is_centered ? (x - mean) * statistic : x * (C(1) / statistic));
        acc.beta += dy;
    }
    BK_HD void settle(Acc& acc, int64_t) const {
        acc.gammas += acc.gamma;
        acc.betas += acc.beta;
        acc.gamma = acc.beta = 0;
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        return {a.gamma + b.gamma, a.beta + b.beta, a.gammas + b.gammas, a.betas + b.betas};
    }
    BK_HD Pack<C, C> finish(const Acc& acc, int64_t) const { return pack(acc.gammas + acc.gamma, acc.betas + acc.beta); }
};

// dy, x, mean and the other statistic in the axes' order, then dgamma and dbeta, either of which may be null.
using NormColumnAxes = ReduceAxes<4, 2>;

template <class T>
size_t norm_columns_workspace(const NormColumnAxes& axes) {
    return reduce_workspace<NormColumns<T>, T, T, T, T>(axes);
}

template <class T>
Status norm_columns(const Launch& launch, const NormColumnAxes& axes, bool is_centered, const T* dy, const T* x, const T* mean,
                    const T* statistic, T* dgamma, T* dbeta) {
    if (dgamma == nullptr && dbeta == nullptr) return Status::kOk;
    return reduce(launch, axes, NormColumns<T>{is_centered}, outputs(dgamma, dbeta), inputs(dy, x, mean, statistic));
}

}  // namespace bk
