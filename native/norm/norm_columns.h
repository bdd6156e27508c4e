// Sums of dy * (x - mean) * scale and of dy over rows or over a channel, which are the gradients of gamma and beta; times
// gamma, over a group, they are what dx needs.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/reduce/reduce.h"

namespace bk {

// What sums of products and of slopes have in common: a few terms are collected first, which settle() adds to those before.
template <class C>
struct SlopeSums {
    struct Acc {
        C product, slope;    // of the last few terms
        C products, slopes;  // of those before
    };
    static constexpr bool ignores_index = true;

    BK_HD Acc identity() const { return {0, 0, 0, 0}; }
    BK_HD void settle(Acc& acc, int64_t) const {
        acc.products += acc.product;
        acc.slopes += acc.slope;
        acc.product = acc.slope = 0;
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        return {a.product + b.product, a.slope + b.slope, a.products + b.products, a.slopes + b.slopes};
    }
    // For outputs in the compute type, then for those in that of the operands.
    BK_HD Pack<C, C, C, C> finish(const Acc& acc, int64_t) const {
        const C product = acc.products + acc.product, slope = acc.slopes + acc.slope;
        return pack(product, slope, product, slope);
    }
};

template <class T>
struct NormColumns : SlopeSums<compute_t<T>> {
    using C = compute_t<T>;
    using typename SlopeSums<C>::Acc;
    static constexpr int kMoving = 2;  // statistics and gamma are those of a row or of a channel

    bool is_centered, has_gamma;

    struct Still {
        C mean, scale, factor;
    };
    BK_HD Still still(C mean, C statistic, C gamma) const {
        return {math::select(is_centered, mean, C(0)), math::select(is_centered, statistic, C(1) / statistic),
                math::select(has_gamma, gamma, C(1))};
    }
    BK_HD void add_beside(Acc& acc, const Still& of, C dy, C x) const {
        const C slope = dy * of.factor;
        acc.product += slope * ((x - of.mean) * of.scale);
        acc.slope += slope;
    }
    BK_HD void add(Acc& acc, int64_t, C dy, C x, C mean, C statistic, C gamma) const {
        add_beside(acc, still(mean, statistic, gamma), dy, x);
    }
};

// dy, x, mean and the other statistic alone, then the sums: of the products and of dy. Either may be null.
template <class T>
struct NormColumnPair : NormColumns<T> {
    using typename NormColumns<T>::C;
    using typename NormColumns<T>::Acc;

    BK_HD typename NormColumns<T>::Still still(C mean, C statistic) const {
        return NormColumns<T>::still(mean, statistic, C(1));
    }
    BK_HD void add(Acc& acc, int64_t, C dy, C x, C mean, C statistic) const {
        this->add_beside(acc, still(mean, statistic), dy, x);
    }
    BK_HD Pack<C, C> finish(const Acc& acc, int64_t) const { return pack(acc.products + acc.product, acc.slopes + acc.slope); }
};

// dy, x, mean, the other statistic and gamma, then the sums in the compute type and in that of the operands; any of the four
// may be null.
using NormColumnAxes = ReduceAxes<5, 4>;

template <class T, class S = T>
size_t norm_columns_workspace(const NormColumnAxes& axes) {
    return reduce_workspace<NormColumns<T>, T, T, S, S, T>(axes);
}

template <class T>
struct NormSums {
    compute_t<T>*products, *slopes;
    T *dgamma, *dbeta;
};

// gamma may be null: `unused`, of the strides that it has here, is read in its place.
template <class T, class S>
Status norm_columns(const Launch& launch, const NormColumnAxes& axes, bool is_centered, const T* dy, const T* x, const S* mean,
                    const S* statistic, const T* gamma, const T* unused, const NormSums<T>& sums) {
    return reduce(launch, axes, NormColumns<T>{{}, is_centered, gamma != nullptr},
                  outputs(sums.products, sums.slopes, sums.dgamma, sums.dbeta),
                  inputs(dy, x, mean, statistic, gamma == nullptr ? unused : gamma));
}

// Sums over the channels of a group, or over items, of what each channel of an item has: sums of dy * xh and of dy, times
// gamma.
template <class C>
struct JoinedSlopes : SlopeSums<C> {
    using typename SlopeSums<C>::Acc;

    bool has_gamma;

    BK_HD void add(Acc& acc, int64_t, C product, C slope, C gamma) const {
        const C factor = has_gamma ? gamma : C(1);
        acc.product += product * factor;
        acc.slope += slope * factor;
    }
};

// Products, slopes and gamma, then the sums in the compute type and in that of the operands; any of the four may be null.
using JoinedSlopeAxes = ReduceAxes<3, 4>;

template <class T>
size_t join_slopes_workspace(const JoinedSlopeAxes& axes) {
    return reduce_workspace<JoinedSlopes<compute_t<T>>, compute_t<T>, compute_t<T>, T>(axes);
}

// gamma may be null: `unused`, of the strides that it has here, is read in its place.
template <class T>
Status join_slopes(const Launch& launch, const JoinedSlopeAxes& axes, const compute_t<T>* products, const compute_t<T>* slopes,
                   const T* gamma, const T* unused, const NormSums<T>& sums) {
    return reduce(launch, axes, JoinedSlopes<compute_t<T>>{{}, gamma != nullptr},
                  outputs(sums.products, sums.slopes, sums.dgamma, sums.dbeta),
                  inputs(products, slopes, gamma == nullptr ? unused : gamma));
}

}  // namespace bk
