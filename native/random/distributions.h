// SPDX-License-Identifier: Apache-2.0
// Distributions of real numbers, each a function of one uniform number (inverse transform), so that element i depends on
// number i alone. All are made of operations with the same bits on every target (core/math/portable.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/math/normal_quantile.h"
#include "core/math/portable.h"
#include "core/platform.h"
#include "core/random/source.h"
#include "core/types/dtype.h"

namespace bk::dist {

using math::portable::fma;
using math::portable::pick;

template <class T>
constexpr int kDigits = std::numeric_limits<T>::digits;
template <>
inline constexpr int kDigits<f16> = 11;
template <>
inline constexpr int kDigits<bf16> = 8;

// from + u step, u in [0, 1) with T's digits, rounded once and kept in [least, most].
template <class T>
struct Uniform {
    using C = compute_t<T>;
    static constexpr int kWords = sizeof(C) / 4;
    C from, step, least, most;

    BK_HD C operator()(const uint32_t* word, const MoreWords&) const {
        const C y = fma(half_open<kDigits<T>>(word, C()), step, from);
        return pick(y < least, least, pick(y > most, most, y));
    }
};

template <class C>
BK_HD C standard_normal(const uint32_t* word) {
    const Midpoint<C> u = Midpoint<C>::of(word);
    return math::normal_quantile(u.x, u.t);
}

template <class T>
struct Normal {
    using C = compute_t<T>;
    static constexpr int kWords = sizeof(C) / 4;
    C mean, stddev;

    BK_HD C operator()(const uint32_t* word, const MoreWords&) const { return fma(stddev, standard_normal<C>(word), mean); }
};

// The distributions that one kernel serves; each has a loop of its own (each_case).
enum Shape : int32_t { kLogNormal, kTruncatedNormal, kExponential, kGumbel, kCauchy, kLaplace, kLogistic, kGeometric };

// ln(u), which the exponential distribution has the negative of, precise for u near 0 and, as ln(1 - t), near 1.
template <class C>
BK_HD C log_uniform(const uint32_t* word) {
    const math::portable::Split<C> s = math::portable::split(Midpoint<C>::whole(word));
    return math::portable::log_of(s.scaled, pick(Midpoint<C>::is_above_3_4(word), -Midpoint<C>::of(word).t, s.f));
}

template <class C>
struct Shaped {
    static constexpr int kWords = sizeof(C) / 4;
    int32_t shape;
    C a, b;         // location and scale
    C least, most;  // bounds of a truncated normal
    // Probabilities below, in and above the interval of a truncated normal; and whether the interval is
    // mirrored at the mean, so that it is in the lower tail, where probabilities are precise.
    C lower, width, upper;
    bool reversed;

    BK_HD C operator()(const uint32_t* word, const MoreWords&) const {
        const Midpoint<C> u = Midpoint<C>::of(word);
        switch (shape) {
            case kLogNormal: return math::portable::exp(fma(b, math::normal_quantile(u.x, u.t), a));
            case kTruncatedNormal: return truncated_normal(u);
            case kExponential: return -b * log_uniform<C>(word);
            case kGumbel: return fma(-b, math::portable::log(-log_uniform<C>(word)), a);
            case kCauchy: return fma(u.side * b, math::portable::cotpi(u.t), a);
            case kLaplace: return fma(-u.side * b, math::portable::log(C(2) * u.t), a);
            case kLogistic: return fma(-u.side * b, math::portable::log(math::portable::quotient(u.t, C(1) - u.t)), a);
            default: return geometric(word);
        }
    }
    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        switch (f.shape) {
            case kLogNormal: return with<kLogNormal>(f, body);
            case kTruncatedNormal: return with<kTruncatedNormal>(f, body);
            case kExponential: return with<kExponential>(f, body);
            case kGumbel: return with<kGumbel>(f, body);
            case kCauchy: return with<kCauchy>(f, body);
            case kLaplace: return with<kLaplace>(f, body);
            case kLogistic: return with<kLogistic>(f, body);
            default: return with<kGeometric>(f, body);
        }
    }

private:
    template <Shape kShape, class F, class Body>
    static BK_HD void with(F f, const Body& body) {
        f.shape = kShape;
        body(f);
    }
    // The quantile of lower + u width, by its smaller tail: u counts from the lower end, 1 - u from the upper
    // one.
    BK_HD C truncated_normal(const Midpoint<C>& u) const {
        const bool is_upper = u.is_upper();
        const C from_below = pick(is_upper, C(1) - u.t, u.t), from_above = pick(is_upper, u.t, C(1) - u.t);
        const C below = fma(from_below, width, lower), above = fma(from_above, width, upper);
        const bool is_low = below < above;
        const C t = pick(is_low, below, above), x = fma(C(-2), t, C(1));
        const C z = math::normal_quantile<true>(pick(is_low, -x, x), t);
        const C y = fma(b, pick(reversed, -z, z), a);
        return pick(y < least, least, pick(y > most, most, y));
    }
    // Trials to the first success: the least k >= 1 with 1 - (1 - p)^k >= 1 - u. a = 1 / ln(1 - p).
    BK_HD C geometric(const uint32_t* word) const {
        const C trials = math::portable::ceil(a * log_uniform<C>(word));
        return pick(trials < C(1), C(1), trials);
    }
};

}  // namespace bk::dist
