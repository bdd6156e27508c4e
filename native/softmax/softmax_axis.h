// The axis of a softmax: its index, and the scalars that repeat what the host arrays say of it.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/abi/checks.h"
#include "core/rows/row_map.h"

namespace bk {

struct RepeatedStride {
    const char* name;
    int64_t value;
    const char* array_name;
    const int64_t* array;
};

BK_COLD inline Status require_softmax_axis(int32_t rank, const int32_t* shape, int32_t axis, int32_t extent,
                                           std::initializer_list<RepeatedStride> strides) {
    if (axis < 0 || axis >= rank)
        return fail(Status::kInvalidProblem, "softmax_axis is %d, must be in [0, rank), and rank is %d", axis, rank);
    if (extent != shape[axis])
        return fail(Status::kInvalidProblem, "softmax_extent is %d, but shape[%d] is %d", extent, axis, shape[axis]);
    for (const RepeatedStride& s : strides)
        if (s.value != s.array[axis])
            return fail(Status::kInvalidProblem, "%s is %lld, but %s[%d] is %lld", s.name, static_cast<long long>(s.value),
                        s.array_name, axis, static_cast<long long>(s.array[axis]));
    return Status::kOk;
}

// Rows along one axis of the shape.
template <int Full>
BK_COLD RowAxes<Full> rows_along(int32_t rank, const int32_t* shape, int32_t axis, const int64_t* const (&strides)[Full]) {
    RowAxes<Full> axes;
    for (int32_t d = 0; d < rank; ++d) {
        int64_t at_axis[Full];
        for (int k = 0; k < Full; ++k) at_axis[k] = strides[k][d];
        if (d == axis)
            axes.inner.append(shape[d], at_axis);
        else
            axes.outer.append(shape[d], at_axis);
    }
    return axes;
}

}  // namespace bk
