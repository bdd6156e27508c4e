// SPDX-License-Identifier: Apache-2.0
// Strided operands of state-space ops: strides of the first axes, the others are contiguous.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/abi/checks.h"
#include "core/abi/operand.h"
#include "core/abi/strided_args.h"

namespace bk::ssm {

struct StridedShape {
    const char* strides_name;
    const int64_t* strides;
    int32_t rank, strided;  // axes, and those of `strides`
    int32_t shape[4];

    bool is_empty() const {
        for (int32_t k = 0; k < rank; ++k)
            if (shape[k] == 0) return true;
        return false;
    }
    // Operands without strides are absent: they have no bytes.
    BK_COLD Status locate(Operand* operand, const char* name, Role role, int64_t size) const {
        *operand = {name, role, size};
        if (strides == nullptr || is_empty()) return Status::kOk;
        int64_t steps[4];
        int64_t step = 1;
        for (int32_t k = rank - 1; k >= 0; --k) {
            steps[k] = k < strided ? strides[k] : step;
            if (k >= strided) step *= shape[k];
        }
        BK_TRY(locate_strided(operand, name, role, size, strides_name, rank, shape, steps, nullptr));
        operand->rank = 0;
        operand->shape = nullptr;
        operand->strides = nullptr;
        return Status::kOk;
    }
    // Rejects absent strides, and an output's stride of 0 along an axis of several elements.
    BK_COLD Status require(bool is_output) const {
        if (is_empty()) return Status::kOk;
        if (strides == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", strides_name);
        return is_output ? require_distinct({strides_name, strides}, strided, shape) : Status::kOk;
    }
    // The strides of an output that may be absent, as they may then be.
    BK_COLD Status require_output() const { return strides == nullptr ? Status::kOk : require(true); }
    // Rejects an operand without strides, which can_implement does not see.
    BK_COLD Status require_of(const char* name, const void* operand) const {
        if (operand == nullptr || strides != nullptr || is_empty()) return Status::kOk;
        return fail(Status::kInvalidProblem, "%s is not NULL, but %s is", name, strides_name);
    }
};

BK_COLD inline Status require_divisor(const char* name, int64_t divisor, const char* of, int64_t whole) {
    if (divisor == 0 ? whole == 0 : whole % divisor == 0) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %lld, must divide %s, %lld", name, static_cast<long long>(divisor), of,
                static_cast<long long>(whole));
}

BK_COLD inline Status require_most(const char* name, int64_t value, int64_t most) {
    if (value <= most) return Status::kOk;
    return fail(Status::kUnsupported, "%s is %lld, at most %lld are supported", name, static_cast<long long>(value),
                static_cast<long long>(most));
}

}  // namespace bk::ssm
