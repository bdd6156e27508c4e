// SPDX-License-Identifier: Apache-2.0
// Poisson variables in f64, with the same bits on every target: below a rate of 10 by summing probabilities up to a
// uniform number, from 10 on by transformed rejection with squeeze (PTRS; Hoermann, "The transformed rejection method for
// generating Poisson random variables", 1993).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/math/math.h"
#include "core/math/portable.h"
#include "core/platform.h"
#include "core/random/source.h"

namespace bk::dist {

constexpr double kRejectionFrom = 10;

// ln(k!) for an integer k >= 0: Stirling's series, at 10 or above by the recurrence.
BK_HD double log_factorial(double k) {
    double x = k + 1.0, factor = 1.0;
    while (x < 10.0) {
        factor *= x;
        x += 1.0;
    }
    const double r = 1.0 / x, s = r * r;
    const double series = math::portable::fma(
        s,
        math::portable::fma(s, math::portable::fma(s, math::portable::fma(s, 1.0 / 1188, -1.0 / 1680), 1.0 / 1260), -1.0 / 360),
        1.0 / 12);
    const double whole = math::portable::fma(x - 0.5, math::portable::log(x), 0.91893853320467274 - x);
    return math::portable::fma(series, r, whole) - math::portable::log(factor);
}

// The least k whose cumulated probability reaches u; bounded, since sums of rounded probabilities may stay below u.
BK_HD double poisson_by_sum(double rate, double u) {
    constexpr double kMost = 100;
    double k = 0.0, probability = math::portable::exp(-rate), sum = probability;
    while (u > sum && k < kMost) {
        k += 1.0;
        probability = math::product(probability, rate / k);
        sum += probability;
    }
    return k;
}

BK_HD double uniform_of(const uint32_t* word) {
    const Midpoint<double> u = Midpoint<double>::of(word);
    return u.is_upper() ? 1.0 - u.t : u.t;
}

BK_HD double poisson_by_rejection(double rate, const MoreWords& more) {
    using math::portable::fma;
    const double root = math::portable::sqrt(rate), log_rate = math::portable::log(rate);
    const double b = fma(2.53, root, 0.931), a = fma(0.02483, b, -0.059);
    const double log_inverse_alpha = math::portable::log(1.1239 + 1.1328 / (b - 3.4)), squeeze = 0.9277 - 3.6224 / (b - 2.0);
    for (uint32_t attempt = 1;; ++attempt) {
        const PhiloxBlock block = more(attempt);
        const double u = uniform_of(block.word) - 0.5, v = uniform_of(block.word + 2);
        const double distance = 0.5 - ::fabs(u);
        const double k = ::floor(fma(2.0 * a / distance + b, u, rate + 0.43));
        if (distance >= 0.07 && v <= squeeze) return k;
        if (k < 0.0 || (distance < 0.013 && v > distance)) continue;
        const double ratio = math::portable::log(fma(a, 1.0 / (distance * distance), b));
        const double accepted = math::portable::log(v) + log_inverse_alpha - ratio;
        if (accepted <= fma(k, log_rate, -rate) - log_factorial(k)) return k;
    }
}

// 0 for a rate of 0, NaN for a negative one or NaN, infinity for infinity.
BK_HD double poisson(double rate, const uint32_t* word, const MoreWords& more) {
    if (!(rate >= 0.0)) return __builtin_nan("");
    if (rate < kRejectionFrom) return poisson_by_sum(rate, uniform_of(word));
    return rate < HUGE_VAL ? poisson_by_rejection(rate, more) : rate;
}

}  // namespace bk::dist
