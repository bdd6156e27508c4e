// SPDX-License-Identifier: Apache-2.0
// Checks of ops that select along an axis, and their input, whose extent along the axis is a 64-bit number.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/axis.h"
#include "core/abi/checks.h"
#include "core/abi/operand.h"
#include "core/abi/strided_args.h"
#include "core/topk/row_selection.h"

namespace bk {

// Locates an operand of `shape`, already checked, with `length` elements along `axis`. Shapes have 32 bits: what a longer
// axis adds to the range is added to that of its first elements.
BK_COLD inline Status locate_along(Operand* operand, const char* name, Role role, int64_t size, NamedStrides strides,
                                   int32_t rank, const int32_t* shape, int32_t axis, NamedExtent length) {
    int32_t extents[kMaxRank] = {};
    std::copy_n(shape, rank, extents);
    extents[axis] = static_cast<int32_t>(std::min<int64_t>(length.value, INT32_MAX));
    BK_TRY(locate_strided(operand, name, role, size, strides.name, rank, extents, strides.array, nullptr));
    if (operand->is_output() && operand->has_elements()) BK_TRY(require_distinct(strides, rank, extents));
    const int64_t stride = strides.array[axis];
    int64_t more = 0;
    if (__builtin_mul_overflow(length.value - extents[axis], stride * size, &more) || more > kMaxOperandBytes ||
        more < -kMaxOperandBytes || operand->high - operand->low + (more < 0 ? -more : more) > kMaxOperandBytes)
        return fail(Status::kInvalidProblem, "%s is %lld and %s[%d] is %lld: %s would span more than 2^47 bytes", length.name,
                    static_cast<long long>(length.value), strides.name, axis, static_cast<long long>(stride), name);
    (more < 0 ? operand->low : operand->high) += more;
    operand->rank = 0;  // the arrays are local, and no other operand has these extents
    operand->shape = nullptr;
    operand->strides = nullptr;
    return Status::kOk;
}

// The indices of a row must fit their dtype.
template <class I>
Status require_indices_fit(NamedExtent length) {
    if (sizeof(I) == 4 && length.value > INT32_MAX)
        return fail(Status::kUnsupported, "%s is %lld, must be <= 2^31 - 1 for indices of 32 bits", length.name,
                    static_cast<long long>(length.value));
    return Status::kOk;
}

// Rows along an axis: the extents are 1 along it, and operands have any number of elements there.
struct RowsAlongAxis {
    int64_t rows_numel;
    int32_t rank;
    int32_t axis;
    const char* axis_name;
    const int32_t* rows_shape;

    // Strides of outputs with other extents along the axis are checked where they are located.
    Status check(std::initializer_list<NamedStrides> strides, std::initializer_list<NamedStrides> outputs = {}) const {
        BK_TRY(check_shape("rows_numel", rows_numel, rank, "rows_shape", rows_shape, strides, outputs));
        BK_TRY(require_axis(axis_name, axis, rank));
        if (rows_shape[axis] != 1)
            return fail(Status::kInvalidProblem, "rows_shape[%d] is %d, must be 1 along %s", axis, rows_shape[axis], axis_name);
        return Status::kOk;
    }
    Layout<3> layout(const int64_t* x, const int64_t* values, const int64_t* indices) const {
        Layout<3> rows;
        for (int32_t d = 0; d < rank; ++d)
            if (d != axis) rows.append(rows_shape[d], {x[d], values[d], indices[d]});
        return rows;
    }
    Status locate(Operand* operand, const char* name, Role role, int64_t size, NamedStrides strides, NamedExtent length) const {
        return locate_along(operand, name, role, size, strides, rank, rows_shape, axis, length);
    }
};

template <class I>
IndexArray index_array(const I* indices) {
    return {const_cast<I*>(indices), sizeof(I) == 8};
}

}  // namespace bk
