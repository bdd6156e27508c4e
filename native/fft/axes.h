// SPDX-License-Identifier: Apache-2.0
// Fourier transforms along any axes of strided arrays, fibers of which are cropped or padded with zeros to their lengths.
//
// Complex arrays are transformed from the last axis to the first: the first transform reads x, all others work in y. An array
// of real numbers is transformed along its half axis first, into complex numbers; the inverse is last along that axis, and
// those before it work in a copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/require_workspace.h"
#include "core/abi/strided_args.h"
#include "core/abi/workspace.h"
#include "core/copy/copies.h"
#include "fft/real_type.h"
#include "fft/transform.h"

namespace bk {

// The axes of a problem, of which the fibers of x and y have `in_extent` and `out_extent` elements.
struct FftProblem {
    int rank = 0;
    bool is_along[kMaxRank] = {};
    int64_t n[kMaxRank] = {};  // lengths of the transforms; extents of the other axes
    int64_t in_extent[kMaxRank] = {}, out_extent[kMaxRank] = {};
    int64_t in[kMaxRank] = {}, out[kMaxRank] = {};  // strides
    int half = -1;                                  // the axis with real numbers on one side

    // Elements of a fiber of x that a transform reads.
    int64_t present(int axis) const { return std::min(in_extent[axis], n[axis]); }
    int64_t results() const {
        int64_t count = 1;
        for (int d = 0; d < rank; ++d) count *= out_extent[d];
        return count;
    }
    bool reads_none() const {
        for (int d = 0; d < rank; ++d)
            if (in_extent[d] == 0) return true;
        return false;
    }
    // The array for a transform along `axis`, where axes behind it have been transformed, and the half axis if
    // `has_halves`, with `halves` elements.
    FftArray along(int axis, int64_t halves, const int64_t (&from)[kMaxRank], const int64_t (&to)[kMaxRank]) const {
        FftArray array;
        array.rank = rank;
        for (int d = 0; d < rank; ++d) {
            array.extent[d] = d == axis ? n[d] : d == half ? halves : !is_along[d] || d > axis ? n[d] : present(d);
            array.in[d] = from[d];
            array.out[d] = to[d];
        }
        return array;
    }
    // Likewise for the half axis itself; `is_last`: all others have been transformed.
    FftArray along_half(bool is_last, const int64_t (&from)[kMaxRank], const int64_t (&to)[kMaxRank]) const {
        FftArray array;
        array.rank = rank;
        for (int d = 0; d < rank; ++d) {
            array.extent[d] = d == half || is_last || !is_along[d] ? n[d] : present(d);
            array.in[d] = from[d];
            array.out[d] = to[d];
        }
        return array;
    }
    int others() const {
        int count = 0;
        for (int d = 0; d < rank; ++d) count += is_along[d] && d != half;
        return count;
    }
    // Row-major strides of the copy in which an inverse is transformed along the axes other than the half axis, which has
    // `halves` elements; returns its number of elements.
    int64_t copy_strides(int64_t halves, int64_t (&strides)[kMaxRank]) const {
        int64_t step = 1;
        for (int d = rank; d-- > 0; step *= d == half ? halves : n[d]) strides[d] = step;
        return step;
    }
};

// Transforms all axes but the half axis, which has `halves` elements: from x to y and then in y.
template <class R>
Status fft_other_axes(const FftProblem& of, int64_t halves, bool is_inverse, double scale, const int64_t (&from)[kMaxRank],
                      const int64_t (&to)[kMaxRank], const void* x, void* y, bool x_is_transformed, void* scratch,
                      const Launch& launch) {
    bool is_first = !x_is_transformed;
    for (int d = of.rank; d-- > 0;) {
        if (!of.is_along[d] || d == of.half) continue;
        FftFiber fiber;
        fiber.axis = d;
        fiber.present = of.present(d);
        fiber.scale = scale;
        scale = 1.0;
        BK_TRY(fft_axis<R>(of.along(d, halves, is_first ? from : to, to), fiber, is_inverse, is_first ? x : y, y, scratch,
                           launch));
        is_first = false;
    }
    return Status::kOk;
}

template <class R>
int64_t fft_other_bytes(const FftProblem& of, int64_t halves) {
    int64_t most = 0;
    for (int d = 0; d < of.rank; ++d)
        if (of.is_along[d] && d != of.half) most = std::max(most, fft_axis_bytes<R>(of.along(d, halves, of.in, of.out), d));
    return most;
}

BK_COLD inline Status require_fft_rank(int32_t rank) {
    if (rank < 1 || rank > kMaxRank) return fail(Status::kInvalidProblem, "rank is %d, must be in [1, %d]", rank, kMaxRank);
    return Status::kOk;
}

// Fields of all three ops.
struct FftAxesShape {
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    const int32_t* fourier_axes;

    BK_COLD Status check_axes() const {
        BK_TRY(require_fft_rank(rank));
        BK_TRY(require_extents("input_shape", input_shape));
        BK_TRY(require_extents("output_shape", output_shape));
        if (rank > 0 && fourier_axes == nullptr) return fail(Status::kInvalidProblem, "fourier_axes is NULL");
        bool has_axis = false;
        for (int32_t d = 0; d < rank; ++d) {
            has_axis = has_axis || fourier_axes[d] != 0;
            if (fourier_axes[d] == 0 && input_shape[d] != output_shape[d])
                return fail(Status::kInvalidProblem, "output_shape[%d] is %d, must be that of the input, %d", d,
                            output_shape[d], input_shape[d]);
        }
        if (!has_axis) return fail(Status::kInvalidProblem, "fourier_axes has no axis");
        return Status::kOk;
    }
    BK_COLD Status check_half(int32_t half_axis, int32_t length, const int32_t* shape, bool onesided) const {
        if (half_axis < 0 || half_axis >= rank || fourier_axes[half_axis] == 0)
            return fail(Status::kInvalidProblem, "half_axis is %d, must be one of fourier_axes", half_axis);
        if (length < 0) return fail(Status::kInvalidProblem, "length is %d, must be >= 0", length);
        const int32_t expected = onesided && length > 0 ? length / 2 + 1 : length;
        if (shape[half_axis] != expected)
            return fail(Status::kInvalidProblem, "output_shape[%d] is %d, must be %d of length %d", half_axis, shape[half_axis],
                        expected, length);
        return Status::kOk;
    }
    FftProblem problem(int32_t half_axis, int32_t length, const int64_t* stride_x, const int64_t* stride_y) const {
        FftProblem of;
        of.rank = rank;
        of.half = half_axis;
        for (int32_t d = 0; d < rank; ++d) {
            of.is_along[d] = fourier_axes[d] != 0;
            of.in_extent[d] = input_shape[d];
            of.out_extent[d] = output_shape[d];
            of.n[d] = d == half_axis ? length : output_shape[d];
            of.in[d] = stride_x == nullptr ? 0 : stride_x[d];
            of.out[d] = stride_y == nullptr ? 0 : stride_y[d];
        }
        return of;
    }

private:
    BK_COLD Status require_extents(const char* name, const int32_t* shape) const {
        BK_TRY(require_shape(name, shape, rank));
        int64_t count = 1;
        for (int32_t d = 0; d < rank; ++d)
            if (shape[d] > 0 && (__builtin_mul_overflow(count, int64_t{shape[d]}, &count) || count > kMaxOperandBytes))
                return fail(Status::kInvalidProblem, "%s has more than 2^47 elements", name);
        return Status::kOk;
    }
};

BK_COLD inline Status check_fft_strides(int32_t rank, const int32_t* output_shape, const int64_t* stride_x,
                                        const int64_t* stride_y) {
    if (rank > 0 && (stride_x == nullptr || stride_y == nullptr))
        return fail(Status::kInvalidProblem, "%s is NULL", stride_x == nullptr ? "stride_x" : "stride_y");
    for (int32_t d = 0; d < rank; ++d)
        if (output_shape[d] == 0) return Status::kOk;
    return require_distinct({"stride_y", stride_y}, rank, output_shape);
}

inline Work fft_work(const FftProblem& of) {
    return of.results() == 0 ? Work::kNone : of.reads_none() ? Work::kZeros : Work::kAll;
}

// y = 0, where x has no element.
BK_COLD inline Status fft_zeros(const FftProblem& of, int bytes, void* y, const Launch& launch) {
    MappedCopy copy;
    copy.rank = of.rank;
    for (int d = 0; d < of.rank; ++d) copy.axis[d] = {of.out_extent[d], 0, 0, of.out[d], 0};
    return copy_mapped(launch, copy, bytes, nullptr, y);
}

template <class T>
struct FftComplex {
    using R = fft_real_t<T>;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    const int32_t* fourier_axes;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t inverse;
    double scale;

    Work work() const { return fft_work(problem()); }
    Status check_extents() const { return shape().check_axes(); }
    BK_COLD Status check() const {
        BK_TRY(check_extents());
        return check_fft_strides(rank, output_shape, stride_x, stride_y);
    }
    size_t workspace_size() const {
        Carver carver;
        carver.take<char>(fft_other_bytes<R>(problem(), 0));
        return carver.bytes();
    }
    BK_COLD Status run(const T* x, T* y, const Launch& launch) const {
        const FftProblem of = problem();
        if (of.reads_none()) return fft_zeros(of, sizeof(T), y, launch);
        BK_TRY(require_workspace(launch, workspace_size()));
        char* const scratch = Carver(launch.workspace).take<char>(fft_other_bytes<R>(of, 0));
        return fft_other_axes<R>(of, 0, inverse != 0, scale, of.in, of.out, x, y, false, scratch, launch);
    }

private:
    FftAxesShape shape() const { return {rank, input_shape, output_shape, fourier_axes}; }
    FftProblem problem() const { return shape().problem(-1, 0, stride_x, stride_y); }
};

// Real x, complex y: its first length / 2 + 1 elements along half_axis, or all.
template <class T>
struct FftRealToComplex {
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    const int32_t* fourier_axes;
    int32_t half_axis;
    int32_t length;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t inverse;
    int32_t onesided;
    double scale;
    double interior;

    Work work() const { return fft_work(problem()); }
    BK_COLD Status check_extents() const {
        BK_TRY(shape().check_axes());
        return shape().check_half(half_axis, length, output_shape, onesided != 0);
    }
    BK_COLD Status check() const {
        BK_TRY(check_extents());
        return check_fft_strides(rank, output_shape, stride_x, stride_y);
    }
    size_t workspace_size() const {
        Carver carver;
        carver.take<char>(bytes());
        return carver.bytes();
    }
    template <class Complex>
    BK_COLD Status run(const T* x, Complex* y, const Launch& launch) const {
        static_assert(sizeof(Complex) == 2 * sizeof(T), "two real numbers");
        const FftProblem of = problem();
        if (of.reads_none()) return fft_zeros(of, sizeof(Complex), y, launch);
        BK_TRY(require_workspace(launch, workspace_size()));
        char* const scratch = Carver(launch.workspace).take<char>(bytes());
        FftFiber fiber;
        fiber.axis = half_axis;
        fiber.present = of.present(half_axis);
        fiber.in_form = FftForm::kReal;
        fiber.out_form = onesided != 0 ? FftForm::kHermitian : FftForm::kComplex;
        fiber.scale = scale;
        fiber.interior = interior;
        BK_TRY(fft_axis<T>(of.along_half(false, of.in, of.out), fiber, inverse != 0, x, y, scratch, launch));
        return fft_other_axes<T>(of, output_shape[half_axis], inverse != 0, 1.0, of.in, of.out, nullptr, y, true, scratch,
                                 launch);
    }

private:
    FftAxesShape shape() const { return {rank, input_shape, output_shape, fourier_axes}; }
    FftProblem problem() const { return shape().problem(half_axis, length, stride_x, stride_y); }
    int64_t bytes() const {
        const FftProblem of = problem();
        return std::max(fft_axis_bytes<T>(of.along_half(false, of.in, of.out), half_axis),
                        fft_other_bytes<T>(of, output_shape[half_axis]));
    }
};

// Complex x, of which the first length / 2 + 1 elements along half_axis are read, as of a Hermitian fiber, or all; real y.
template <class T>
struct FftComplexToReal {
    using R = fft_real_t<T>;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    const int32_t* fourier_axes;
    int32_t half_axis;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t inverse;
    int32_t onesided;
    double scale;
    double interior;

    Work work() const { return fft_work(problem()); }
    BK_COLD Status check_extents() const {
        BK_TRY(shape().check_axes());
        return shape().check_half(half_axis, rank > 0 && half_axis >= 0 && half_axis < rank ? output_shape[half_axis] : 0,
                                  output_shape, false);
    }
    BK_COLD Status check() const {
        BK_TRY(check_extents());
        return check_fft_strides(rank, output_shape, stride_x, stride_y);
    }
    size_t workspace_size() const {
        Carver carver;
        carve(&carver);
        return carver.bytes();
    }
    BK_COLD Status run(const T* x, R* y, const Launch& launch) const {
        const FftProblem of = problem();
        if (of.reads_none()) return fft_zeros(of, sizeof(R), y, launch);
        BK_TRY(require_workspace(launch, workspace_size()));
        Carver carver(launch.workspace);
        const Carved carved = carve(&carver);
        const void* from = x;
        int64_t strides[kMaxRank];
        std::copy(of.in, of.in + kMaxRank, strides);
        if (of.others() > 0) {
            of.copy_strides(halves(of), strides);
            BK_TRY(fft_other_axes<R>(of, halves(of), inverse != 0, 1.0, of.in, strides, x, carved.copy, false, carved.scratch,
                                     launch));
            from = carved.copy;
        }
        FftFiber fiber;
        fiber.axis = half_axis;
        fiber.present = halves(of);
        fiber.in_form = onesided != 0 ? FftForm::kHermitian : FftForm::kComplex;
        fiber.out_form = FftForm::kReal;
        fiber.scale = scale;
        fiber.interior = interior;
        return fft_axis<R>(of.along_half(true, strides, of.out), fiber, inverse != 0, from, y, carved.scratch, launch);
    }

private:
    struct Carved {
        char* copy;
        char* scratch;
    };
    FftAxesShape shape() const { return {rank, input_shape, output_shape, fourier_axes}; }
    FftProblem problem() const { return shape().problem(half_axis, output_shape[half_axis], stride_x, stride_y); }
    int64_t halves(const FftProblem& of) const {
        const int64_t n = of.n[half_axis];
        return std::min(of.in_extent[half_axis], onesided != 0 ? n / 2 + 1 : n);
    }
    Carved carve(Carver* carver) const {
        const FftProblem of = problem();
        int64_t strides[kMaxRank];
        Carved carved;
        carved.copy = carver->take<char>(of.others() == 0 ? 0 : of.copy_strides(halves(of), strides) * int64_t{sizeof(T)});
        carved.scratch = carver->take<char>(
            std::max(fft_axis_bytes<R>(of.along_half(true, of.in, of.out), half_axis), fft_other_bytes<R>(of, halves(of))));
        return carved;
    }
};

}  // namespace bk
