// SPDX-License-Identifier: Apache-2.0
// Checks and layouts for ops that take a shape and a stride array per operand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "core/abi/checks.h"
#include "core/layout/layout.h"

namespace bk {

constexpr int kMaxStridedOperands = 8;  // operands of an op

struct NamedStrides {
    const char* name;
    const int64_t* array;
};

// Rejects an output with stride 0 along an axis of several elements, since indices would share an element.
BK_COLD inline Status require_distinct(const NamedStrides& strides, int32_t rank, const int32_t* shape) {
    for (int32_t d = 0; d < rank; ++d)
        if (strides.array[d] == 0 && shape[d] > 1)
            return fail(Status::kInvalidProblem, "%s[%d] is 0, but an output has %d elements along that axis", strides.name, d,
                        shape[d]);
    return Status::kOk;
}

BK_COLD inline Status require_strides(const NamedStrides* first, const NamedStrides* last, int32_t rank) {
    for (; first != last; ++first)
        if (first->array == nullptr && rank > 0) return fail(Status::kInvalidProblem, "%s is NULL", first->name);
    return Status::kOk;
}

// Checks the rank, the arrays (null only at rank 0) and that `count` is the product of `shape`. The reach of strides is
// checked with the operands (core/abi/operand.h). Strides from `outputs` on are those of outputs.
BK_COLD inline Status check_shape(const char* count_name, int64_t count, int32_t rank, const char* shape_name,
                                  const int32_t* shape, const NamedStrides* first, const NamedStrides* outputs,
                                  const NamedStrides* last) {
    BK_TRY(require_non_negative({{count_name, count}}));
    BK_TRY(require_rank(rank));
    BK_TRY(require_shape(shape_name, shape, rank));
    BK_TRY(require_strides(first, last, rank));
    bool is_empty = false, fits = true;
    int64_t product = 1;
    for (int32_t d = 0; d < rank; ++d) {
        is_empty = is_empty || shape[d] == 0;
        fits = fits && !__builtin_mul_overflow(product, static_cast<int64_t>(shape[d]), &product);
    }
    if (is_empty) product = 0;
    if (!is_empty && !fits) return fail(Status::kInvalidProblem, "%s has more than 2^63 - 1 elements", shape_name);
    if (product != count)
        return fail(Status::kInvalidProblem, "%s is %lld, but %s has %lld elements", count_name, static_cast<long long>(count),
                    shape_name, static_cast<long long>(product));
    if (count > kMaxOperandBytes)  // possible if every stride is 0
        return fail(Status::kInvalidProblem, "%s is %lld, must be <= 2^47", count_name, static_cast<long long>(count));
    if (count > 0)  // row-major strides of an empty array may be 0
        for (; outputs != last; ++outputs) BK_TRY(require_distinct(*outputs, rank, shape));
    return Status::kOk;
}

BK_COLD inline Status check_shape(const char* count_name, int64_t count, int32_t rank, const char* shape_name,
                                  const int32_t* shape, std::initializer_list<NamedStrides> inputs,
                                  std::initializer_list<NamedStrides> outputs) {
    NamedStrides all[kMaxStridedOperands] = {};
    NamedStrides* const middle = std::copy(inputs.begin(), inputs.end(), all);
    NamedStrides* const last = std::copy(outputs.begin(), outputs.end(), middle);
    return check_shape(count_name, count, rank, shape_name, shape, all, middle, last);
}

template <int Operands>
BK_COLD Layout<Operands> make_layout(int32_t rank, const int32_t* shape, const int64_t* const (&strides)[Operands]) {
    Layout<Operands> layout;
    for (int32_t d = 0; d < rank; ++d) {
        int64_t at_axis[Operands];
        for (int k = 0; k < Operands; ++k) at_axis[k] = strides[k][d];
        layout.append(shape[d], at_axis);
    }
    return layout;
}

}  // namespace bk
