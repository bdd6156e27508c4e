// SPDX-License-Identifier: Apache-2.0
// Reductions over any set of axes, the bits of reduce_axes_mask, by the kernels of reductions along one axis.
//
// x has the extents `shape`. Outputs have extent 1 along the reduced axes, where their strides are not used, so that
// these may be those of an array without the axes, or with them. Indices of extremes are row-major along them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/operand.h"
#include "core/abi/strided_args.h"
#include "core/reduce/reduce.h"
#include "reduce/functions.h"

namespace bk {

// Axes given by extents and a mask.
struct MaskedAxes {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    int32_t mask;

    bool is_reduced(int32_t axis) const { return mask >> axis & 1; }

    // Extents of the results.
    void kept_shape(int32_t (&kept)[kMaxRank]) const {
        for (int32_t d = 0; d < rank; ++d) kept[d] = is_reduced(d) ? 1 : shape[d];
    }
    bool has_results() const {
        for (int32_t d = 0; d < rank; ++d)
            if (!is_reduced(d) && shape[d] == 0) return false;
        return true;
    }
    Work work() const { return numel > 0 ? Work::kAll : has_results() ? Work::kZeros : Work::kNone; }

    BK_COLD Status check(NamedStrides x, std::initializer_list<NamedStrides> outputs) const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {x}, {}));
        for (const NamedStrides& strides : outputs) BK_TRY(require_strides(&strides, &strides + 1, rank));
        if (mask < 0 || mask >> rank != 0)
            return fail(Status::kInvalidProblem, "reduce_axes_mask is %d, must have bits of the %d axes alone", mask, rank);
        int32_t kept[kMaxRank];
        kept_shape(kept);
        if (has_results())
            for (const NamedStrides& strides : outputs) BK_TRY(require_distinct(strides, rank, kept));
        return Status::kOk;
    }

    BK_COLD Status locate(Operand* y, const char* name, Role role, int64_t size, const char* strides_name,
                          const int64_t* strides) const {
        int32_t kept[kMaxRank];
        int64_t steps[kMaxRank];
        kept_shape(kept);
        for (int32_t d = 0; d < rank; ++d) steps[d] = is_reduced(d) ? 0 : strides[d];
        BK_TRY(locate_strided(y, name, role, size, strides_name, rank, kept, steps, nullptr));
        y->rank = 0;  // the arrays are local, and no input has the extents of y
        y->shape = nullptr;
        y->strides = nullptr;
        return Status::kOk;
    }

    template <int Out>
    BK_COLD ReduceAxes<1, Out> axes(const int64_t* stride_x, const int64_t* const (&outputs)[Out]) const {
        ReduceAxes<1, Out> axes;
        for (int32_t d = 0; d < rank; ++d) {
            if (is_reduced(d)) {
                axes.reduced.append(shape[d], {stride_x[d]});
                continue;
            }
            int64_t stride[1 + Out] = {stride_x[d]};
            for (int o = 0; o < Out; ++o) stride[1 + o] = outputs[o][d];
            axes.kept.append(shape[d], stride);
        }
        return axes;
    }
};

// Fields are in the order of the table's parameters; other ops append theirs.
struct ReducedAxes {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t reduce_axes_mask;

    MaskedAxes masked() const { return {numel, rank, shape, reduce_axes_mask}; }
    Work work() const { return masked().work(); }
    Status check() const { return masked().check({"stride_x", stride_x}, {{"stride_y", stride_y}}); }
    Status locate_y(Operand* y, const char* name, Role role, int64_t size) const {
        return masked().locate(y, name, role, size, "stride_y", stride_y);
    }
    template <int Out>
    ReduceAxes<1, Out> axes() const {
        const int64_t* outputs[Out];
        std::fill_n(outputs, Out, stride_y);
        return masked().axes(stride_x, outputs);
    }
};

// Op is a class of reduce/functions.h.
template <class Op, class T, class U>
struct ReduceOverAxes : ReducedAxes {
    size_t workspace_size() const { return reduction_workspace<Op>(axes<Op::kOutputs>()); }
    Status run(const T* x, U* y, const Launch& launch) const {
        return run_reduction<Op>(launch, axes<Op::kOutputs>(), Op::reducer(), x, y);
    }
};

// Variance or standard deviation, and the mean, either of which may be null.
template <class Op, class T>
struct ReduceMomentsOverAxes {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    const int64_t* stride_mean;
    int32_t reduce_axes_mask;
    int32_t correction;

    MaskedAxes masked() const { return {numel, rank, shape, reduce_axes_mask}; }
    Work work() const { return masked().work(); }
    Status check() const {
        return masked().check({"stride_x", stride_x}, {{"stride_y", stride_y}, {"stride_mean", stride_mean}});
    }
    Status locate_y(Operand* y, const char* name, Role role, int64_t size) const {
        return masked().locate(y, name, role, size, "stride_y", stride_y);
    }
    Status locate_mean(Operand* mean, const char* name, Role role, int64_t size) const {
        return masked().locate(mean, name, role, size, "stride_mean", stride_mean);
    }
    size_t workspace_size() const { return reduction_workspace<Op>(axes(), correction); }
    Status run(const T* x, T* y, T* mean, const Launch& launch) const {
        if (y == nullptr && mean == nullptr) return Status::kOk;
        return reduce(launch, axes(), Op::reducer(correction), outputs(y, mean), inputs(x));
    }

private:
    ReduceAxes<1, 2> axes() const { return masked().axes(stride_x, {stride_y, stride_mean}); }
};

// The extreme and its index, either of which may be null. An empty reduction is an error.
template <class Op, class T, class U>
struct ReduceExtremeOverAxes {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_value;
    const int64_t* stride_place;
    int32_t reduce_axes_mask;

    MaskedAxes masked() const { return {numel, rank, shape, reduce_axes_mask}; }
    Work work() const { return masked().work(); }
    Status check() const {
        BK_TRY(masked().check({"stride_x", stride_x}, {{"stride_value", stride_value}, {"stride_place", stride_place}}));
        if (work() == Work::kZeros)
            return fail(Status::kInvalidProblem, "numel is 0, must be >= 1: of nothing there is no extreme");
        return Status::kOk;
    }
    Status locate_value(Operand* value, const char* name, Role role, int64_t size) const {
        return masked().locate(value, name, role, size, "stride_value", stride_value);
    }
    Status locate_place(Operand* place, const char* name, Role role, int64_t size) const {
        return masked().locate(place, name, role, size, "stride_place", stride_place);
    }
    size_t workspace_size() const { return reduction_workspace<Op>(axes()); }
    Status run(const T* x, T* value, U* place, const Launch& launch) const {
        if (value == nullptr && place == nullptr) return Status::kOk;
        using Element = typename Op::Element;
        return reduce(launch, axes(), Op::reducer(),
                      outputs(reinterpret_cast<Element*>(value), reinterpret_cast<uint8_t*>(place)),
                      inputs(reinterpret_cast<const Element*>(x)));
    }

private:
    ReduceAxes<1, 2> axes() const { return masked().axes(stride_x, {stride_value, stride_place}); }
};

}  // namespace bk
