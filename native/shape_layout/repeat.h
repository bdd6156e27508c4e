// SPDX-License-Identifier: Apache-2.0
// Tiling along every axis, y[c] = x[c mod shape], and its adjoint.
//
// An axis of I elements repeated q times is an axis of extent q, along which x is broadcast (stride 0), around one of
// extent I. So repeat is a strided copy, and its backward sums over the axes of extent q.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/copy/copies.h"
#include "core/reduce/reduce.h"
#include "core/reduce/sums.h"

namespace bk {

template <class T>
struct Repeat {
    int64_t output_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    const int64_t* stride_x;
    const int64_t* stride_y;

    Work work() const { return all_or_none(output_numel); }

    Status check() const {
        BK_TRY(check_shape("output_numel", output_numel, rank, "output_shape", output_shape, {{"stride_x", stride_x}},
                           {{"stride_y", stride_y}}));
        BK_TRY(require_shape("input_shape", input_shape, rank));
        for (int32_t d = 0; d < rank; ++d)
            if (input_shape[d] == 0 && output_numel > 0)
                return fail(Status::kInvalidProblem, "input_shape[%d] is 0, must be >= 1 for a non-empty output", d);
        return Status::kOk;
    }

    Status run(const T* x, T* y, const Launch& launch) const {
        CopyLayout outer;
        return tile(launch, 0, x, y, &outer);
    }

private:
    // Splits axes d and later into repeat and element axes, appended to `outer`, which is restored. A remainder of the
    // extent gets a launch of its own.
    Status tile(const Launch& launch, int32_t d, const T* x, T* y, CopyLayout* outer) const {
        if (d == rank) return copy_strided(launch, *outer, sizeof(T), x, y);
        const int64_t full_repeats = output_shape[d] / input_shape[d], remainder = output_shape[d] % input_shape[d];
        const int given = outer->rank;
        if (full_repeats > 0) {
            outer->append(full_repeats, {input_shape[d] * stride_y[d], 0});
            outer->append(input_shape[d], {stride_y[d], stride_x[d]});
            BK_TRY(tile(launch, d + 1, x, y, outer));
            outer->rank = given;
        }
        if (remainder > 0) {
            outer->append(remainder, {stride_y[d], stride_x[d]});
            BK_TRY(tile(launch, d + 1, x, y + full_repeats * input_shape[d] * stride_y[d], outer));
            outer->rank = given;
        }
        return Status::kOk;
    }
};

template <class T>
struct RepeatBackward {
    int64_t input_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* repeats;
    const int64_t* stride_dy;
    const int64_t* stride_dx;

    Work work() const {
        if (input_numel == 0) return Work::kNone;
        for (int32_t d = 0; d < rank; ++d)
            if (repeats[d] == 0) return Work::kZeros;
        return Work::kAll;
    }

    Status check() const {
        BK_TRY(check_shape("input_numel", input_numel, rank, "input_shape", input_shape, {{"stride_dy", stride_dy}},
                           {{"stride_dx", stride_dx}}));
        BK_TRY(require_shape("repeats", repeats, rank));
        int64_t num_elements = input_numel;
        for (int32_t d = 0; d < rank; ++d)
            if (__builtin_mul_overflow(num_elements, int64_t{repeats[d]}, &num_elements) || num_elements > kMaxOperandBytes)
                return fail(Status::kInvalidProblem, "repeats[%d] is %d: dy would have more than 2^47 elements", d, repeats[d]);
        return Status::kOk;
    }

    size_t workspace_size() const { return reduce_workspace<SumReducer<T>, T>(axes()); }

    Status run(const T* dy, T* dx, const Launch& launch) const {
        const ReduceAxes<1, 1> over = axes();
        if (over.reduced.numel() != 1) return reduce(launch, over, SumReducer<T>{false}, outputs(dx), inputs(dy));
        CopyLayout layout;  // summing one element must keep -0 and NaN payloads
        for (int32_t d = 0; d < rank; ++d) layout.append(input_shape[d], {stride_dx[d], stride_dy[d]});
        return copy_strided(launch, layout, sizeof(T), dy, dx);
    }

private:
    ReduceAxes<1, 1> axes() const {
        ReduceAxes<1, 1> axes;
        for (int32_t d = 0; d < rank; ++d) {
            axes.kept.append(input_shape[d], {stride_dy[d], stride_dx[d]});
            axes.reduced.append(repeats[d], {input_shape[d] * stride_dy[d]});
        }
        return axes;
    }
};

}  // namespace bk
