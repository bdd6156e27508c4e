// SPDX-License-Identifier: Apache-2.0
// Interpolation of images [N, C, spatial] of one to three spatial axes, any strides, and its gradient.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/pointwise/pointwise.h"
#include "image/resample/filter_pass.h"
#include "image/resample/window_sum.h"

namespace bk::image {

// The scalars of an interpolation from input_shape to output_shape.
struct Interpolation {
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    double scale[3];  // along z, y and x; 0: the ratio of the extents
    int32_t mode, align_corners, antialias;
    double cubic_a;

    static constexpr int32_t kFirstFilter = static_cast<int32_t>(ResampleMode::kLanczos);
    ResampleMode resample_mode() const { return static_cast<ResampleMode>(mode); }
    bool has_filters() const { return antialias != 0 || mode >= kFirstFilter; }
    bool is_nearest() const { return mode <= static_cast<int32_t>(ResampleMode::kNearestExact); }
    SampleAxes axes() const {
        SampleAxes axes;
        for (int32_t d = 2; d < rank; ++d)
            axes.of[d + 3 - rank] = SampleAxis::of(resample_mode(), input_shape[d], output_shape[d], align_corners != 0,
                                                   scale[d + 3 - rank], cubic_a);
        return axes;
    }
    BK_COLD Status check() const {
        if (rank < 3 || rank > 5) return fail(Status::kInvalidProblem, "rank is %d, must be in [3, 5]", rank);
        BK_TRY(require_shape("input_shape", input_shape, rank));
        BK_TRY(require_shape("output_shape", output_shape, rank));
        if (mode < 0 || mode >= kResampleModes)
            return fail(Status::kInvalidProblem, "resample_mode is %d, must be in [0, %d]", mode, kResampleModes - 1);
        for (const NamedExtent& flag : {NamedExtent{"align_corners", align_corners}, NamedExtent{"antialias", antialias}})
            if (flag.value != 0 && flag.value != 1)
                return fail(Status::kInvalidProblem, "%s is %lld, must be 0 or 1", flag.name,
                            static_cast<long long>(flag.value));
        if (align_corners != 0 && resample_mode() != ResampleMode::kLinear && resample_mode() != ResampleMode::kCubic)
            return fail(Status::kInvalidProblem, "align_corners is 1, must be 0 for resample_mode %d", mode);
        if (antialias != 0 && is_nearest())
            return fail(Status::kInvalidProblem, "antialias is 1, must be 0 for resample_mode %d", mode);
        if (!std::isfinite(cubic_a)) return fail(Status::kInvalidProblem, "cubic_a is %g, must be finite", cubic_a);
        for (int32_t d = 0; d < 2; ++d)
            if (input_shape[d] != output_shape[d])
                return fail(Status::kInvalidProblem, "output_shape[%d] is %d, must be that of the input, %d", d,
                            output_shape[d], input_shape[d]);
        bool is_empty = false;
        for (int32_t d = 0; d < rank; ++d) is_empty = is_empty || output_shape[d] == 0;
        for (int32_t d = 2; d < rank; ++d) {
            const int axis = d + 3 - rank;
            const double factor = scale[axis];
            if (!std::isfinite(factor) || factor < 0 || (factor > 0 && !std::isfinite(1 / factor)))
                return fail(Status::kInvalidProblem, "scale_%c is %g, must be finite and >= 0", "zyx"[axis], factor);
            if (input_shape[d] == 0 && !is_empty)
                return fail(Status::kInvalidProblem, "input_shape[%d] is 0, must be >= 1 for a non-empty output", d);
        }
        return Status::kOk;
    }
};

template <class T>
Status interpolate_images(const Launch& launch, const Interpolation& from, const ImageLayout& x_layout, const T* x,
                          const ImageLayout& y_layout, T* y) {
    if (from.is_nearest()) return nearest(launch, from.axes(), x_layout, x, y_layout, y);
    if constexpr (!std::is_same_v<T, uint8_t>)
        if (!from.has_filters()) return window_sum(launch, from.axes(), false, false, x_layout, x, y_layout, y);
    return Passes<T>{from.axes(), from.has_filters(), false, x_layout, y_layout}.run(launch, x, y);
}

template <class T>
struct Interpolate {
    int64_t output_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    double scale_z, scale_y, scale_x;
    int32_t resample_mode, align_corners, antialias;
    double cubic_a;
    const int64_t* stride_x;
    const int64_t* stride_y;

    Interpolation interpolation() const {
        return {rank, input_shape, output_shape, {scale_z, scale_y, scale_x}, resample_mode, align_corners, antialias, cubic_a};
    }
    Work work() const { return all_or_none(output_numel); }
    BK_COLD Status check() const {
        BK_TRY(interpolation().check());
        return check_shape("output_numel", output_numel, rank, "output_shape", output_shape, {{"stride_x", stride_x}},
                           {{"stride_y", stride_y}});
    }
    size_t workspace_size() const {
        const Interpolation of = interpolation();
        if (of.is_nearest() || (!of.has_filters() && !std::is_same_v<T, uint8_t>)) return 0;
        return Passes<T>{of.axes(), of.has_filters(), false, x_layout(), y_layout()}.workspace();
    }
    Status run(const T* x, T* y, const Launch& launch) const {
        return interpolate_images(launch, interpolation(), x_layout(), x, y_layout(), y);
    }

private:
    ImageLayout x_layout() const { return ImageLayout::of(rank, input_shape, stride_x); }
    ImageLayout y_layout() const { return ImageLayout::of(rank, output_shape, stride_y); }
};

template <class T>
struct InterpolateBackward {
    int64_t input_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    double scale_z, scale_y, scale_x;
    int32_t resample_mode, align_corners, antialias;
    double cubic_a;
    const int64_t* stride_dy;
    const int64_t* stride_dx;

    Interpolation interpolation() const {
        return {rank, input_shape, output_shape, {scale_z, scale_y, scale_x}, resample_mode, align_corners, antialias, cubic_a};
    }
    Work work() const {
        if (input_numel == 0) return Work::kNone;
        for (int32_t d = 2; d < rank; ++d)
            if (output_shape[d] == 0) return Work::kZeros;
        return Work::kAll;
    }
    BK_COLD Status check() const {
        BK_TRY(interpolation().check());
        return check_shape("input_numel", input_numel, rank, "input_shape", input_shape, {{"stride_dy", stride_dy}},
                           {{"stride_dx", stride_dx}});
    }
    size_t workspace_size() const { return interpolation().has_filters() ? passes().workspace() : 0; }
    Status run(const T* dy, T* dx, const Launch& launch) const {
        if (work() == Work::kZeros) {
            Layout<1> layout;
            for (int32_t d = 0; d < rank; ++d) layout.append(input_shape[d], {stride_dx[d]});
            return pointwise_strided(launch, layout, ZeroFunctor<compute_t<T>>{}, outputs(dx), inputs());
        }
        if (interpolation().has_filters()) return passes().run(launch, dy, dx);
        return window_sum(launch, interpolation().axes(), true, false, dy_layout(), dy, dx_layout(), dx);
    }

private:
    ImageLayout dy_layout() const { return ImageLayout::of(rank, output_shape, stride_dy); }
    ImageLayout dx_layout() const { return ImageLayout::of(rank, input_shape, stride_dx); }
    Passes<T> passes() const { return {interpolation().axes(), true, true, dy_layout(), dx_layout()}; }
};

}  // namespace bk::image
