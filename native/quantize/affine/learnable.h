// SPDX-License-Identifier: Apache-2.0
// Fake quantisation whose scale and zero point are learned: learned step size (Esser et al. 2020, arXiv 1902.08153), with
// the zero point too (Bhalgat et al. 2020, arXiv 2004.09576).
//
// With z the zero point, rounded and clamped, and r = round(x / scale) + z: y = scale * (clamp(r) - z). Gradients:
//   dx = dy where r is in range, else 0
//   dscale = sum of dy * (r - z - x / scale) in range, dy * (q_min - z) or dy * (q_max - z) beyond it
//   dzero_point = -scale * sum of dy beyond the range
// The latter two times grad_factor.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/reduce/pointwise_sum.h"
#include "quantize/affine/affine.h"

namespace bk::quantize {

template <class C>
struct FakeQuantizeLearnableBackward {
    Rule rule;
    C factor;
    BK_HD Affine<C> affine(C scale, C zero_point) const {
        return {{rule.q_min, rule.q_max, false}, scale, learned_zero(rule, zero_point)};
    }
    BK_HD Pack<C, C, C> operator()(C dy, C x, C scale, C zero_point) const { return at(dy, x, affine(scale, zero_point)); }
    BK_HD Pack<C, C, C> at(C dy, C x, const Affine<C>& affine) const {
        const C steps = affine.quotient(x);
        const int32_t q = round_to_int(steps), code = Affine<C>::within(q, affine.low, affine.high);
        const bool inside = q == code;
        const C slope = static_cast<C>(code) - math::select(inside, steps, C(0));
        return pack(math::select(inside, dy, C(0)), dy * slope * factor,
                    math::select(inside, C(0), -(dy * affine.scale) * factor));
    }
};

}  // namespace bk::quantize

#if BK_CUDA
#include "quantize/affine/learnable_cuda.cuh"
#endif

namespace bk::quantize {

// x of the four extents shape4, with a scale and a zero point for each index along axis.
template <class T>
struct FakeQuantizeLearned {
    int64_t numel;
    const int32_t* shape4;
    int32_t axis, q_min, q_max;
    float grad_factor;  // of the gradient alone

    int64_t scales() const { return channels().scales(); }
    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(channels().check());
        return require_range(q_min, q_max);
    }
    Status run(const T* x, const T* scale, const T* zero_point, T* y, const Launch& launch) const {
        const Rule rule{q_min, q_max, false};
        return round_elements(launch, Coding<T>{channels().scope(), rule, scale, nullptr, zero_point}, x, y);
    }

private:
    Channels channels() const { return {numel, shape4, axis}; }
};

template <class T>
struct FakeQuantizeLearnedBackward {
    int64_t numel;
    const int32_t* shape4;
    int32_t axis, q_min, q_max;
    float grad_factor;

    int64_t scales() const { return channels().scales(); }
    Work work() const { return numel == 0 ? scales() == 0 ? Work::kNone : Work::kZeros : Work::kAll; }
    Status check() const {
        BK_TRY(channels().check());
        return require_range(q_min, q_max);
    }
    size_t workspace_size() const {
        const size_t bytes = pointwise_sums_workspace(layout(), Inputs<T, T, T, T>{}, Outputs<T, T, T>{});
#if BK_CUDA
        return std::max(bytes, LearnedParts<T>::of(channels().scope()).workspace());
#else
        return bytes;
#endif
    }
    Status run(const T* dy, const T* x, const T* scale, const T* zero_point, T* dx, T* dscale, T* dzero_point,
               const Launch& launch) const {
        using C = compute_t<T>;
        const FakeQuantizeLearnableBackward<C> fn{{q_min, q_max, false}, static_cast<C>(grad_factor)};
#if BK_CUDA
        if constexpr (sizeof(C) == 4) {
            const LearnedParts<T> parts = LearnedParts<T>::of(channels().scope());
            const bool fits = parts.workspace() == 0 || workspace_holds(launch, parts.workspace());
            const bool aligned = is_aligned(dy, kVectorBytes) && is_aligned(x, kVectorBytes) && is_aligned(dx, kVectorBytes);
            if ((dscale != nullptr || dzero_point != nullptr) && parts.serves() && fits && aligned)
                return run_learned_parts(launch,
                                         LearnedCall<T>{parts, fn, dy, x, scale, zero_point, dx, dscale, dzero_point, nullptr});
        }
#endif
        return pointwise_sums(launch, layout(), fn, outputs(dx, dscale, dzero_point), inputs(dy, x, scale, zero_point));
    }

private:
    Channels channels() const { return {numel, shape4, axis}; }
    Layout<7> layout() const { return channels().scope().layout({true, true, false, false, true, false, false}); }
};

}  // namespace bk::quantize
