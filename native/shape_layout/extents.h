// SPDX-License-Identifier: Apache-2.0
// Operands whose shape an op computes.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/operand.h"
#include "core/abi/strided_args.h"

namespace bk {

struct Extents {
    int32_t of[kMaxRank] = {};
};

// A strided operand whose shape is not an argument. No input has these extents, so it is never compared as an alias.
BK_COLD inline Status locate_extents(Operand* operand, const char* name, Role role, int64_t size, const char* strides_name,
                                     int32_t rank, const Extents& extents, const int64_t* strides) {
    BK_TRY(locate_strided(operand, name, role, size, strides_name, rank, extents.of, strides, nullptr));
    operand->rank = 0;
    operand->shape = nullptr;
    operand->strides = nullptr;
    return Status::kOk;
}

// Row-major strides of an array; returns its number of elements.
BK_COLD inline int64_t row_major(int32_t rank, const int32_t* shape, int64_t* strides) {
    int64_t step = 1;
    for (int32_t d = rank; d-- > 0; step *= shape[d]) strides[d] = step;
    return step;
}

BK_COLD inline Status require_array(const char* name, const void* array, int32_t rank) {
    if (array == nullptr && rank > 0) return fail(Status::kInvalidProblem, "%s is NULL", name);
    return Status::kOk;
}

// Stores the number of elements of `shape`, at most 2^47, in `count`.
BK_COLD inline Status count_elements(const char* name, int32_t rank, const int32_t* shape, int64_t* count) {
    BK_TRY(require_shape(name, shape, rank));
    int64_t product = 1;
    bool is_empty = false, fits = true;
    for (int32_t d = 0; d < rank; ++d) {
        is_empty = is_empty || shape[d] == 0;
        fits = fits && (shape[d] == 0 || !__builtin_mul_overflow(product, int64_t{shape[d]}, &product)) &&
               product <= kMaxOperandBytes;
    }
    if (!is_empty && !fits) return fail(Status::kInvalidProblem, "%s has more than 2^47 elements", name);
    *count = is_empty ? 0 : product;
    return Status::kOk;
}

}  // namespace bk
