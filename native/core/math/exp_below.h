// exp(x - base) of many x, none of which exceeds the base.
#pragma once

#include <type_traits>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

// Called with x it gives exp(x - base) / scale(), with 0 for what is no normal number of f32. A GPU takes three instructions
// for f32, where the difference times log2(e) is rounded (a relative error of 2^-23 times the difference); and two for the
// 16-bit types, where base log2(e) is rounded instead: that is common to all x, is 2^(1/256) at most, and is what scale() makes
// up for.
template <class T>
struct ExpBelow {
    using C = compute_t<T>;
    static constexpr bool kFolds = BK_CUDA && math::kIsHalf<T>;
    static constexpr C kLog2e = C(1.44269504088896340736);
    // Beyond this base 16-bit numbers are so far apart that exponentials are 0 or 1, also with a slope that keeps x slope below
    // it.
    static constexpr C kFarBase = 65536;
    C base, slope = kLog2e, offset = 0;

    explicit BK_HD ExpBelow(C b) : base(b) {
        if constexpr (kFolds) {
            const C far = kFarBase * kLog2e * math::rough_reciprocal(math::fabs<C>(base));
            slope = far < kLog2e ? far : kLog2e;
            offset = base * slope;
        }
    }
    BK_HD C operator()(C x) const {
        if constexpr (kFolds)
            return math::exp2<f16>(math::fma(x, slope, -offset));
        else if constexpr (BK_CUDA && std::is_same_v<T, float>)
            return math::exp2<f16>((x - base) * kLog2e);
        else
            return math::exp_of_negative<T>(x - base);
    }
    BK_HD C scale() const {
        if constexpr (kFolds)
            return math::exp2<f16>(-math::fma(base, slope, -offset));
        else
            return C(1);
    }
};

}  // namespace bk
