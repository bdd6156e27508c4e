// SPDX-License-Identifier: Apache-2.0
// Operands whose extent along one axis differs from the walked shape, because an index selects along it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/axis.h"
#include "core/abi/checks.h"
#include "core/abi/operand.h"
#include "core/abi/strided_args.h"

namespace bk {

// Locates an operand of `shape`, already checked, with `extent` along `axis`.
BK_COLD inline Status locate_indexed(Operand* operand, const char* name, Role role, int64_t size, const char* strides_name,
                                     int32_t rank, const int32_t* shape, int32_t axis, int32_t extent, const int64_t* strides) {
    int32_t extents[kMaxRank] = {};
    std::copy(shape, shape + rank, extents);
    extents[axis] = extent;
    BK_TRY(locate_strided(operand, name, role, size, strides_name, rank, extents, strides, nullptr));
    if (operand->is_output() && operand->has_elements()) BK_TRY(require_distinct({strides_name, strides}, rank, extents));
    operand->rank = 0;  // keeps other operands from being matched to this shape
    operand->shape = nullptr;
    operand->strides = nullptr;
    return Status::kOk;
}

}  // namespace bk
