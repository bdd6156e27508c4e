// Softmax and log-softmax along an axis.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/rows/row_map.h"
#include "softmax/softmax_axis.h"
#include "softmax/softmax_rows.h"

namespace bk {

template <class T, bool kLog>
struct Softmax {
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
    Status run(const T* x, T* y, const Launch& launch) const {
        return map_rows(launch, rows_along<2>(rank, shape, softmax_axis, {stride_x, stride_y}), op::SoftmaxRows<T>{{}, kLog},
                        inputs(x), inputs(), inputs(), outputs(y), outputs());
    }
};

template <class T, bool kLog>
struct SoftmaxBackward {
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
    Status run(const T* dy, const T* y, T* dx, const Launch& launch) const {
        return map_rows(launch, rows_along<3>(rank, shape, softmax_axis, {stride_dy, stride_y, stride_dx}),
                        op::SoftmaxBackwardRows<T>{{}, kLog}, inputs(dy, y), inputs(), inputs(), outputs(dx), outputs());
    }
};

}  // namespace bk
