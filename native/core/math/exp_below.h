// SPDX-License-Identifier: Apache-2.0
// exp(x - base) for many x <= base, as in a softmax whose maximum is known.
#pragma once

#include <type_traits>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

// operator()(x) * scale() = exp(x - base); subnormal f32 results flush to 0. On a GPU f32 takes three instructions and
// rounds (x - base) log2(e), a relative error of 2^-23 (base - x). 16-bit types take two and round base log2(e)
// instead; that error is common to all x, at most 2^(1/256), and scale() corrects it.
template <class T>
struct ExpBelow {
    using C = compute_t<T>;
    static constexpr bool kUsesFma = BK_CUDA && math::kIsHalf<T>;
    static constexpr C kLog2e = C(1.44269504088896340736);
    // Above this base 16-bit numbers are so far apart that exponentials are 0 or 1, also with a smaller slope that
    // keeps x * slope in range.
    static constexpr C kFarBase = 65536;
    C base, slope = kLog2e, offset = 0;

    explicit BK_HD ExpBelow(C b) : base(b) {
        if constexpr (kUsesFma) {
            const C far = kFarBase * kLog2e * math::rough_reciprocal(math::fabs<C>(base));
            slope = far < kLog2e ? far : kLog2e;
            offset = base * slope;
        }
    }
    BK_HD C operator()(C x) const {
        if constexpr (kUsesFma)
            return math::exp2<f16>(math::fma(x, slope, -offset));
        else if constexpr (BK_CUDA && std::is_same_v<T, float>)
            return math::exp2<f16>((x - base) * kLog2e);
        else
            return math::exp_of_negative<T>(x - base);
    }
    BK_HD C scale() const {
        if constexpr (kUsesFma)
            return math::exp2<f16>(-math::fma(base, slope, -offset));
        else
            return C(1);
    }
};

}  // namespace bk
