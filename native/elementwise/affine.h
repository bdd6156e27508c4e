// SPDX-License-Identifier: Apache-2.0
// y = a x + b with scalars a and b: floats by a fused multiply-add of the compute type, integers modulo 2^width.
#pragma once

#include <type_traits>

#include "core/math/integer_quotient.h"
#include "core/math/math.h"

namespace bk {

template <class C>
struct AffineFunctor {
    C scale, offset;
    BK_HD C operator()(C x) const {
        if constexpr (std::is_integral_v<C>)
            return wrapping_add(wrapping_multiply(scale, x), offset);
        else
            return math::fma(scale, x, offset);
    }
};

}  // namespace bk
