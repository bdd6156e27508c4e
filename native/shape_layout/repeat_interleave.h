// SPDX-License-Identifier: Apache-2.0
// repeat_interleave, y[i] = x[i / q] along one axis, and its adjoint.
//
// An axis of I elements, each repeated q times, is one of extent I around one of extent q, along which x is broadcast
// (stride 0).
#pragma once

#include <cstdint>

#include "core/abi/axis.h"
#include "core/abi/checks.h"
#include "core/copy/copies.h"
#include "core/reduce/reduce.h"
#include "core/reduce/repeated_sums.h"
#include "core/reduce/sums.h"
#include "shape_layout/extents.h"

namespace bk {

struct InterleavedAxis {
    int32_t rank;
    const int32_t* input_shape;
    int32_t repeat_dim;
    int32_t repeat_count;

    // Needs `input_shape`, but not its relation to other arguments.
    BK_COLD Status check() const {
        BK_TRY(require_axis("repeat_dim", repeat_dim, rank));
        if (repeat_count < 0) return fail(Status::kInvalidProblem, "repeat_count is %d, must be >= 0", repeat_count);
        if (int64_t{input_shape[repeat_dim]} * repeat_count > INT32_MAX)
            return fail(Status::kInvalidProblem, "repeat_count is %d: there would be 2^31 or more elements along repeat_dim",
                        repeat_count);
        return Status::kOk;
    }
    // Strides of the repeated operand, then of the other one.
    CopyLayout layout(const int64_t* stride_long, const int64_t* stride_short) const {
        CopyLayout layout;
        for (int32_t d = 0; d < rank; ++d) {
            const bool repeated = d == repeat_dim;
            layout.append(input_shape[d], {stride_long[d] * (repeated ? repeat_count : 1), stride_short[d]});
            if (repeated) layout.append(repeat_count, {stride_long[d], 0});
        }
        return layout;
    }
    Extents extents() const {
        Extents all;
        for (int32_t d = 0; d < rank; ++d) all.of[d] = input_shape[d] * (d == repeat_dim ? repeat_count : 1);
        return all;
    }
};

template <class T>
struct RepeatInterleave {
    int64_t output_numel;
    int32_t rank;
    const int32_t* input_shape;
    int32_t repeat_dim;
    int32_t repeat_count;
    const int64_t* stride_x;
    const int64_t* stride_y;

    Work work() const { return all_or_none(output_numel); }
    BK_COLD Status check() const {
        BK_TRY(require_rank(rank));
        BK_TRY(require_shape("input_shape", input_shape, rank));
        BK_TRY(axis().check());
        const Extents extents = axis().extents();
        return check_shape("output_numel", output_numel, rank, "input_shape with repeat_count", extents.of,
                           {{"stride_x", stride_x}}, {{"stride_y", stride_y}});
    }
    Status locate_y(Operand* y, const char* name, Role role, int64_t size) const {
        return locate_extents(y, name, role, size, "stride_y", rank, axis().extents(), stride_y);
    }
    Status run(const T* x, T* y, const Launch& launch) const {
        return copy_strided(launch, axis().layout(stride_y, stride_x), sizeof(T), x, y);
    }

private:
    InterleavedAxis axis() const { return {rank, input_shape, repeat_dim, repeat_count}; }
};

template <class T>
struct RepeatInterleaveBackward {
    int64_t input_numel;
    int32_t rank;
    const int32_t* input_shape;
    int32_t repeat_dim;
    int32_t repeat_count;
    const int64_t* stride_dy;
    const int64_t* stride_dx;

    Work work() const { return input_numel == 0 ? Work::kNone : repeat_count == 0 ? Work::kZeros : Work::kAll; }
    BK_COLD Status check() const {
        BK_TRY(check_shape("input_numel", input_numel, rank, "input_shape", input_shape, {{"stride_dy", stride_dy}},
                           {{"stride_dx", stride_dx}}));
        BK_TRY(axis().check());
        if (repeat_count > 0 && input_numel > kMaxOperandBytes / repeat_count)
            return fail(Status::kInvalidProblem, "repeat_count is %d: dy would have more than 2^47 elements", repeat_count);
        return Status::kOk;
    }
    Status locate_dy(Operand* dy, const char* name, Role role, int64_t size) const {
        return locate_extents(dy, name, role, size, "stride_dy", rank, axis().extents(), stride_dy);
    }
    size_t workspace_size() const { return reduce_workspace<SumReducer<T>, T>(axes()); }
    Status run(const T* dy, T* dx, const Launch& launch) const {
        // Summing one element must keep -0 and NaN payloads.
        if (repeat_count == 1) return copy_strided(launch, axis().layout(stride_dx, stride_dy), sizeof(T), dy, dx);
        bool is_done = false;
        BK_TRY(sum_repeated(launch, axis().layout(stride_dy, stride_dx), dy, dx, &is_done));
        return is_done ? Status::kOk : reduce(launch, axes(), SumReducer<T>{false}, outputs(dx), inputs(dy));
    }

private:
    InterleavedAxis axis() const { return {rank, input_shape, repeat_dim, repeat_count}; }
    ReduceAxes<1, 1> axes() const {
        ReduceAxes<1, 1> axes;
        for (int32_t d = 0; d < rank; ++d)
            axes.kept.append(input_shape[d], {stride_dy[d] * (d == repeat_dim ? repeat_count : 1), stride_dx[d]});
        axes.reduced.append(repeat_count, {stride_dy[repeat_dim]});
        return axes;
    }
};

}  // namespace bk
