// SPDX-License-Identifier: Apache-2.0
// Fractional max pooling (Graham 2014, "Fractional Max-Pooling"): windows of a fixed extent whose starts are spread over the
// axis by a random number u in [0, 1) of each plane and axis.
//
//   kSpread    start(o) = floor(o (in - k) / (out - 1) + u); with one output floor(u (in - k))
//   kPyTorch   start(o) = floor((o + u) a) - floor(u a), a = (in - k) / (out - 1), and in - k for the last output
//
// Both are f32, cut to [0, in - k].
#pragma once

#include <cstdint>

#include "pool/by_index.h"
#include "pool/items.h"
#include "pool/operators.h"
#include "pool/problem.h"

namespace bk::pool {

enum class Sequence : int32_t { kSpread, kPyTorch };

struct FractionalAxis {
    int32_t last_start, out;  // in - k
    float slope;              // last_start / (out - 1)
    Sequence sequence;

    static FractionalAxis of(const Axis& axis, Sequence sequence) {
        const int32_t last_start = axis.in - axis.kernel;
        const float slope = axis.out > 1 ? static_cast<float>(last_start) / static_cast<float>(axis.out - 1) : 0.0f;
        return {last_start, axis.out, slope, sequence};
    }
    BK_HD int32_t start(int32_t o, float u) const {
        if (sequence == Sequence::kPyTorch) {
            if (o == out - 1) return last_start;
            return cut(static_cast<float>(whole((static_cast<float>(o) + u) * slope) - whole(u * slope)));
        }
        if (out == 1) return cut(u * static_cast<float>(last_start));
        const float spread = static_cast<float>(int64_t{o} * last_start) / static_cast<float>(out - 1);
        return cut(spread + u);
    }

private:
    // Truncated and bounded, so that no conversion overflows; 0 for NaN.
    BK_HD int64_t whole(float x) const { return x > 0.0f ? static_cast<int64_t>(x < 0x1p40f ? x : 0x1p40f) : 0; }
    BK_HD int32_t cut(float x) const {
        const int64_t at = whole(x);
        return at < last_start ? static_cast<int32_t>(at) : last_start;
    }
};

template <class T>
struct FractionalJob {
    using C = compute_t<T>;
    Problem p;
    FractionalAxis axis[kAxes];
    int32_t spatial;
    bool is_of_tensor;  // whether indices count from the first plane
    LongDiv by_windows, by_plane, by_row, by_channels;
    const T* x;
    const float* samples;  // [N, C, spatial], in the order of the axes
    T* y;
    int64_t* indices;

    BK_HD void operator()(int64_t item) const {
        const auto at = by_windows(item);
        const auto plane = by_channels(at.quotient);
        const auto outer = by_plane(at.remainder);
        const auto row = by_row(outer.remainder);
        const int32_t o[] = {static_cast<int32_t>(outer.quotient), static_cast<int32_t>(row.quotient),
                             static_cast<int32_t>(row.remainder)};
        int32_t start[kAxes] = {};
        for (int32_t d = kAxes - spatial; d < kAxes; ++d)
            start[d] = axis[d].start(o[d], samples[at.quotient * spatial + (d - kAxes + spatial)]);
        const T* const from = x + p.x.plane(plane.quotient, plane.remainder) + p.x.at(start[0], start[1], start[2]);
        const MaxOp<T> op{};
        auto lane = op.start();
        int32_t t = 0;
        for (int32_t a = 0; a < p.axis[0].kernel; ++a)
            for (int32_t b = 0; b < p.axis[1].kernel; ++b)
                for (int32_t c = 0; c < p.axis[2].kernel; ++c) op.add(lane, widen(from[p.x.at(a, b, c)]), t++);
        y[p.y.plane(plane.quotient, plane.remainder) + p.y.at(o[0], o[1], o[2])] = narrow<T>(lane.value);
        if (indices == nullptr) return;
        const int32_t winner = lane.at < 0 ? 0 : lane.at, c = winner % p.axis[2].kernel, rows = winner / p.axis[2].kernel;
        const int64_t number =
            p.cell_number(start[0] + rows / p.axis[1].kernel, start[1] + rows % p.axis[1].kernel, start[2] + c);
        indices[p.indices.plane(plane.quotient, plane.remainder) + p.indices.at(o[0], o[1], o[2])] =
            number + (is_of_tensor ? at.quotient * p.cells() : 0);
    }
};

template <class T>
Status fractional_max_pool(const Launch& launch, const Problem& p, int32_t spatial, Sequence sequence, const T* x,
                           const float* samples, T* y, int64_t* indices) {
    const int64_t row = p.axis[2].out, plane = row * p.axis[1].out;
    const FractionalJob<T> job{p,
                               {FractionalAxis::of(p.axis[0], sequence), FractionalAxis::of(p.axis[1], sequence),
                                FractionalAxis::of(p.axis[2], sequence)},
                               spatial,
                               sequence == Sequence::kSpread,
                               LongDiv(p.windows()),
                               LongDiv(plane),
                               LongDiv(row),
                               LongDiv(p.channels),
                               x,
                               samples,
                               y,
                               indices};
    const int64_t bytes = p.window_cells() * static_cast<int64_t>(sizeof(T)) + 8;
    return run_items(launch, p.planes() * p.windows(), bytes, job);
}

// Dense images; kernel 0: the function has none.
struct FractionalImage {
    int32_t batch, channels;
    int rank;
    DenseAxis axis[kAxes];

    BK_COLD Status check(bool has_kernel) const {
        BK_TRY(require_non_negative({{"batch", batch}, {"channels", channels}}));
        for (int d = 0; d < rank; ++d)
            if (axis[d].in <= 0) return fail_axis(axis[d].letter, "", "_in", axis[d].in, "> 0");
        for (int d = 0; d < rank; ++d)
            if (axis[d].out <= 0) return fail_axis(axis[d].letter, "", "_out", axis[d].out, "> 0");
        int64_t cells = 1;
        for (int d = 0; has_kernel && d < rank; ++d) {
            if (axis[d].kernel <= 0) return fail_axis(axis[d].letter, "k", "", axis[d].kernel, "> 0");
            if (axis[d].kernel > axis[d].in)
                return fail_axis(axis[d].letter, "k", "", axis[d].kernel, "at most the extent of the input");
            cells = std::min(cells * axis[d].kernel, kMostCells + 1);
        }
        if (cells > kMostCells)
            return fail_axis(axis[0].letter, "k", "", axis[0].kernel, "less: a window would have 2^31 cells or more");
        return Status::kOk;
    }
    BK_COLD Problem problem() const {
        Problem p;
        p.batch = batch, p.channels = channels;
        for (int d = 0; d < rank; ++d)
            p.axis[kAxes - rank + d] = Axis::windows(axis[d].in, axis[d].out, axis[d].kernel, 1, 1, 0, 0);
        return dense(p);
    }
    Work work() const { return all_or_none(int64_t{batch} * channels); }
};

struct Fractional2dArguments {
    int32_t batch, channels, h_in, w_in, h_out, w_out, kh, kw;

    FractionalImage given() const { return {batch, channels, 2, {{'h', h_in, h_out, kh, 1, 0}, {'w', w_in, w_out, kw, 1, 0}}}; }
};

struct Fractional3dArguments {
    int32_t batch, channels, d_in, h_in, w_in, d_out, h_out, w_out, kd, kh, kw;

    FractionalImage given() const {
        return {batch, channels, 3, {{'d', d_in, d_out, kd, 1, 0}, {'h', h_in, h_out, kh, 1, 0}, {'w', w_in, w_out, kw, 1, 0}}};
    }
};

struct Fractional2dBackwardArguments {
    int32_t batch, channels, h_in, w_in, h_out, w_out;

    FractionalImage given() const { return {batch, channels, 2, {{'h', h_in, h_out, 1, 1, 0}, {'w', w_in, w_out, 1, 1, 0}}}; }
};

struct Fractional3dBackwardArguments {
    int32_t batch, channels, d_in, h_in, w_in, d_out, h_out, w_out;

    FractionalImage given() const {
        return {batch, channels, 3, {{'d', d_in, d_out, 1, 1, 0}, {'h', h_in, h_out, 1, 1, 0}, {'w', w_in, w_out, 1, 1, 0}}};
    }
};

template <class T, class Given>
struct DenseFractionalMaxPool : Given {
    int64_t random_count() const { return int64_t{this->batch} * this->channels * this->given().rank; }
    Work work() const { return this->given().work(); }
    Status check() const { return this->given().check(true); }
    Status run(const T* x, T* y, int64_t* indices, const float* random_samples, const Launch& launch) const {
        return fractional_max_pool(launch, this->given().problem(), this->given().rank, Sequence::kSpread, x, random_samples, y,
                                   indices);
    }
};

// Adds to dx.
template <class T, class Given>
struct DenseFractionalMaxPoolBackward : Given {
    Work work() const { return this->given().work(); }
    Status check() const { return this->given().check(false); }
    Status run(const T* dy, const int64_t* indices, T* dx, const Launch& launch) const {
        return store_by_index(launch, this->given().problem(), ByIndex::kAddToCells, true, dy, indices, dx);
    }
};

struct FractionalMaxPoolArguments {
    int32_t rank;
    const int32_t *input_shape, *kernel_size, *output_size;
    const int64_t *stride_x, *stride_y, *stride_indices;

    OutputArguments given() const { return {{rank, input_shape}, output_size}; }
    int32_t spatial() const { return rank - 2; }
    int64_t planes() const { return given().image.planes(); }
    Work work() const { return all_or_none(given().planes_of_outputs()); }
    BK_COLD Status check() const {
        BK_TRY(given().check());
        BK_TRY(require_entries("kernel_size", kernel_size, spatial(), 1));
        int64_t cells = 1;
        for (int32_t d = 0; d < spatial(); ++d) {
            if (kernel_size[d] > input_shape[2 + d])
                return fail(Status::kInvalidProblem, "kernel_size[%d] is %d, must be at most input_shape[%d], %d", d,
                            kernel_size[d], 2 + d, input_shape[2 + d]);
            cells = std::min(cells * kernel_size[d], kMostCells + 1);
        }
        if (cells > kMostCells)
            return fail(Status::kInvalidProblem, "kernel_size[0] is %d: a window would have 2^31 cells or more",
                        kernel_size[0]);
        BK_TRY(check_strides({"stride_x", stride_x}, rank, given().image.shape(), false));
        BK_TRY(check_strides({"stride_y", stride_y}, rank, given().outputs(), true));
        return check_strides({"stride_indices", stride_indices}, rank, given().outputs(), true);
    }
    Status locate_y(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_y", rank, given().outputs(), stride_y);
    }
    Status locate_indices(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_indices", rank, given().outputs(), stride_indices);
    }
    BK_COLD Problem problem() const {
        Problem p = given().image.problem();
        for (int32_t d = 0; d < spatial(); ++d)
            p.axis[kAxes - spatial() + d] = Axis::windows(input_shape[2 + d], output_size[d], kernel_size[d], 1, 1, 0, 0);
        p.x = given().cell_strides(stride_x);
        p.y = given().output_strides(stride_y);
        p.indices = given().output_strides(stride_indices);
        return p;
    }
};

template <class T>
struct FractionalMaxPool : FractionalMaxPoolArguments {
    Status run(const T* x, const float* samples, T* y, int64_t* indices, const Launch& launch) const {
        return fractional_max_pool(launch, problem(), spatial(), Sequence::kPyTorch, x, samples, y, indices);
    }
};

struct FractionalMaxPoolBackwardArguments {
    int32_t rank;
    const int32_t *input_shape, *output_size;
    const int64_t *stride_dy, *stride_indices, *stride_dx;

    OutputArguments given() const { return {{rank, input_shape}, output_size}; }
    Work work() const { return all_or_none(given().image.planes()); }
    BK_COLD Status check() const {
        BK_TRY(given().check());
        BK_TRY(check_strides({"stride_dy", stride_dy}, rank, given().outputs(), false));
        BK_TRY(check_strides({"stride_indices", stride_indices}, rank, given().outputs(), false));
        return check_strides({"stride_dx", stride_dx}, rank, given().image.shape(), true);
    }
    Status locate_dy(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_dy", rank, given().outputs(), stride_dy);
    }
    Status locate_indices(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_indices", rank, given().outputs(), stride_indices);
    }
    BK_COLD Problem problem() const {
        Problem p = given().adaptive();
        p.y = given().output_strides(stride_dy);
        p.indices = given().output_strides(stride_indices);
        p.x = given().cell_strides(stride_dx);
        return p;
    }
};

template <class T>
struct FractionalMaxPoolBackward : FractionalMaxPoolBackwardArguments {
    Status run(const T* dy, const int64_t* indices, T* dx, const Launch& launch) const {
        return store_by_index(launch, problem(), ByIndex::kSum, false, dy, indices, dx);
    }
};

}  // namespace bk::pool
