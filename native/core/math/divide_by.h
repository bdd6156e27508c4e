// Many quotients by one divisor: a reciprocal of it, then a multiplication each, where a division each takes a GPU some ten
// instructions and a branch.
#pragma once

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

// x / divisor, for a divisor that is normal and at least 1. Of the 16-bit types within 2^-22 of it, which rounds to the same
// but beside a tie; of the wider ones what is left over is divided too, which gives the rounded quotient.
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
            // Nothing is left of 0, which keeps its sign, and NaN of infinity.
            const C left = math::fma(-quotient, divisor_, x);
            return math::select(math::fabs<C>(left) > C(0), math::fma(left, reciprocal_, quotient), quotient);
        }
    }

private:
    C divisor_, reciprocal_;
};

}  // namespace bk
