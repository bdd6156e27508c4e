// SPDX-License-Identifier: Apache-2.0
// Elementwise maps of batch and group norm once all statistics are known: coefficients are those of the row or, if a
// row has one element a channel, of the column.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/row/row_map.h"
#include "core/types/pack.h"

namespace bk {

// y = (x - mean) * scale + beta.
template <class C>
struct NormAffine {
    C mean, scale, beta;

    BK_HD Pack<C> operator()(C x) const { return pack((x - mean) * scale + beta); }
};

// dx = rstd * (g - mean_g - x_hat * mean_gx), g = dy * gamma and x_hat = (x - mean) * rstd, with means of g and g *
// x_hat over the elements of a statistic. It multiplies by rstd twice, as rstd * rstd may overflow or vanish.
template <class C>
struct NormBackwardAffine {
    C mean, rstd, dy_scale, x_scale, shift;

    static BK_HD NormBackwardAffine of(C mean, C rstd, C gamma, C mean_g, C mean_gx) {
        return {mean, rstd, gamma, -rstd * mean_gx, -mean_g};
    }
    BK_HD Pack<C> operator()(C dy, C x) const { return pack(rstd * (dy * dy_scale + ((x - mean) * x_scale + shift))); }
};

// Coefficients: mean, 1 / stddev (with has_variance, the variance), gamma, beta.
template <class T, bool kHasColumns>
struct NormMap : MapOnly {
    static constexpr int kCachedBytes = kHasColumns ? 64 : 128;  // coefficients of columns need registers, too
    using C = compute_t<T>;
    using Cached = C;
    using MapParams = NormAffine<C>;
    using Row = MapParams;

    C eps;
    bool has_variance;
    bool has_gamma;

    BK_HD Row start() const { return {}; }
    BK_HD Row start(C mean, C statistic, C gamma, C beta) const {
        const C scale = has_variance ? C(1) / math::sqrt<C>(statistic + eps) : statistic;
        return {mean, has_gamma ? scale * gamma : scale, beta};
    }
    BK_HD Cached transform(const Row&, int64_t, C x) const { return x; }
    BK_HD Cached pad() const { return 0; }
    BK_HD MapParams map_params(const Row& row, int64_t) const { return row; }
    template <class... Column>
    BK_HD MapParams map_params(const Row&, int64_t, Column... column) const {
        return start(column...);
    }
    BK_HD Pack<C> map_with_params(const MapParams& of, Cached x) const { return of(x); }
    template <class... Column>
    BK_HD Pack<C> map(const Row& row, const Nothing&, int64_t j, Cached x, Column... column) const {
        return map_with_params(map_params(row, j, column...), x);
    }
};

// Coefficients: mean, 1 / stddev, gamma, sum(g * x_hat), sum(g); sums_have_gamma says whether the sums include gamma.
// Statistics of rows come in compute_t<T> and in T: inputs of the other type are null and read as 0.
template <class T, bool kHasColumns>
struct NormMapBackward : MapOnly {
    static constexpr int kCachedBytes = kHasColumns ? 64 : 128;  // coefficients of columns need registers, too
    using C = compute_t<T>;
    using MapParams = NormBackwardAffine<C>;
    using Row = MapParams;
    struct Cached {
        C dy, x;
    };

    bool has_gamma;
    bool sums_have_gamma;
    C inv_count;  // 1 / elements of a statistic

    BK_HD Row start() const { return {}; }
    BK_HD Row start(C mean, C rstd, C given, C sum_gx, C sum_g) const {
        const C gamma = has_gamma ? given : C(1), scale = sums_have_gamma ? inv_count : inv_count * gamma;
        return Row::of(mean, rstd, gamma, sum_g * scale, sum_gx * scale);
    }
    BK_HD Row start(C mean, C rstd, C rounded_mean, C rounded_rstd, C gamma, C sum_gx, C sum_g) const {
        return start(mean + rounded_mean, rstd + rounded_rstd, gamma, sum_gx, sum_g);
    }
    BK_HD Cached transform(const Row&, int64_t, C dy, C x) const { return {dy, x}; }
    BK_HD Cached pad() const { return {0, 0}; }
    BK_HD MapParams map_params(const Row& row, int64_t) const { return row; }
    template <class... Column>
    BK_HD MapParams map_params(const Row&, int64_t, Column... column) const {
        return start(column...);
    }
    BK_HD Pack<C> map_with_params(const MapParams& of, const Cached& held) const { return of(held.dy, held.x); }
    template <class... Column>
    BK_HD Pack<C> map(const Row& row, const Nothing&, int64_t j, const Cached& held, Column... column) const {
        return map_with_params(map_params(row, j, column...), held);
    }
};

}  // namespace bk
