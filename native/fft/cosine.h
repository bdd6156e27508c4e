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
#include "core/pointwise/pointwise.h"
#include "fft/axes.h"
#include "fft/roots.h"
#include "fft/transform.h"

namespace bk {

// Rows of n elements, and what the Fourier transform takes and gives: rows of `before` and `behind` real numbers.
struct FftCosineRows {
    int64_t rows, n;
    int32_t kind;
    bool is_sine;
    double edge_in, edge_out, scale;

    BK_HD bool is_whole() const { return kind == 4 && n % 2 == 1; }  // complex numbers, twice as many as elements
    int64_t length() const {
        return kind == 1 ? (is_sine ? 2 * (n + 1) : 2 * (n - 1)) : kind < 4 ? n : is_whole() ? 2 * n : n / 2;
    }
    int64_t before() const { return kind < 3 ? length() : kind == 3 ? 2 * (n / 2 + 1) : is_whole() ? 2 * n : n; }
    int64_t behind() const { return kind < 3 ? 2 * (length() / 2 + 1) : kind == 3 ? n : 2 * length(); }
};

// Input of the Fourier transform, from rows of x.
template <class R>
struct CosineBefore {
    FftCosineRows of;
    int64_t row_length;
    const R* x;

    struct Segment {
        const CosineBefore& fn;
        const R* row;
        int64_t first, count;
        BK_HD R operator()(int64_t k) const { return fn.value(row, first + k); }
    };
    BK_HD Segment at(int64_t i) const {
        const int64_t row = i / row_length, first = i - row * row_length;
        return {*this, x + row * of.n, first, row_length - first};
    }
    // Element i of a cosine's fiber.
    BK_HD R element(const R* row, int64_t i) const {
        if (i >= of.n) return R(0);
        const R value = row[of.is_sine ? of.n - 1 - i : i];
        return of.kind == 3 && i == 0 ? value * static_cast<R>(of.edge_in) : value;
    }
    BK_HD R value(const R* row, int64_t j) const {
        const int64_t n = of.n, m = row_length;
        if (of.kind == 1 && of.is_sine) {
            if (j == 0 || j == n + 1) return R(0);
            return j <= n ? row[j - 1] : -row[m - j - 1];
        }
        if (of.kind == 1) {
            const int64_t from = j < n ? j : m - j;
            return from == 0 || from == n - 1 ? row[from] * static_cast<R>(of.edge_in) : row[from];
        }
        if (of.kind == 2) {
            const int64_t from = 2 * j < n ? 2 * j : 2 * (n - 1 - j) + 1;
            return of.is_sine && from % 2 == 1 ? -row[from] : row[from];
        }
        const int64_t k = j / 2;
        if (of.is_whole()) {
            const FftRoot<R> root = unit_root<R>(k, 4 * n);
            return element(row, k) * (j % 2 == 0 ? root.c : -root.s);
        }
        const FftRoot<R> root = of.kind == 3 ? unit_root<R>(k, 4 * n) : unit_root<R>(4 * k + 1, 8 * n);
        const R a = element(row, of.kind == 3 ? k : 2 * k), b = element(row, of.kind == 3 ? n - k : n - 1 - 2 * k);
        if (of.kind == 3) return j % 2 == 0 ? a * root.c + b * root.s : a * root.s - b * root.c;
        return j % 2 == 0 ? a * root.c + b * root.s : b * root.c - a * root.s;
    }
};

// Rows of y, from what the Fourier transform gives.
template <class R>
struct CosineBehind {
    FftCosineRows of;
    int64_t row_length;
    const R* b;

    struct Segment {
        const CosineBehind& fn;
        const R* row;
        int64_t first, count;
        BK_HD R operator()(int64_t k) const { return fn.value(row, first + k); }
    };
    BK_HD Segment at(int64_t i) const {
        const int64_t row = i / of.n, first = i - row * of.n;
        return {*this, b + row * row_length, first, of.n - first};
    }
    BK_HD R value(const R* row, int64_t k) const {
        const R scale = static_cast<R>(of.scale), edge = static_cast<R>(of.scale * of.edge_out);
        const int64_t n = of.n;
        if (of.kind == 1) {
            if (of.is_sine) return -row[2 * (k + 1) + 1] * scale;
            return row[2 * k] * (k == 0 || k == n - 1 ? edge : scale);
        }
        if (of.kind == 2) {
            const int64_t at = of.is_sine ? n - 1 - k : k;
            const bool is_upper = 2 * at > n;
            const R* v = row + 2 * (is_upper ? n - at : at);
            const FftRoot<R> root = unit_root<R>(at, 4 * n);
            const R sum = v[0] * root.c + (is_upper ? -v[1] : v[1]) * root.s;
            return R(2) * sum * (at == 0 ? edge : scale);
        }
        const R sign = of.is_sine && k % 2 == 1 ? -scale : scale;
        if (of.kind == 3) return row[k % 2 == 0 ? k / 2 : n - 1 - k / 2] * sign;
        if (of.is_whole()) {
            const FftRoot<R> root = unit_root<R>(2 * k + 1, 8 * n);
            return R(2) * (row[2 * k] * root.c + row[2 * k + 1] * root.s) * sign;
        }
        const int64_t at = k % 2 == 0 ? k / 2 : (n - 1 - k) / 2;
        const FftRoot<R> root = unit_root<R>(at, 2 * n);
        const R re = row[2 * at], im = row[2 * at + 1];
        return R(2) * (k % 2 == 0 ? re * root.c + im * root.s : re * root.s - im * root.c) * sign;
    }
};

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
        BK_TRY(copy_axis(x, carved.x, true, launch));
        const int64_t before = of.before(), behind = of.behind(), length = of.length();
        const CosineBefore<T> before_fn{of, before, carved.x};
        BK_TRY(pointwise(launch, of.rows * before, before_fn, outputs(carved.before), inputs()));
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
        const CosineBehind<T> behind_fn{of, behind, carved.behind};
        BK_TRY(pointwise(launch, of.rows * of.n, behind_fn, outputs(carved.x), inputs()));
        return copy_axis(carved.x, y, false, launch);
    }

private:
    struct Carved {
        T *x, *before, *behind;
        char* scratch;
    };
    FftCosineRows rows() const {
        FftCosineRows of{1, output_shape[fourier_axis], kind, is_sine != 0, edge_in, edge_out, scale};
        for (int32_t d = 0; d < rank; ++d)
            if (d != fourier_axis) of.rows *= output_shape[d];
        return of;
    }
    Carved carve(Carver* carver) const {
        const FftCosineRows of = rows();
        FftArray array;
        array.rank = 2;
        array.extent[0] = of.rows;
        array.extent[1] = of.length();
        Carved carved;
        carved.x = carver->take<T>(of.rows * of.n);
        carved.before = carver->take<T>(of.rows * of.before());
        carved.behind = carver->take<T>(of.rows * of.behind());
        carved.scratch = carver->take<char>(fft_axis_bytes<T>(array, 1));
        return carved;
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
