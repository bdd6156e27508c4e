// SPDX-License-Identifier: Apache-2.0
// Scopes of a scale and a zero point: a channel, a token (a row) or a group (a run within a row). All are the middle axis of
// x viewed as [outer, scales, inner].
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/layout/layout.h"
#include "quantize/affine/rule.h"

namespace bk::quantize {

BK_COLD inline Status require_range(int32_t q_min, int32_t q_max) {
    if (q_min <= q_max) return Status::kOk;
    return fail(Status::kInvalidProblem, "q_min is %d, must be <= q_max, which is %d", q_min, q_max);
}

struct Scope {
    int64_t outer, scales, inner;
    bool adds_first;  // the rule of tokens and groups (quantize/affine/rule.h)

    int64_t numel() const { return outer * scales * inner; }

    // Operands dense like x, or like the scales.
    template <int Operands>
    Layout<Operands> layout(const bool (&is_dense)[Operands]) const {
        const int64_t extents[] = {outer, scales, inner}, steps[] = {scales * inner, inner, 1};
        Layout<Operands> layout;
        for (int d = 0; d < 3; ++d) {
            int64_t strides[Operands];
            for (int k = 0; k < Operands; ++k) strides[k] = is_dense[k] ? steps[d] : d == 1 ? 1 : 0;
            layout.append(extents[d], strides);
        }
        return layout;
    }
};

// x of the four extents shape4, with a scale for each index of one axis.
struct Channels {
    static constexpr bool kScaleFirst = true;  // of the operands of a dequantise backward
    int64_t numel;
    const int32_t* shape4;
    int32_t axis;

    int64_t scales() const { return shape4[axis]; }
    Scope scope() const {
        int64_t outer = 1, inner = 1;
        for (int d = 0; d < 4; ++d) (d < axis ? outer : inner) *= d == axis ? 1 : shape4[d];
        return {numel == 0 ? 0 : outer, shape4[axis], inner, false};
    }
    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"numel", numel}}));
        if (axis < 0 || axis >= 4) return fail(Status::kInvalidProblem, "axis is %d, must be in [0, 4)", axis);
        BK_TRY(require_shape("shape4", shape4, 4));
        int64_t product = 1;
        bool fits = true;
        for (int d = 0; d < 4; ++d) fits = fits && !__builtin_mul_overflow(product, int64_t{shape4[d]}, &product);
        if (numel != 0 && (!fits || product != numel))
            return fail(Status::kInvalidProblem, "numel is %lld, but shape4 is [%d, %d, %d, %d]", static_cast<long long>(numel),
                        shape4[0], shape4[1], shape4[2], shape4[3]);
        return Status::kOk;
    }
};

// Rows of d elements.
struct Tokens {
    static constexpr bool kScaleFirst = false;
    int32_t n, d;

    int64_t scales() const { return n; }
    Scope scope() const { return {1, n, d, true}; }
    Status check() const { return require_non_negative({{"n", n}, {"d", d}}); }
};

// Runs of group_size elements of rows of axis_size.
struct Groups {
    static constexpr bool kScaleFirst = false;
    int32_t outer, axis_size, group_size;

    int32_t groups() const { return axis_size / group_size; }
    int64_t scales() const { return int64_t{outer} * groups(); }
    Scope scope() const { return {1, scales(), group_size, true}; }
    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"outer", outer}, {"axis_size", axis_size}}));
        if (group_size <= 0) return fail(Status::kInvalidProblem, "group_size is %d, must be > 0", group_size);
        if (axis_size % group_size == 0) return Status::kOk;
        return fail(Status::kInvalidProblem, "axis_size is %d, must be a multiple of group_size, which is %d", axis_size,
                    group_size);
    }
};

// A scope with a range of codes. An op's fields are all of one class.
struct RangedChannels {
    using Plain = Channels;
    int64_t numel;
    const int32_t* shape4;
    int32_t axis, q_min, q_max;
    Plain plain() const { return {numel, shape4, axis}; }
};

struct RangedTokens {
    using Plain = Tokens;
    int32_t n, d, q_min, q_max;
    Plain plain() const { return {n, d}; }
};

struct RangedGroups {
    using Plain = Groups;
    int32_t outer, axis_size, group_size, q_min, q_max;
    Plain plain() const { return {outer, axis_size, group_size}; }
    int32_t groups() const { return plain().groups(); }
};

template <class S>
struct Ranged : S {
    int64_t scales() const { return this->plain().scales(); }
    Scope scope() const { return this->plain().scope(); }
    Rule rule() const { return {this->q_min, this->q_max, scope().adds_first}; }
    Work work() const { return all_or_none(scope().numel()); }
    Status check() const {
        BK_TRY(this->plain().check());
        return require_range(this->q_min, this->q_max);
    }
};

template <class S>
struct Unranged : S {
    Work work() const { return all_or_none(this->scope().numel()); }
};

}  // namespace bk::quantize
