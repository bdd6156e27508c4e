// SPDX-License-Identifier: Apache-2.0
// Repeated division by one divisor: its reciprocal, then a multiplication per quotient; a division takes a GPU about
// ten instructions and a branch.
#pragma once

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

// x / divisor for a normal divisor >= 1. For 16-bit types within 2^-22, which rounds alike except next to ties; for
// wider types a residual step gives the correctly rounded quotient.
template <class T>
class DivideBy {
    using C = compute_t<T>;

public:
    explicit BK_HD DivideBy(C divisor) : divisor_(divisor), reciprocal_(math::reciprocal<T>(divisor)) {}
    BK_HD C operator()(C x) const {
        const C quotient = x * reciprocal_;
        if constexpr (math::kIsHalf<T>) {
            return quotient;
        } else {
            // The residual is 0 for x = 0, which keeps its sign, and NaN for infinities.
            const C residual = math::fma(-quotient, divisor_, x);
            return math::select(math::fabs<C>(residual) > C(0), math::fma(residual, reciprocal_, quotient), quotient);
        }
    }

private:
    C divisor_, reciprocal_;
};

}  // namespace bk
