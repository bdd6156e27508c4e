// SPDX-License-Identifier: Apache-2.0
// Softmax and log-softmax in f32 of 16-bit logits, and their gradients: the row functions are those of f32.
#pragma once

#include <cstdint>

#include "softmax/softmax_axis.h"
#include "softmax/softmax_rows.h"

namespace bk {

template <class T, bool kLog>
struct SoftmaxToF32 {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t softmax_axis;

    using Rows = op::SoftmaxRows<float>;
    Work work() const { return all_or_none(numel); }
    BK_COLD Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}}, {{"stride_y", stride_y}}));
        return require_axis("softmax_axis", softmax_axis, rank);
    }
    size_t workspace_size() const { return map_rows_workspace<Rows>(rows()); }
    Status run(const T* x, float* y, const Launch& launch) const {
        return map_rows(launch, rows(), Rows{{}, kLog}, inputs(x), inputs(), inputs(), outputs(y), outputs());
    }

private:
    RowAxes<2> rows() const { return rows_along<2>(rank, shape, softmax_axis, {stride_x, stride_y}); }
};

template <class T, bool kLog>
struct SoftmaxToF32Backward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_y;
    const int64_t* stride_dx;
    int32_t softmax_axis;

    using Rows = op::SoftmaxBackwardRows<float>;
    Work work() const { return all_or_none(numel); }
    BK_COLD Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_dy", stride_dy}, {"stride_y", stride_y}},
                           {{"stride_dx", stride_dx}}));
        return require_axis("softmax_axis", softmax_axis, rank);
    }
    size_t workspace_size() const { return map_rows_workspace<Rows>(rows()); }
    Status run(const float* dy, const float* y, T* dx, const Launch& launch) const {
        return map_rows(launch, rows(), Rows{{}, kLog, 1}, inputs(dy, y), inputs(), inputs(), outputs(dx), outputs());
    }

private:
    RowAxes<3> rows() const { return rows_along<3>(rank, shape, softmax_axis, {stride_dy, stride_y, stride_dx}); }
};

}  // namespace bk
