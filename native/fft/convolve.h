// SPDX-License-Identifier: Apache-2.0
// Convolution of real arrays along axes by Fourier transforms: the full convolution c of x and w has the extents a + b - 1 of
// fibers of a and b elements, and y[k] = c[k + starts]. Transforms have the next lengths without a prime factor above 5.
//
// A GPU convolves along one axis in chunks that a block transforms, multiplies and transforms back in shared memory
// (overlap-save, Stockham 1966), unless both fibers are long.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/pointwise/pointwise.h"
#include "fft/axes.h"

namespace bk {

// A real or an imaginary part of the product of two spectra; elements of w repeat along axes where its stride is 0.
template <class R>
struct SpectraProduct {
    Walk<1, uint64_t> walk;
    const R* a;
    const R* b;

    struct Segment {
        const SpectraProduct& fn;
        int64_t first;
        static constexpr int64_t count = INT64_MAX;
        BK_HD R operator()(int64_t i) const {
            const int64_t k = (first + i) / 2;
            const R* x = fn.a + 2 * k;
            const R* w = fn.b + 2 * static_cast<int64_t>(fn.walk(static_cast<uint64_t>(k)).of[0]);
            return (first + i) % 2 == 0 ? x[0] * w[0] - x[1] * w[1] : x[0] * w[1] + x[1] * w[0];
        }
    };
    BK_HD Segment at(int64_t i) const { return {*this, i}; }
};

template <class T>
struct FftConvolve {
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* filter_shape;
    const int32_t* output_shape;
    const int32_t* fourier_axes;
    const int32_t* starts;
    const int64_t* stride_x;
    const int64_t* stride_w;
    const int64_t* stride_y;

    Work work() const {
        int64_t results = 1, read = 1;
        for (int32_t d = 0; d < rank; ++d) results *= output_shape[d], read *= std::min(input_shape[d], filter_shape[d]);
        return results == 0 ? Work::kNone : read == 0 ? Work::kZeros : Work::kAll;
    }
    BK_COLD Status check_extents() const {
        const FftAxesShape shape{rank, input_shape, input_shape, fourier_axes};
        BK_TRY(shape.check_axes());
        BK_TRY(require_shape("filter_shape", filter_shape, rank));
        BK_TRY(require_shape("output_shape", output_shape, rank));
        if (rank > 0 && starts == nullptr) return fail(Status::kInvalidProblem, "starts is NULL");
        for (int32_t d = 0; d < rank; ++d) {
            if (fourier_axes[d] != 0) {
                if (int64_t{input_shape[d]} + filter_shape[d] > INT32_MAX)
                    return fail(Status::kInvalidProblem, "filter_shape[%d] is %d: it and the input's, %d, exceed 2^31 - 1", d,
                                filter_shape[d], input_shape[d]);
                continue;
            }
            const int32_t a = input_shape[d], b = filter_shape[d];
            if (a != b && a != 1 && b != 1)
                return fail(Status::kInvalidProblem, "filter_shape[%d] is %d, must be that of the input, %d, or 1", d, b, a);
            if (output_shape[d] != (a == 1 ? b : a))
                return fail(Status::kInvalidProblem, "output_shape[%d] is %d, must be %d", d, output_shape[d], a == 1 ? b : a);
        }
        return Status::kOk;
    }
    BK_COLD Status check() const {
        BK_TRY(check_extents());
        if (rank > 0 && (stride_x == nullptr || stride_w == nullptr || stride_y == nullptr))
            return fail(Status::kInvalidProblem, "%s is NULL",
                        stride_x == nullptr   ? "stride_x"
                        : stride_w == nullptr ? "stride_w"
                                              : "stride_y");
        return work() == Work::kNone ? Status::kOk : require_distinct({"stride_y", stride_y}, rank, output_shape);
    }
    size_t workspace_size() const {
        Carver carver;
        if (const Chunked by = chunked(); by.n > 0) {
            carve_chunks(&carver, by);
            return carver.bytes();
        }
        Plan plan(*this);
        carve(&carver, plan);
        return carver.bytes();
    }
    BK_COLD Status run(const T* x, const T* w, T* y, const Launch& launch) const {
        const Chunked by = work() == Work::kAll ? chunked() : Chunked{};
        if (by.n > 0) return run_chunks(by, x, w, y, launch);
        Plan plan(*this);
        MappedCopy window;  // of the whole product
        window.rank = rank;
        for (int32_t d = 0; d < rank; ++d) {
            const int64_t whole = work() == Work::kZeros ? 0 : fourier_axes[d] != 0 ? full(d) : output_shape[d];
            window.axis[d] = {output_shape[d], whole, fourier_axes[d] != 0 ? -int64_t{starts[d]} : 0, stride_y[d], 0};
        }
        if (work() == Work::kZeros) return copy_mapped(launch, window, sizeof(T), nullptr, y);
        BK_TRY(require_workspace(launch, workspace_size()));
        Carver carver(launch.workspace);
        const Carved carved = carve(&carver, plan);
        BK_TRY(plan.x.forward(x, carved.x, carved.scratch, launch));
        BK_TRY(plan.w.forward(w, carved.w, carved.scratch, launch));
        Layout<1> of_x, of_w;
        int64_t step_x[kMaxRank], step_w[kMaxRank], elements = 1;
        plan.x.dense(step_x);
        plan.w.dense(step_w);
        for (int32_t d = 0; d < rank; ++d) {
            elements *= plan.product[d];
            of_x.append(plan.product[d], {plan.x.half[d] == 1 && plan.product[d] > 1 ? 0 : step_x[d]});
            of_w.append(plan.product[d], {plan.w.half[d] == 1 && plan.product[d] > 1 ? 0 : step_w[d]});
        }
        const bool x_is_whole = plan.x.count() == elements;
        // The operand that is not broadcast is read in order; the product may have more elements than both.
        if (x_is_whole || plan.w.count() == elements) {
            const SpectraProduct<T> fn{Walk<1, uint64_t>(x_is_whole ? of_w : of_x), x_is_whole ? carved.x : carved.w,
                                       x_is_whole ? carved.w : carved.x};
            BK_TRY(pointwise(launch, 2 * elements, fn, outputs(carved.product), inputs()));
        } else {
            CopyLayout spread;
            for (int32_t d = 0; d < rank; ++d) spread.append(plan.product[d], {plan.step[d], of_x.stride[0][d]});
            BK_TRY(copy_strided(launch, spread, 2 * sizeof(T), carved.x, carved.spread));
            const SpectraProduct<T> fn{Walk<1, uint64_t>(of_w), carved.spread, carved.w};
            BK_TRY(pointwise(launch, 2 * elements, fn, outputs(carved.product), inputs()));
        }
        BK_TRY(plan.inverse(carved.product, carved.whole, carved.scratch, launch));
        int64_t step = 1;
        for (int32_t d = rank; d-- > 0; step *= plan.whole(d)) window.axis[d].stride_x = step;
        return copy_mapped(launch, window, sizeof(T), carved.whole, y);
    }

private:
    // Chunks along the only transformed axis, of the operand that is longer there. n 0: none.
    struct Chunked {
        int axis = -1;
        bool x_is_longer = false;
        int64_t n = 0, taps = 0, valid = 0, pairs = 0;
    };
    Chunked chunked() const {
        Chunked by;
        if (!BK_CUDA) return by;
        for (int32_t d = 0; d < rank; ++d) {
            if (fourier_axes[d] == 0) continue;
            if (by.axis >= 0) return by;
            by.axis = d;
        }
        if (by.axis < 0) return by;
        by.x_is_longer = input_shape[by.axis] >= filter_shape[by.axis];
        by.taps = std::min(input_shape[by.axis], filter_shape[by.axis]);
        const int64_t most = fft_most_values<T>();
        if (by.taps < 1 || 2 * by.taps > most) return by;
        int64_t least = INT64_MAX;
        for (int64_t n = 16, logarithm = 4; n <= most; n *= 2, ++logarithm) {
            if (n < 2 * by.taps) continue;
            const int64_t valid = n - by.taps + 1, chunks = (output_shape[by.axis] + valid - 1) / valid;
            const int64_t pairs = (chunks + 1) / 2, cost = pairs * n * (logarithm + 4);  // passes over memory count too
            if (cost < least) least = cost, by.n = n, by.valid = valid, by.pairs = pairs;
        }
        return by;
    }
    // Spectra of the shorter operand: rows of n complex numbers.
    FftArray spectra_of(const Chunked& by) const {
        const int32_t* const shape = by.x_is_longer ? filter_shape : input_shape;
        const int64_t* const stride = by.x_is_longer ? stride_w : stride_x;
        FftArray array;
        array.rank = rank;
        int64_t step = by.n;
        for (int d = rank; d-- > 0;) {
            array.extent[d] = d == by.axis ? by.n : shape[d];
            array.in[d] = stride == nullptr ? 0 : stride[d];
            array.out[d] = d == by.axis ? 1 : step;
            if (d != by.axis) step *= shape[d];
        }
        return array;
    }
    T* carve_chunks(Carver* carver, const Chunked& by) const { return carver->take<T>(2 * spectra_of(by).count()); }
    BK_COLD Status run_chunks([[maybe_unused]] const Chunked& by, [[maybe_unused]] const T* x, [[maybe_unused]] const T* w,
                              [[maybe_unused]] T* y, [[maybe_unused]] const Launch& launch) const {
#if BK_CUDA
        BK_TRY(require_workspace(launch, workspace_size()));
        Carver carver(launch.workspace);
        T* const spectra = carve_chunks(&carver, by);
        const FftArray array = spectra_of(by);
        FftFiber fiber;
        fiber.axis = by.axis;
        fiber.present = by.taps;
        fiber.in_form = FftForm::kReal;
        fiber.scale = 1.0 / static_cast<double>(by.n);
        BK_TRY(fft_axis<T>(array, fiber, false, by.x_is_longer ? w : x, spectra, nullptr, launch));
        const int32_t* const shape = by.x_is_longer ? input_shape : filter_shape;
        const int64_t* const stride = by.x_is_longer ? stride_x : stride_w;
        FftPass pass;
        pass.n = static_cast<int32_t>(by.n);
        pass.in = stride[by.axis];
        pass.out = stride_y[by.axis];
        add_axis(pass, {by.pairs, 0, 0, 0, 1});
        for (int32_t d = 0; d < rank; ++d)
            if (d != by.axis)
                add_axis(pass, {output_shape[d], shape[d] == 1 ? 0 : stride[d], stride_y[d],
                                array.extent[d] == 1 ? 0 : array.out[d], 0});
        choose_lanes(pass);
        const FftChunks chunks{shape[by.axis], by.taps, starts[by.axis], output_shape[by.axis], by.valid};
        return fft_convolve_chunks<T>(pass, chunks, by.x_is_longer ? x : w, spectra, y, launch);
#else
        return Status::kInternal;
#endif
    }

    int64_t full(int32_t d) const { return int64_t{input_shape[d]} + filter_shape[d] - 1; }

    // A spectrum: row-major, with the lengths n along the transformed axes, the last of which is halved.
    struct Spectrum {
        FftProblem of;
        int64_t half[kMaxRank] = {};

        void dense(int64_t (&steps)[kMaxRank]) const {
            int64_t step = 1;
            for (int d = of.rank; d-- > 0; step *= half[d]) steps[d] = step;
        }
        int64_t count() const {
            int64_t product = 1;
            for (int d = 0; d < of.rank; ++d) product *= half[d];
            return product;
        }
        int64_t bytes() const {
            return std::max(fft_axis_bytes<T>(of.along_half(false, of.in, of.out), of.half),
                            fft_other_bytes<T>(of, half[of.half]));
        }
        Status forward(const T* x, T* spectrum, char* scratch, const Launch& launch) const {
            FftFiber fiber;
            fiber.axis = of.half;
            fiber.present = of.present(of.half);
            fiber.in_form = FftForm::kReal;
            fiber.out_form = FftForm::kHermitian;
            BK_TRY(fft_axis<T>(of.along_half(false, of.in, of.out), fiber, false, x, spectrum, scratch, launch));
            return fft_other_axes<T>(of, half[of.half], false, 1.0, of.in, of.out, nullptr, spectrum, true, scratch, launch);
        }
    };
    struct Plan {
        Spectrum x, w;
        FftProblem back;  // the inverse, from the product's strides
        int64_t product[kMaxRank] = {}, step[kMaxRank] = {};
        int64_t total = 1;  // of the lengths

        explicit Plan(const FftConvolve& op) {
            int half = 0;
            for (int32_t d = 0; d < op.rank; ++d)
                if (op.fourier_axes[d] != 0) half = d;
            for (Spectrum* each : {&x, &w}) {
                FftProblem& of = each->of;
                of.rank = op.rank;
                of.half = half;
                for (int32_t d = 0; d < op.rank; ++d) {
                    const int64_t own = each == &x ? op.input_shape[d] : op.filter_shape[d];
                    of.is_along[d] = op.fourier_axes[d] != 0;
                    of.in_extent[d] = own;
                    of.n[d] = of.is_along[d] ? smooth_length(std::max<int64_t>(op.full(d), 1)) : own;
                    each->half[d] = of.out_extent[d] = d == half ? of.n[d] / 2 + 1 : of.n[d];
                    const int64_t* stride = each == &x ? op.stride_x : op.stride_w;
                    of.in[d] = stride == nullptr ? 0 : stride[d];
                }
                each->dense(of.out);
            }
            back = x.of;
            for (int32_t d = 0; d < op.rank; ++d) {
                product[d] = std::max(x.half[d], w.half[d]);
                if (!back.is_along[d]) back.n[d] = product[d];
                back.in_extent[d] = product[d];
                back.out_extent[d] = back.n[d];
                if (back.is_along[d]) total *= back.n[d];
            }
            int64_t of_product = 1, of_whole = 1;
            for (int d = op.rank; d-- > 0;) {
                step[d] = back.in[d] = of_product;
                back.out[d] = of_whole;
                of_product *= product[d];
                of_whole *= back.n[d];
            }
        }
        int64_t whole(int d) const { return back.n[d]; }
        int64_t bytes() const {
            return std::max({x.bytes(), w.bytes(), fft_axis_bytes<T>(back.along_half(true, back.in, back.out), back.half),
                             fft_other_bytes<T>(back, product[back.half])});
        }
        Status inverse(T* spectrum, T* result, char* scratch, const Launch& launch) const {
            BK_TRY(fft_other_axes<T>(back, product[back.half], true, 1.0, back.in, back.in, spectrum, spectrum, false, scratch,
                                     launch));
            FftFiber fiber;
            fiber.axis = back.half;
            fiber.in_form = FftForm::kHermitian;
            fiber.out_form = FftForm::kReal;
            fiber.scale = 1.0 / static_cast<double>(total);
            return fft_axis<T>(back.along_half(true, back.in, back.out), fiber, true, spectrum, result, scratch, launch);
        }
    };
    struct Carved {
        T *x, *w, *product, *spread, *whole;
        char* scratch;
    };
    Carved carve(Carver* carver, const Plan& plan) const {
        int64_t elements = 1, results = 1;
        for (int32_t d = 0; d < rank; ++d) elements *= plan.product[d], results *= plan.whole(d);
        const bool is_spread = plan.x.count() != elements && plan.w.count() != elements;
        Carved carved;
        carved.x = carver->take<T>(2 * plan.x.count());
        carved.w = carver->take<T>(2 * plan.w.count());
        carved.product = carver->take<T>(2 * elements);
        carved.spread = carver->take<T>(is_spread ? 2 * elements : 0);
        carved.whole = carver->take<T>(results);
        carved.scratch = carver->take<char>(plan.bytes());
        return carved;
    }
};

}  // namespace bk
