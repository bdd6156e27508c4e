// SPDX-License-Identifier: Apache-2.0
// Rows of the softmax ops along an axis: scalars and host arrays, and their checks.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/abi/axis.h"
#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/row/row_map.h"

namespace bk {

struct RepeatedStride {
    const char* name;
    int64_t value;
    const char* array_name;
    const int64_t* array;
};

// Checks that the axis is in range, and that the scalars agree with the host arrays.
BK_COLD inline Status require_softmax_axis(int32_t rank, const int32_t* shape, int32_t axis, int32_t extent,
                                           std::initializer_list<RepeatedStride> strides) {
    BK_TRY(require_axis("softmax_axis", axis, rank));
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
        (d == axis ? axes.inner.append(shape[d], at_axis) : axes.outer.append(shape[d], at_axis));
    }
    return axes;
}

// Arguments of y from x.
struct SoftmaxForwardArgs {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t softmax_axis;
    int32_t softmax_extent;
    int64_t softmax_stride_x;
    int64_t softmax_stride_y;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}}, {{"stride_y", stride_y}}));
        return require_softmax_axis(rank, shape, softmax_axis, softmax_extent,
                                    {{"softmax_stride_x", softmax_stride_x, "stride_x", stride_x},
                                     {"softmax_stride_y", softmax_stride_y, "stride_y", stride_y}});
    }
    RowAxes<2> rows() const { return rows_along<2>(rank, shape, softmax_axis, {stride_x, stride_y}); }
};

// Arguments of dx from dy and y.
struct SoftmaxBackwardArgs {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_y;
    const int64_t* stride_dx;
    int32_t softmax_axis;
    int32_t softmax_extent;
    int64_t softmax_stride_dy;
    int64_t softmax_stride_y;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_dy", stride_dy}, {"stride_y", stride_y}},
                           {{"stride_dx", stride_dx}}));
        return require_softmax_axis(rank, shape, softmax_axis, softmax_extent,
                                    {{"softmax_stride_dy", softmax_stride_dy, "stride_dy", stride_dy},
                                     {"softmax_stride_y", softmax_stride_y, "stride_y", stride_y}});
    }
    RowAxes<3> rows() const { return rows_along<3>(rank, shape, softmax_axis, {stride_dy, stride_y, stride_dx}); }

    // dx by F of the rows of dy and y.
    template <class F, class T>
    Status run_rows(const F& f, const T* dy, const T* y, T* dx, const Launch& launch) const {
        return map_rows(launch, rows(), f, inputs(dy, y), inputs(), inputs(), outputs(dx), outputs());
    }
};

}  // namespace bk
