// SPDX-License-Identifier: Apache-2.0
// PReLU (He et al. 2015) and its gradients: a function of x and a weight that is broadcast over all axes but one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/math/math.h"
#include "core/reduce/pointwise_sum.h"

namespace bk {

namespace op {

template <class T>
struct Prelu {
    using C = compute_t<T>;
    BK_HD C operator()(C x, C w) const { return math::select(x > C(0), x, w * x); }
};

template <class T>
struct PreluBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy, C x, C w) const {
        return pack(math::select(x > C(0), dy, w * dy), math::select(x >= C(0), C(0), dy * x));
    }
};

}  // namespace op

// x viewed as [numel / (extent * stride), extent, stride]; weight varies along the middle axis.
struct Channels {
    int64_t numel, stride;
    int32_t extent, scalar_weight;

    Status check() const {
        BK_TRY(require_non_negative({{"numel", numel}}));
        if (extent < 1) return fail(Status::kInvalidProblem, "channel_extent is %d, must be >= 1", extent);
        if (scalar_weight != 0) return Status::kOk;
        if (stride < 1)
            return fail(Status::kInvalidProblem, "channel_stride is %lld, must be >= 1", static_cast<long long>(stride));
        if (stride > kMaxOperandBytes / extent)
            return fail(Status::kInvalidProblem, "channel_stride is %lld, must be <= 2^47 / channel_extent",
                        static_cast<long long>(stride));
        if (numel % stride != 0 || numel / stride % extent != 0)
            return fail(Status::kInvalidProblem,
                        "numel is %lld, must be a multiple of channel_stride * channel_extent = %lld * %d",
                        static_cast<long long>(numel), static_cast<long long>(stride), extent);
        return Status::kOk;
    }

    // Strides of each operand: dense like x, or like weight.
    template <int Operands>
    Layout<Operands> layout(const bool (&dense)[Operands]) const {
        const bool one = scalar_weight != 0;
        const int64_t inner = one ? std::max<int64_t>(numel, 1) : stride, middle = one ? 1 : extent;
        const int64_t extents[] = {numel / (inner * middle), middle, inner}, steps[] = {inner * middle, inner, 1};
        Layout<Operands> layout;
        for (int d = 0; d < 3; ++d) {
            int64_t strides[Operands];
            for (int k = 0; k < Operands; ++k) strides[k] = dense[k] ? steps[d] : d == 1 && !one ? 1 : 0;
            layout.append(extents[d], strides);
        }
        return layout;
    }
};

template <class T>
struct Prelu {
    int64_t numel;
    int64_t channel_stride;
    int32_t channel_extent;
    int32_t scalar_weight;

    Work work() const { return all_or_none(numel); }
    Status check() const { return channels().check(); }
    Status run(const T* x, const T* weight, T* y, const Launch& launch) const {
        return pointwise_strided(launch, channels().layout({true, true, false}), op::Prelu<T>{}, outputs(y), inputs(x, weight));
    }

private:
    Channels channels() const { return {numel, channel_stride, channel_extent, scalar_weight}; }
};

template <class T>
struct PreluBackward {
    int64_t numel;
    int64_t channel_stride;
    int32_t channel_extent;
    int32_t scalar_weight;

    Work work() const { return numel == 0 ? Work::kZeros : Work::kAll; }  // an empty dx leaves dweight to be zeroed
    Status check() const { return channels().check(); }
    size_t workspace_size() const { return pointwise_sums_workspace(layout(), Inputs<T, T, T>{}, Outputs<T, T>{}); }
    Status run(const T* dy, const T* x, const T* weight, T* dx, T* dweight, const Launch& launch) const {
        return pointwise_sums(launch, layout(), op::PreluBackward<T>{}, outputs(dx, dweight), inputs(dy, x, weight));
    }

private:
    Channels channels() const { return {numel, channel_stride, channel_extent, scalar_weight}; }
    Layout<5> layout() const { return channels().layout({true, true, false, true, false}); }
};

}  // namespace bk
