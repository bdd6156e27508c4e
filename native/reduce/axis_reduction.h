// SPDX-License-Identifier: Apache-2.0
// Reductions along one axis, given by its index, extent and stride.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/axis.h"
#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/operand.h"
#include "core/abi/strided_args.h"
#include "core/reduce/reduce.h"
#include "reduce/functions.h"

namespace bk {

// output_shape is 1 at the reduced axis, and the entry of stride_x there is not used.
struct AxisReduction {
    int64_t output_numel;
    int32_t rank;
    const int32_t* output_shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t reduce_axis;
    int32_t reduce_extent;
    int64_t reduce_stride_x;

    Work work() const { return output_numel == 0 ? Work::kNone : reduce_extent == 0 ? Work::kZeros : Work::kAll; }

    Status check() const {
        BK_TRY(check_shape("output_numel", output_numel, rank, "output_shape", output_shape, {{"stride_x", stride_x}},
                           {{"stride_y", stride_y}}));
        BK_TRY(require_axis("reduce_axis", reduce_axis, rank));
        BK_TRY(require_non_negative({{"reduce_extent", reduce_extent}}));
        if (output_shape[reduce_axis] != 1)
            return fail(Status::kInvalidProblem, "output_shape[%d] is %d, must be 1 along reduce_axis", reduce_axis,
                        output_shape[reduce_axis]);
        return Status::kOk;
    }

    Status locate_x(Operand* x, const char* name, Role role, int64_t size) const {
        int32_t shape[kMaxRank];
        int64_t strides[kMaxRank];
        std::copy_n(output_shape, rank, shape);
        std::copy_n(stride_x, rank, strides);
        shape[reduce_axis] = reduce_extent;
        strides[reduce_axis] = reduce_stride_x;
        BK_TRY(locate_strided(x, name, role, size, "stride_x", rank, shape, strides, nullptr));
        x->rank = 0;  // the arrays are local, and no output has the extents of x
        return Status::kOk;
    }

    // All outputs have the strides of y.
    template <int Out>
    ReduceAxes<1, Out> axes() const {
        ReduceAxes<1, Out> axes;
        for (int32_t d = 0; d < rank; ++d) {
            if (d == reduce_axis) continue;
            int64_t stride[1 + Out];
            std::fill_n(stride, 1 + Out, stride_y[d]);
            stride[0] = stride_x[d];
            axes.kept.append(output_shape[d], stride);
        }
        axes.reduced.append(reduce_extent, {reduce_stride_x});
        return axes;
    }
};

// Op is a class of reduce/functions.h.
template <class Op, class T, class U>
struct ReduceAxis : AxisReduction {
    size_t workspace_size() const { return reduction_workspace<Op>(axes<Op::kOutputs>()); }
    Status run(const T* x, U* y, const Launch& launch) const {
        return run_reduction<Op>(launch, axes<Op::kOutputs>(), Op::reducer(), x, y);
    }
};

// argmax and argmin: an empty axis is an error.
template <class Op, class T, class U>
struct ReduceArgAxis : ReduceAxis<Op, T, U> {
    Status check() const {
        BK_TRY(AxisReduction::check());
        if (this->reduce_extent == 0 && this->output_numel > 0)
            return fail(Status::kInvalidProblem, "reduce_extent is 0, must be >= 1: of nothing there is no extreme");
        return Status::kOk;
    }
};

// The divisor is the number of summands less `correction`.
struct CorrectedAxisReduction {
    int64_t output_numel;
    int32_t rank;
    const int32_t* output_shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t reduce_axis;
    int32_t reduce_extent;
    int64_t reduce_stride_x;
    int32_t correction;

    Work work() const { return uncorrected().work(); }
    Status check() const { return uncorrected().check(); }
    Status locate_x(Operand* x, const char* name, Role role, int64_t size) const {
        return uncorrected().locate_x(x, name, role, size);
    }

protected:
    AxisReduction uncorrected() const {
        return {output_numel, rank, output_shape, stride_x, stride_y, reduce_axis, reduce_extent, reduce_stride_x};
    }
};

template <class Op, class T>
struct ReduceCorrectedAxis : CorrectedAxisReduction {
    size_t workspace_size() const { return reduction_workspace<Op>(uncorrected().axes<Op::kOutputs>(), correction); }
    Status run(const T* x, T* y, const Launch& launch) const {
        return run_reduction<Op>(launch, uncorrected().axes<Op::kOutputs>(), Op::reducer(correction), x, y);
    }
};

}  // namespace bk
