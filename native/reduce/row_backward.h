// SPDX-License-Identifier: Apache-2.0
// Gradients of reductions whose rows are given by strides or by an axis.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/strided_args.h"
#include "core/layout/layout.h"
#include "core/pointwise/pointwise.h"
#include "core/row/row_map.h"
#include "reduce/axis_reduction.h"
#include "reduce/pointwise_backward.h"
#include "reduce/row_gradients.h"

namespace bk {

// Rows of x and dx are the axes along which both dy and y are broadcast (stride 0).
struct ReduceRowBackward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* stride_y;
    const int64_t* stride_dx;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape,
                           {{"stride_dy", stride_dy}, {"stride_x", stride_x}, {"stride_y", stride_y}},
                           {{"stride_dx", stride_dx}});
    }

protected:
    // `Singles` is 1 for dy alone, 2 for dy and y.
    template <int Singles>
    RowAxes<2, Singles> rows() const {
        RowAxes<2, Singles> axes;
        for (int32_t d = 0; d < rank; ++d) {
            if (stride_dy[d] == 0 && stride_y[d] == 0) {
                axes.inner.append(shape[d], {stride_x[d], stride_dx[d]});
                continue;
            }
            int64_t stride[2 + Singles] = {stride_x[d], stride_dx[d], stride_dy[d]};
            if constexpr (Singles > 1) stride[3] = stride_y[d];
            axes.outer.append(shape[d], stride);
        }
        return axes;
    }
};

template <class T>
struct ReduceExtremeBackward : ReduceRowBackward {
    Status run(const T* dy, const T* x, const T* y, T* dx, const Launch& launch) const {
        return map_rows(launch, rows<2>(), op::ExtremeGradientRows<T>{}, inputs(x), inputs(), inputs(dy, y), outputs(dx),
                        outputs());
    }
};

// Gradient of the p-norm: for an infinite p that of the largest |x|, else pointwise.
template <class T>
struct ReduceNormPBackward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* stride_y;
    const int64_t* stride_dx;
    double p;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(plain().check());
        if (!(p >= 0)) return fail(Status::kInvalidProblem, "p is %g, must be >= 0", p);
        return Status::kOk;
    }
    Status run(const T* dy, const T* x, const T* y, T* dx, const Launch& launch) const {
        if (std::isinf(p))
            return map_rows(launch, plain().template rows<2>(), op::ExtremeGradientRows<T>{{}, true}, inputs(x), inputs(),
                            inputs(dy, y), outputs(dx), outputs());
        Layout<4> layout;
        for (int32_t d = 0; d < rank; ++d) layout.append(shape[d], {stride_dx[d], stride_dy[d], stride_x[d], stride_y[d]});
        using C = compute_t<T>;
        return pointwise_strided(launch, layout, op::ReduceNormPBackward<T>{static_cast<C>(p), static_cast<C>(p - 1)},
                                 outputs(dx), inputs(dy, x, y));
    }

private:
    struct Plain : ReduceRowBackward {
        using ReduceRowBackward::rows;
    };
    Plain plain() const { return {{numel, rank, shape, stride_dy, stride_x, stride_y, stride_dx}}; }
};

template <class T>
struct ReduceProdBackward : ReduceRowBackward {
    Status run(const T* dy, const T* x, const T*, T* dx, const Launch& launch) const {
        return map_rows(launch, rows<1>(), op::ProductGradientRows<T>{}, inputs(x), inputs(), inputs(dy), outputs(dx),
                        outputs());
    }
};

// Rows are the axes along which dy is broadcast.
template <class T, bool is_root>
struct ReduceVarianceOverAxesBackward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* stride_dx;
    int32_t correction;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        return check_shape("numel", numel, rank, "shape", shape, {{"stride_dy", stride_dy}, {"stride_x", stride_x}},
                           {{"stride_dx", stride_dx}});
    }
    Status run(const T* dy, const T* x, T* dx, const Launch& launch) const {
        RowAxes<2, 2> rows;
        for (int32_t d = 0; d < rank; ++d) {
            if (stride_dy[d] == 0)
                rows.inner.append(shape[d], {stride_x[d], stride_dx[d]});
            else
                rows.outer.append(shape[d], {stride_x[d], stride_dx[d], stride_x[d], stride_dy[d]});
        }
        return map_rows(launch, rows, op::VarianceGradientRows<T>{{}, correction, is_root}, inputs(x), inputs(), inputs(x, dy),
                        outputs(dx), outputs());
    }
};

// Rows run along one axis.
template <class T, bool is_root>
struct ReduceVarianceBackward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* stride_y;
    const int64_t* stride_dx;
    int32_t reduce_axis;
    int32_t reduce_extent;
    int64_t reduce_stride_x;
    int32_t correction;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape,
                           {{"stride_dy", stride_dy}, {"stride_x", stride_x}, {"stride_y", stride_y}},
                           {{"stride_dx", stride_dx}}));
        BK_TRY(require_axis("reduce_axis", reduce_axis, rank));
        if (reduce_extent != shape[reduce_axis])
            return fail(Status::kInvalidProblem, "reduce_extent is %d, but shape[%d] is %d", reduce_extent, reduce_axis,
                        shape[reduce_axis]);
        if (reduce_stride_x != stride_x[reduce_axis])
            return fail(Status::kInvalidProblem, "reduce_stride_x is %lld, but stride_x[%d] is %lld",
                        static_cast<long long>(reduce_stride_x), reduce_axis, static_cast<long long>(stride_x[reduce_axis]));
        return Status::kOk;
    }
    Status run(const T* dy, const T* x, const T*, T* dx, const Launch& launch) const {
        if (stride_dy[reduce_axis] == 0) {
            RowAxes<2, 2> rows;
            for (int32_t d = 0; d < rank; ++d) {
                if (d == reduce_axis)
                    rows.inner.append(shape[d], {stride_x[d], stride_dx[d]});
                else
                    rows.outer.append(shape[d], {stride_x[d], stride_dx[d], stride_x[d], stride_dy[d]});
            }
            return map_rows(launch, rows, op::VarianceGradientRows<T>{{}, correction, is_root}, inputs(x), inputs(),
                            inputs(x, dy), outputs(dx), outputs());
        }
        RowAxes<3, 1> rows;
        for (int32_t d = 0; d < rank; ++d) {
            if (d == reduce_axis)
                rows.inner.append(shape[d], {stride_x[d], stride_dy[d], stride_dx[d]});
            else
                rows.outer.append(shape[d], {stride_x[d], stride_dy[d], stride_dx[d], stride_x[d]});
        }
        return map_rows(launch, rows, op::VarianceGradientRows<T, true>{{}, correction, is_root}, inputs(x, dy), inputs(),
                        inputs(x), outputs(dx), outputs());
    }
};

}  // namespace bk
