// SPDX-License-Identifier: Apache-2.0
// The reference's Bernoulli variables and dropout, whose f32 uniform numbers are an operand. p = 0 and p = 1 are exact even
// for numbers of [0, 1], and what is dropped becomes 0, NaN too.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "core/pointwise/pointwise.h"

namespace bk::op {

struct BernoulliOfBuffer {
    float p;
    BK_HD uint8_t operator()(float rand) const { return (rand < p) | (p >= 1.0f) ? 1 : 0; }
};

template <class T>
struct DropoutOfBuffer {
    float p;
    T scale;
    BK_HD Pack<T, uint8_t> operator()(T x, float rand) const {
        const bool kept = (rand < 1.0f - p) | (p <= 0.0f);
        return pack(math::select(kept, x * scale, T(0)), static_cast<uint8_t>(kept ? 1 : 0));
    }
};

template <class T>
struct DropoutOfMask {
    T scale;
    BK_HD T operator()(T dy, uint8_t mask) const { return math::select(mask != 0, dy * scale, T(0)); }
};

}  // namespace bk::op

namespace bk {

BK_COLD inline Status require_drop_probability(float p) {
    if (!(p >= 0.0f && p <= 1.0f)) return fail(Status::kInvalidProblem, "p is %g, must be in [0, 1]", static_cast<double>(p));
    return Status::kOk;
}

// Base of the ops.
template <class Op>
struct BufferOp {
    Work work() const { return all_or_none(static_cast<const Op*>(this)->numel); }

protected:
    Status check_numel() const { return require_non_negative({{"numel", static_cast<const Op*>(this)->numel}}); }
};

struct BernoulliOfBuffer : BufferOp<BernoulliOfBuffer> {
    int64_t numel;
    float p;

    Status check() const {
        BK_TRY(check_numel());
        return require_drop_probability(p);
    }
    Status run(const float* rand, uint8_t* y, const Launch& launch) const {
        return pointwise(launch, numel, op::BernoulliOfBuffer{p}, outputs(y), inputs(rand));
    }
};

template <class T>
struct DropoutOfBuffer : BufferOp<DropoutOfBuffer<T>> {
    int64_t numel;
    float p;
    T scale;

    Status check() const {
        BK_TRY(this->check_numel());
        return require_drop_probability(p);
    }
    Status run(const T* x, const float* rand, T* y, uint8_t* mask, const Launch& launch) const {
        return pointwise(launch, numel, op::DropoutOfBuffer<T>{p, scale}, outputs(y, mask), inputs(x, rand));
    }
};

template <class T>
struct DropoutOfMask : BufferOp<DropoutOfMask<T>> {
    int64_t numel;
    T scale;

    Status check() const { return this->check_numel(); }
    Status run(const T* dy, const uint8_t* mask, T* dx, const Launch& launch) const {
        return pointwise(launch, numel, op::DropoutOfMask<T>{scale}, outputs(dx), inputs(dy, mask));
    }
};

}  // namespace bk
