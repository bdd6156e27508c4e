// SPDX-License-Identifier: Apache-2.0
// Formulas of one step of a selective state space (Gu and Dao, arXiv 2312.00752; Dao and Gu, arXiv 2405.21060), in f32:
//
//   s = delta + bias, softplus(s) if asked for, clamped;   h = exp(s a) h + s b u;   y = (c . h + d u) silu(z)
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk::ssm {

template <class C>
BK_HD C logistic(C z) {
    return C(1) / (C(1) + math::exp<C>(-z));
}
template <class C>
BK_HD C silu(C z) {
    return z * logistic(z);
}
template <class C>
BK_HD C silu_slope(C z) {
    const C s = logistic(z);
    return s * (C(1) + z * (C(1) - s));
}

// exp(step * a). GPUs have an exponential of base 2 within 2 ulp.
BK_HD float decay(float step, float a) {
#if BK_CUDA
    return math::exp2<bf16>(step * (a * 1.44269504f));
#else
    return math::exp<float>(step * a);
#endif
}

// Step sizes of delta + bias. Above 20 softplus is the identity in f32.
struct StepRule {
    bool is_softplus;
    float least, most;

    static constexpr float kLinear = 20;
    BK_HD float soft(float x) const {
        if (!is_softplus) return x;
        return math::select(x <= kLinear, math::log1p<float>(math::exp<float>(math::select(x <= kLinear, x, 0.0f))), x);
    }
    BK_HD float operator()(float x) const {
        const float s = soft(x);
        const float low = math::select(s < least, least, s);
        return math::select(low > most, most, low);
    }
    // Its derivative, 0 where the step is clamped.
    BK_HD float slope(float x) const {
        const float s = soft(x), d = is_softplus ? math::select(x <= kLinear, logistic(x), 1.0f) : 1.0f;
        return math::select((s < least) | (s > most), 0.0f, d);
    }
};

}  // namespace bk::ssm
