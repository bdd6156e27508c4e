// SPDX-License-Identifier: Apache-2.0
// Linear interpolation with a scalar weight.
//
// lerp(a, b, w) = a + w (b - a) below w = 0.5 and b - (1 - w) (b - a) from there on, so that both ends are exact.
#pragma once

#include "core/platform.h"
#include "core/types/pack.h"

namespace bk {

template <class C>
struct LerpFunctor {
    C weight;
    // The condition is the same for all elements, so compilers hoist the branch out of the loop.
    BK_HD C operator()(C a, C b) const { return weight < C(0.5) ? a + weight * (b - a) : b - (b - a) * (C(1) - weight); }
};

template <class C>
struct LerpBackwardFunctor {
    C weight;
    BK_HD Pack<C, C> operator()(C dy) const { return pack((C(1) - weight) * dy, weight * dy); }
};

}  // namespace bk
