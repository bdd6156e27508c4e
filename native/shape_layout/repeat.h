// Tiling along every axis, and its adjoint.
//
// An axis of I elements repeated q times is an axis of extent q, along which x stands still, around one of extent I. So
// repeat is a strided copy, and its backward a strided sum over the axes of extent q.
#pragma once

#include <cstdint>

#include "core/checks.h"
#include "core/pointwise.h"
#include "core/strided_args.h"
#include "core/strided_sum.h"

namespace bk {

template <class T>
struct Repeat {
    int64_t output_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    const int64_t* stride_x;
    const int64_t* stride_y;

    int64_t count() const { return output_numel; }

    Status check() const {
        BK_TRY(check_shape("output_numel", output_numel, rank, "output_shape", output_shape, {{"stride_x", stride_x}},
                           {{"stride_y", stride_y}}));
        if (output_numel == 0) return Status::kOk;
        if (input_shape == nullptr) return fail(Status::kInvalidProblem, "input_shape is NULL");
        for (int32_t d = 0; d < rank; ++d)
            if (input_shape[d] < 1)
                return fail(Status::kInvalidProblem, "input_shape[%d] is %d, must be >= 1 for a non-empty output", d,
                            input_shape[d]);
        return Status::kOk;
    }

    Status run(const T* x, T* y, const Launch& launch) const {
        return tile(launch, 0, reinterpret_cast<const Bits*>(x), reinterpret_cast<Bits*>(y), Layout<2, 2 * kMaxRank>{});
    }

private:
    using Bits = bits_t<T>;  // a copy keeps the payload of a NaN

    // Splits axis d and those after it. An extent that is no multiple of the input's leaves a remainder, which is a
    // launch of its own.
    Status tile(const Launch& launch, int32_t d, const Bits* x, Bits* y, const Layout<2, 2 * kMaxRank>& outer) const {
        if (d == rank) return pointwise_strided(launch, outer, CopyFunctor{}, outputs(y), inputs(x));
        const int64_t whole = output_shape[d] / input_shape[d], rest = output_shape[d] % input_shape[d];
        if (whole > 0) {
            Layout<2, 2 * kMaxRank> layout = outer;
            layout.append(whole, {input_shape[d] * stride_y[d], 0});
            layout.append(input_shape[d], {stride_y[d], stride_x[d]});
            BK_TRY(tile(launch, d + 1, x, y, layout));
        }
        if (rest > 0) {
            Layout<2, 2 * kMaxRank> layout = outer;
            layout.append(rest, {stride_y[d], stride_x[d]});
            BK_TRY(tile(launch, d + 1, x, y + whole * input_shape[d] * stride_y[d], layout));
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

    int64_t count() const { return input_numel; }

    Status check() const {
        BK_TRY(check_shape("input_numel", input_numel, rank, "input_shape", input_shape, {{"stride_dy", stride_dy}},
                           {{"stride_dx", stride_dx}}));
        if (input_numel == 0) return Status::kOk;
        if (repeats == nullptr) return fail(Status::kInvalidProblem, "repeats is NULL");
        BK_TRY(require_shape("repeats", repeats, rank));
        int64_t total = input_numel;
        for (int32_t d = 0; d < rank; ++d) {
            const int64_t extent = int64_t{repeats[d]} * input_shape[d];
            int64_t span = 0;
            if (repeats[d] != 0 && __builtin_mul_overflow(total, int64_t{repeats[d]}, &total))
                return fail(Status::kInvalidProblem, "repeats makes more than 2^63 - 1 elements");
            if (__builtin_mul_overflow(extent, stride_dy[d], &span) || magnitude(span) > int64_t{1} << 58)
                return fail(Status::kInvalidProblem, "repeats[%d] is %d: dy would span more than 2^58 elements", d, repeats[d]);
        }
        return Status::kOk;
    }

    size_t workspace_size() const { return strided_sum_workspace<T>(axes()); }

    Status run(const T* dy, T* dx, const Launch& launch) const { return strided_sum(launch, axes(), dy, dx); }

private:
    SumAxes axes() const {
        SumAxes axes;
        for (int32_t d = 0; d < rank; ++d) {
            axes.kept.append(input_shape[d], {stride_dy[d], stride_dx[d]});
            axes.summed.append(repeats[d], {input_shape[d] * stride_dy[d]});
        }
        return axes;
    }
};

}  // namespace bk
