// What batch and group norm do to elements once all statistics are known: maps by numbers of the row or, where a row has an
// element a channel, of the position.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/rows/row_map.h"
#include "core/types/pack.h"

namespace bk {

// y = (x - mean) * slope + beta.
template <class C>
struct NormLine {
    C mean, slope, beta;

    BK_HD Pack<C> operator()(C x) const { return pack((x - mean) * slope + beta); }
};

// dx = rstd * (h - of_h - xh * of_product), with xh = (x - mean) * rstd, h = dy * gamma and means of h and of h * xh over the
// terms of a statistic; as a multiple of a sum, which is what its members are of: rstd * rstd may overflow or vanish.
template <class C>
struct NormGradientLine {
    C mean, rstd, of_dy, of_x, rest;

    static BK_HD NormGradientLine of(C mean, C rstd, C gamma, C of_h, C of_product) {
        return {mean, rstd, gamma, -rstd * of_product, -of_h};
    }
    BK_HD Pack<C> operator()(C dy, C x) const { return pack(rstd * (dy * of_dy + ((x - mean) * of_x + rest))); }
};

// Numbers: the mean, 1 / spread or, with `has_variance`, the variance, gamma and beta.
template <class T, bool kOfColumns>
struct NormMap : OnlyMaps {
    static constexpr int kHeldBytes = kOfColumns ? 64 : 128;  // numbers of columns need registers, too
    using C = compute_t<T>;
    using Held = C;
    using Numbers = NormLine<C>;
    using Row = Numbers;

    C eps;
    bool has_variance;
    bool has_gamma;

    BK_HD Row start() const { return {}; }
    BK_HD Row start(C mean, C statistic, C gamma, C beta) const {
        const C scale = has_variance ? C(1) / math::sqrt<C>(statistic + eps) : statistic;
        return {mean, has_gamma ? scale * gamma : scale, beta};
    }
    BK_HD Held hold(const Row&, int64_t, C x) const { return x; }
    BK_HD Held pad() const { return 0; }
    BK_HD Numbers numbers(const Row& row, int64_t) const { return row; }
    template <class... Column>
    BK_HD Numbers numbers(const Row&, int64_t, Column... column) const {
        return start(column...);
    }
    BK_HD Pack<C> map_by(const Numbers& of, Held x) const { return of(x); }
    template <class... Column>
    BK_HD Pack<C> map(const Row& row, const Nothing&, int64_t j, Held x, Column... column) const {
        return map_by(numbers(row, j, column...), x);
    }
};

// Numbers: the mean and 1 / spread, gamma, and the sums of products and slopes, which have gamma or not. Statistics of rows
// come in the compute type and in T: the inputs of the other are null, and so 0.
template <class T, bool kOfColumns>
struct NormMapBackward : OnlyMaps {
    static constexpr int kHeldBytes = kOfColumns ? 64 : 128;  // numbers of columns need registers, too
    using C = compute_t<T>;
    using Numbers = NormGradientLine<C>;
    using Row = Numbers;
    struct Held {
        C dy, x;
    };

    bool has_gamma;
    bool sums_have_gamma;
    C share;  // 1 / terms of a statistic

    BK_HD Row start() const { return {}; }
    BK_HD Row start(C mean, C rstd, C given, C product, C slope) const {
        const C gamma = has_gamma ? given : C(1), factor = sums_have_gamma ? share : share * gamma;
        return Row::of(mean, rstd, gamma, slope * factor, product * factor);
    }
    BK_HD Row start(C mean, C rstd, C rounded_mean, C rounded_rstd, C gamma, C product, C slope) const {
        return start(mean + rounded_mean, rstd + rounded_rstd, gamma, product, slope);
    }
    BK_HD Held hold(const Row&, int64_t, C dy, C x) const { return {dy, x}; }
    BK_HD Held pad() const { return {0, 0}; }
    BK_HD Numbers numbers(const Row& row, int64_t) const { return row; }
    template <class... Column>
    BK_HD Numbers numbers(const Row&, int64_t, Column... column) const {
        return start(column...);
    }
    BK_HD Pack<C> map_by(const Numbers& of, const Held& held) const { return of(held.dy, held.x); }
    template <class... Column>
    BK_HD Pack<C> map(const Row& row, const Nothing&, int64_t j, const Held& held, Column... column) const {
        return map_by(numbers(row, j, column...), held);
    }
};

}  // namespace bk
