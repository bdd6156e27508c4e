// SPDX-License-Identifier: Apache-2.0
// logit, the inverse of sigmoid, and its gradient.
#pragma once

#include <cmath>
#include <type_traits>

#include "core/math/math.h"
#include "core/types/dtype.h"
#include "elementwise/approximation.h"

namespace bk::op {

// ln(x / (1 - x)) = n ln 2 + ln(1 + f) in f32: the quotient is 2^n (1 + f) with f in [-1/3, 1/3], so f = (x 2^-n - (1 -
// x)) / (1 - x) with a numerator that is rounded once. Small x are lifted; 1 vanishes beside their 2^-n.
BK_HD float logit(float x) {
    const bool small = x < 0x1p-60f;
    const float lifted = x * math::select(small, 0x1p32f, 1.0f), complement = 1.0f - x;
    const float reciprocal = math::reciprocal<float>(complement);
    const uint32_t exponent = (bit_cast<uint32_t>(lifted * reciprocal) - 0x3f2aaaab) & 0xff800000;
    const float inverse = bit_cast<float>(0x3f800000 - exponent);
    const bool above = x >= 0.5f;  // 1 - x is exact
    const float numerator =
        math::fma(lifted, math::select(above, inverse, 1.0f + inverse), math::select(above, -complement, -1.0f));
    const float q = math::product(numerator, reciprocal);
    const float residual = math::fma(-q, (1.0f - complement) - x, math::fma(-q, complement, numerator));
    const float f = math::fma(residual, reciprocal, q);
    const float p = polynomial(f, -0.5, 0.33333215946, -0.24999797687, 0.20010407562, -0.16680486556, 0.14005845423,
                               -0.12184270987, 0.13984543794, -0.12891649893);
    const float n = math::fma(static_cast<float>(static_cast<int32_t>(exponent)), 0x1p-23f, math::select(small, -32.0f, 0.0f));
    const float y = math::fma(n, 0.693147181f, math::fma(f * f, p, f));
    const float limit = math::select(x == 0.0f, -INFINITY, math::select(x == 1.0f, INFINITY, NAN));
    return math::select((x > 0.0f) & (x < 1.0f), y, limit);
}

// ln(x / (1 - x)), for p0 > 0 of min(max(x, p0), 1 - p0). Between 1/3 and 2/3, except in f32, it is 2 artanh(2 x - 1),
// whose argument is exact.
template <class T>
struct Logit {
    using C = compute_t<T>;
    C p0 = C(0);
    BK_HD C operator()(C given) const {
        const C clamped = math::min(C(1) - p0, math::max(p0, given));
        const C x = math::select(p0 > C(0), clamped, given);
        if constexpr (std::is_same_v<T, float>) return logit(x);
        const C m = math::fma(C(2), x, C(-1));
        const C near = math::fma(m, artanh_series<T>(m * m), C(2) * m);
        C odds;
        if constexpr (math::kIsHalf<T>)
            odds = x * math::reciprocal<T>(C(1) - x);
        else
            odds = math::select(x == C(1), C(INFINITY), quotient<T>(single<T>(x), single<T>(C(1) - x)));
        const C far = math::select((x >= C(0)) & (x <= C(1)), math::log_far_from_one<T>(odds), C(NAN));
        return math::select(math::fabs<T>(m) < C(1.0 / 3.0), near, far);
    }
};

// dy / (x (1 - x)), for p0 > 0 only inside [p0, 1 - p0], else 0.
template <class T>
struct LogitBackward {
    using C = compute_t<T>;
    C p0 = C(0);
    BK_HD C operator()(C dy, C x) const {
        const bool outside = (p0 > C(0)) & ((x < p0) | (x > C(1) - p0));
        C dx;
        if constexpr (math::kIsHalf<T>) {
            // x is scaled if its reciprocal is beyond f32.
            const C scale = math::select(math::fabs<T>(x) < C(0x1p-64), C(0x1p64), C(1));
            dx = dy * math::reciprocal<T>(C(1) - x) * math::reciprocal<T>(x * scale) * scale;
        } else {
            // The smaller factor first, so that no intermediate quotient is subnormal.
            const C complement = C(1) - x;
            const bool x_first = math::fabs<T>(x) < math::fabs<T>(complement);
            dx = dy / math::select(x_first, x, complement) / math::select(x_first, complement, x);
        }
        return math::select(outside, C(0), dx);
    }
};

}  // namespace bk::op
