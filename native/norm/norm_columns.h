// SPDX-License-Identifier: Apache-2.0
// Sums of dy * (x - mean) * scale and of dy over rows or a channel: dgamma and dbeta; with gamma, what dx needs.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/reduce/reduce.h"

namespace bk {

// Two-level accumulator of sum(g * x_hat) and sum(g), g = dy * gamma: settle() adds recent sums to the totals.
template <class C>
struct GradientSums {
    struct Acc {
        C recent_gx, recent_g;  // since settle()
        C sum_gx, sum_g;        // before
    };
    static constexpr bool ignores_index = true;

    BK_HD Acc identity() const { return {0, 0, 0, 0}; }
    BK_HD void settle(Acc& acc, int64_t) const {
        acc.sum_gx += acc.recent_gx;
        acc.sum_g += acc.recent_g;
        acc.recent_gx = acc.recent_g = 0;
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        return {a.recent_gx + b.recent_gx, a.recent_g + b.recent_g, a.sum_gx + b.sum_gx, a.sum_g + b.sum_g};
    }
    // Values for outputs in C, then for outputs in the dtype of the operands.
    BK_HD Pack<C, C, C, C> finish(const Acc& acc, int64_t) const {
        const C gx = acc.sum_gx + acc.recent_gx, g = acc.sum_g + acc.recent_g;
        return pack(gx, g, gx, g);
    }
};

template <class T>
struct NormColumns : GradientSums<compute_t<T>> {
    using C = compute_t<T>;
    using typename GradientSums<C>::Acc;
    static constexpr int kVaryingInputs = 2;  // mean, statistic and gamma are broadcast

    bool is_centered, has_gamma;

    struct Broadcast {
        C mean, scale, gamma;
    };
    BK_HD Broadcast broadcast_of(C mean, C statistic, C gamma) const {
        return {math::select(is_centered, mean, C(0)), math::select(is_centered, statistic, C(1) / statistic),
                math::select(has_gamma, gamma, C(1))};
    }
    BK_HD void add_with(Acc& acc, const Broadcast& of, C dy, C x) const {
        const C g = dy * of.gamma;
        acc.recent_gx += g * ((x - of.mean) * of.scale);
        acc.recent_g += g;
    }
    BK_HD void add(Acc& acc, int64_t, C dy, C x, C mean, C statistic, C gamma) const {
        add_with(acc, broadcast_of(mean, statistic, gamma), dy, x);
    }
};

// NormColumns without gamma. Operands: dy, x, mean, statistic, then the two sums, either of which may be null.
template <class T>
struct NormColumnPair : NormColumns<T> {
    using typename NormColumns<T>::C;
    using typename NormColumns<T>::Acc;

    BK_HD typename NormColumns<T>::Broadcast broadcast_of(C mean, C statistic) const {
        return NormColumns<T>::broadcast_of(mean, statistic, C(1));
    }
    BK_HD void add(Acc& acc, int64_t, C dy, C x, C mean, C statistic) const {
        this->add_with(acc, broadcast_of(mean, statistic), dy, x);
    }
    BK_HD Pack<C, C> finish(const Acc& acc, int64_t) const {
        return pack(acc.sum_gx + acc.recent_gx, acc.sum_g + acc.recent_g);
    }
};

// Operands: dy, x, mean, statistic, gamma, then both sums in compute_t<T> and both in T; any of the four may be null.
using NormColumnAxes = ReduceAxes<5, 4>;

template <class T, class S = T>
size_t norm_columns_workspace(const NormColumnAxes& axes) {
    return reduce_workspace<NormColumns<T>, T, T, S, S, T>(axes);
}

template <class T>
struct NormSums {
    compute_t<T>*sum_gx, *sum_g;
    T *dgamma, *dbeta;
};

// gamma may be null: `unused`, which has its strides, is read instead.
template <class T, class S>
Status norm_columns(const Launch& launch, const NormColumnAxes& axes, bool is_centered, const T* dy, const T* x, const S* mean,
                    const S* statistic, const T* gamma, const T* unused, const NormSums<T>& sums) {
    return reduce(launch, axes, NormColumns<T>{{}, is_centered, gamma != nullptr},
                  outputs(sums.sum_gx, sums.sum_g, sums.dgamma, sums.dbeta),
                  inputs(dy, x, mean, statistic, gamma == nullptr ? unused : gamma));
}

// Sums over the channels of a group, or over items, of the sums that each channel of an item has, times gamma.
template <class C>
struct CombinedGradientSums : GradientSums<C> {
    using typename GradientSums<C>::Acc;

    bool has_gamma;

    BK_HD void add(Acc& acc, int64_t, C gx, C g, C gamma) const {
        const C scale = has_gamma ? gamma : C(1);
        acc.recent_gx += gx * scale;
        acc.recent_g += g * scale;
    }
};

// Operands: sums of g * x_hat, sums of g, gamma, then both sums in compute_t<T> and in T, each of which may be null.
using CombinedSumAxes = ReduceAxes<3, 4>;

template <class T>
size_t combine_gradient_sums_workspace(const CombinedSumAxes& axes) {
    return reduce_workspace<CombinedGradientSums<compute_t<T>>, compute_t<T>, compute_t<T>, T>(axes);
}

// gamma may be null: `unused`, which has its strides, is read instead.
template <class T>
Status combine_gradient_sums(const Launch& launch, const CombinedSumAxes& axes, const compute_t<T>* sum_gx,
                             const compute_t<T>* sum_g, const T* gamma, const T* unused, const NormSums<T>& sums) {
    return reduce(launch, axes, CombinedGradientSums<compute_t<T>>{{}, gamma != nullptr},
                  outputs(sums.sum_gx, sums.sum_g, sums.dgamma, sums.dbeta),
                  inputs(sum_gx, sum_g, gamma == nullptr ? unused : gamma));
}

}  // namespace bk
