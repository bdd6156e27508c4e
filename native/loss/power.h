// SPDX-License-Identifier: Apache-2.0
// Powers with the exponents 1 and 2 as special cases.
#pragma once

#include "core/math/half_power.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

// x to the power p, for x >= 0.
template <class T>
BK_HD compute_t<T> power_of(compute_t<T> x, compute_t<T> p) {
    if (p == 1) return x;
    if (p == 2) return x * x;
    return math::pow<T>(x, p);
}

// Calls body with the exponent a compile-time 1 or 2, if it is one of these (core/pointwise/cases.h).
template <class F, class Owner, class C, class Body>
BK_HD void each_power(F f, C Owner::* exponent, const Body& body) {
    if (f.*exponent == C(1)) {
        f.*exponent = 1;
        body(f);
    } else if (f.*exponent == C(2)) {
        f.*exponent = 2;
        body(f);
    } else {
        body(f);
    }
}

}  // namespace bk
