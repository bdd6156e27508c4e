// Operands that have another extent along one axis than the places that are walked, where an index says which element
// it is.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/axis.h"
#include "core/abi/checks.h"
#include "core/abi/operand.h"
#include "core/abi/strided_args.h"

namespace bk {

// Of `shape`, which passed its checks, with `extent` along `axis`.
BK_COLD inline Status locate_placed(Operand* operand, const char* name, Role role, int64_t size, const char* strides_name,
                                    int32_t rank, const int32_t* shape, int32_t axis, int32_t extent, const int64_t* strides) {
    int32_t own[kMaxRank] = {};
    std::copy(shape, shape + rank, own);
    own[axis] = extent;
    BK_TRY(locate_strided(operand, name, role, size, strides_name, rank, own, strides, nullptr));
    if (operand->is_output() && operand->has_elements()) BK_TRY(require_distinct({strides_name, strides}, rank, own));
    operand->rank = 0;  // no other operand is walked as this one is
    operand->shape = nullptr;
    operand->strides = nullptr;
    return Status::kOk;
}

}  // namespace bk
