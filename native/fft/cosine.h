// SPDX-License-Identifier: Apache-2.0
// Discrete cosine and sine transforms of types I to IV along an axis, as SciPy defines them, by Fourier transforms of real or
// complex fibers of about their length (Makhoul 1980 for II and III): one pass before and one behind.
//
//   I    y[k] = x[0] + (-1)^k x[n-1] + 2 sum x[j] cos(pi j k / (n-1))          2 sum x[j] sin(pi (j+1) (k+1) / (n+1))
//   II   y[k] = 2 sum x[j] cos(pi k (2j+1) / 2n)                               2 sum x[j] sin(pi (k+1) (2j+1) / 2n)
//   III  y[k] = x[0] + 2 sum over j > 0 of x[j] cos(pi j (2k+1) / 2n)          (-1)^k x[n-1] + 2 sum of the others
//   IV   y[k] = 2 sum x[j] cos(pi (2j+1) (2k+1) / 4n)                          2 sum x[j] sin(...)
//
// Sines of types II to IV are cosines of a reversed or alternating fiber. edge_in and edge_out multiply the elements of x and
// y that have a weight of their own: both ends (I, cosine), the first (II of y, III of x), or of a sine the last.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/require_workspace.h"
#include "core/abi/strided_args.h"
#include "core/abi/workspace.h"
#include "core/copy/copies.h"
#include "fft/axes.h"
#include "fft/cosine_rows.h"
#include "fft/transform.h"

namespace bk {

// The axis of x is cropped or padded with zeros to that of y.
template <class T>
struct FftCosine {
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    int32_t fourier_axis;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t kind;
    int32_t is_sine;
    double scale;
    double edge_in;
    double edge_out;

    Work work() const {
        int64_t count = 1, read = 1;
        for (int32_t d = 0; d < rank; ++d) count *= output_shape[d], read *= input_shape[d];
        return count == 0 ? Work::kNone : read == 0 ? Work::kZeros : Work::kAll;
    }
    BK_COLD Status check_extents() const {
        BK_TRY(require_fft_rank(rank));
        BK_TRY(require_shape("input_shape", input_shape, rank));
        BK_TRY(require_shape("output_shape", output_shape, rank));
        if (fourier_axis < 0 || fourier_axis >= rank)
            return fail(Status::kInvalidProblem, "fourier_axis is %d, must be in [0, rank), and rank is %d", fourier_axis,
                        rank);
        int64_t count = 1;
        for (int32_t d = 0; d < rank; ++d) {
            if (d != fourier_axis && input_shape[d] != output_shape[d])
                return fail(Status::kInvalidProblem, "output_shape[%d] is %d, must be that of the input, %d", d,
                            output_shape[d], input_shape[d]);
            if (output_shape[d] > 0 &&
                (__builtin_mul_overflow(count, int64_t{output_shape[d]}, &count) || count > kMaxOperandBytes))
                return fail(Status::kInvalidProblem, "output_shape has more than 2^47 elements");
        }
        if (kind < 1 || kind > 4) return fail(Status::kInvalidProblem, "kind is %d, must be in [1, 4]", kind);
        if (kind == 1 && is_sine == 0 && output_shape[fourier_axis] == 1)
            return fail(Status::kInvalidProblem, "output_shape[%d] is 1, must be >= 2 for a cosine transform of kind 1",
                        fourier_axis);
        return Status::kOk;
    }
    BK_COLD Status check() const {
        BK_TRY(check_extents());
        if (stride_x == nullptr || stride_y == nullptr)
            return fail(Status::kInvalidProblem, "%s is NULL", stride_x == nullptr ? "stride_x" : "stride_y");
        return work() == Work::kNone ? Status::kOk : require_distinct({"stride_y", stride_y}, rank, output_shape);
    }
    size_t workspace_size() const {
        Carver carver;
        carve(&carver);
        return carver.bytes();
    }
    BK_COLD Status run(const T* x, T* y, const Launch& launch) const {
        if (work() == Work::kZeros) return copy_axis(nullptr, y, false, launch);
        BK_TRY(require_workspace(launch, workspace_size()));
        Carver carver(launch.workspace);
        const Carved carved = carve(&carver);
        const FftCosineRows of = rows();
        const bool reads_x = is_dense(input_shape, stride_x), writes_y = is_dense(output_shape, stride_y);
        if (!reads_x) BK_TRY(copy_axis(x, carved.x, true, launch));
        if (is_one_pass()) {
            BK_TRY(run_pass(of, reads_x ? x : carved.x, writes_y ? y : carved.x, launch));
            return writes_y ? Status::kOk : copy_axis(carved.x, y, false, launch);
        }
        const int64_t before = of.before(), behind = of.behind(), length = of.length();
        BK_TRY(cosine_before<T>(launch, of, reads_x ? x : carved.x, carved.roots, carved.before));
        FftFiber fiber;
        fiber.axis = 1;
        if (kind < 3) fiber.in_form = FftForm::kReal, fiber.out_form = FftForm::kHermitian;
        if (kind == 3) fiber.in_form = FftForm::kHermitian, fiber.out_form = FftForm::kReal;
        if (of.is_whole()) fiber.present = of.n;
        FftArray array;
        array.rank = 2;
        array.extent[0] = of.rows;
        array.extent[1] = length;
        array.in[0] = kind < 3 ? before : before / 2;
        array.out[0] = kind == 3 ? behind : behind / 2;
        array.in[1] = array.out[1] = 1;
        BK_TRY(fft_axis<T>(array, fiber, kind == 3, carved.before, carved.behind, carved.scratch, launch));
        BK_TRY(cosine_behind<T>(launch, of, carved.behind, carved.roots, writes_y ? y : carved.x));
        return writes_y ? Status::kOk : copy_axis(carved.x, y, false, launch);
    }

private:
    struct Carved {
        T *x, *before, *behind, *roots;
        char* scratch;
    };
    FftCosineRows rows() const {
        FftCosineRows of{1, output_shape[fourier_axis], kind, is_sine != 0, edge_in, edge_out, scale};
        for (int32_t d = 0; d < rank; ++d)
            if (d != fourier_axis) of.rows *= output_shape[d];
        return of;
    }
    // Whether the transform's pass on a GPU also takes and gives the elements of kinds 2 and 3.
    bool is_one_pass() const {
        const int64_t n = output_shape[fourier_axis];
        return BK_CUDA && (kind == 2 || kind == 3) && 2 * n <= fft_most_values<T>() && !is_chirped(n);
    }
    BK_COLD Status run_pass(const FftCosineRows& of, const T* x, T* y, const Launch& launch) const {
        FftPass pass;
        pass.n = static_cast<int32_t>(of.n);
        pass.length = of.n;
        pass.in = pass.out = 1;
        pass.cosine = {kind, of.is_sine, kind == 2 ? edge_out : edge_in};
        pass.scale = scale;
        add_axis(pass, {of.rows, of.n, of.n});
        return fft_pass<T>(pass, x, y, nullptr, launch);
    }
    Carved carve(Carver* carver) const {
        const FftCosineRows of = rows();
        FftArray array;
        array.rank = 2;
        array.extent[0] = of.rows;
        array.extent[1] = of.length();
        Carved carved;
        carved.x = carver->take<T>(of.rows * of.n);
        carved.before = carved.behind = carved.roots = nullptr;
        carved.scratch = nullptr;
        if (is_one_pass()) return carved;
        carved.before = carver->take<T>(of.rows * of.before());
        carved.behind = carver->take<T>(of.rows * of.behind());
        carved.roots = carver->take<T>(cosine_root_count<T>(of));
        carved.scratch = carver->take<char>(fft_axis_bytes<T>(array, 1));
        return carved;
    }
    // Whether the operand is rows in order, of the results' extents.
    bool is_dense(const int32_t* shape, const int64_t* stride) const {
        int64_t step = 1;
        for (int32_t d = rank; d-- > 0; step *= shape[d])
            if (shape[d] != output_shape[d] || (shape[d] > 1 && stride[d] != step)) return false;
        for (int32_t d = fourier_axis + 1; d < rank; ++d)
            if (shape[d] != 1) return false;
        return true;
    }
    // Copies between an array and rows along the axis: of x, which is cropped or padded, or of y.
    BK_COLD Status copy_axis(const T* from, T* to, bool is_x, const Launch& launch) const {
        MappedCopy copy;
        copy.rank = rank;
        const bool is_zero = work() == Work::kZeros;
        int64_t row = output_shape[fourier_axis];
        for (int32_t d = rank; d-- > 0;) {
            const int64_t extent = output_shape[d], dense = d == fourier_axis ? 1 : row;
            if (d != fourier_axis) row *= extent;
            copy.axis[d] = {extent,
                            is_zero ? 0
                            : is_x  ? input_shape[d]
                                    : extent,
                            0, is_x ? dense : stride_y[d], is_x ? stride_x[d] : dense};
        }
        return copy_mapped(launch, copy, sizeof(T), from, to);
    }
};

}  // namespace bk
