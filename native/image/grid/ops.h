// SPDX-License-Identifier: Apache-2.0
// Ops of grid_sample: of any strides and options, and of dense images under the names of the reference.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/require_workspace.h"
#include "core/abi/strided_args.h"
#include "core/pointwise/pointwise.h"
#include "image/grid/grid_sample.h"

namespace bk::image {

// The scalars of a sampling from input_shape [N, C, spatial] to output_shape [N, C, positions].
struct GridShape {
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    int32_t sample_mode, padding_mode, align_corners;

    int64_t points() const {
        int64_t all = output_shape[0];
        for (int32_t d = 2; d < rank; ++d) all *= output_shape[d];
        return all;
    }
    bool has_positions() const {
        for (int32_t d = 2; d < rank; ++d)
            if (output_shape[d] == 0) return false;
        return true;
    }
    GridProblem problem(const int64_t* stride_x, const int64_t* stride_y) const {
        return {ImageLayout::of(rank, input_shape, stride_x),
                ImageLayout::of(rank, output_shape, stride_y),
                {static_cast<SampleMode>(sample_mode), static_cast<SamplePadding>(padding_mode), align_corners != 0},
                rank - 2};
    }
    BK_COLD Status check() const {
        if (rank < 4 || rank > 5) return fail(Status::kInvalidProblem, "rank is %d, must be 4 or 5", rank);
        BK_TRY(require_shape("input_shape", input_shape, rank));
        BK_TRY(require_shape("output_shape", output_shape, rank));
        const struct {
            const char* name;
            int32_t value, most;
        } modes[] = {{"sample_mode", sample_mode, 2}, {"padding_mode", padding_mode, 2}, {"align_corners", align_corners, 1}};
        for (const auto& mode : modes)
            if (mode.value < 0 || mode.value > mode.most)
                return fail(Status::kInvalidProblem, "%s is %d, must be in [0, %d]", mode.name, mode.value, mode.most);
        for (int32_t d = 0; d < 2; ++d)
            if (input_shape[d] != output_shape[d])
                return fail(Status::kInvalidProblem, "output_shape[%d] is %d, must be that of the input, %d", d,
                            output_shape[d], input_shape[d]);
        for (int32_t d = 2; d < rank; ++d)
            if (input_shape[d] == 0 && output_shape[0] > 0 && has_positions())
                return fail(Status::kInvalidProblem, "input_shape[%d] is 0, must be >= 1 for positions to sample", d);
        int64_t count = output_shape[0];
        for (int32_t d = 2; d < rank; ++d)
            if (__builtin_mul_overflow(count, int64_t{output_shape[d]}, &count) || count > kMaxOperandBytes)
                return fail(Status::kInvalidProblem, "output_shape[%d] is %d: the grid would have more than 2^47 bytes", d,
                            output_shape[d]);
        return Status::kOk;
    }
};

template <class T>
Status write_zero_images(const Launch& launch, int32_t rank, const int32_t* shape, const int64_t* strides, T* dx) {
    Layout<1> layout;
    for (int32_t d = 0; d < rank; ++d) layout.append(shape[d], {strides[d]});
    return layout.is_empty() ? Status::kOk
                             : pointwise_strided(launch, layout, ZeroFunctor<compute_t<T>>{}, outputs(dx), inputs());
}

template <class T>
struct GridSample {
    int64_t output_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    int32_t sample_mode, padding_mode, align_corners;
    const int64_t* stride_x;
    const int64_t* stride_y;

    GridShape shape() const { return {rank, input_shape, output_shape, sample_mode, padding_mode, align_corners}; }
    int64_t points() const { return shape().points(); }
    int64_t coordinates() const { return rank - 2; }
    Work work() const { return all_or_none(output_numel); }
    BK_COLD Status check() const {
        BK_TRY(shape().check());
        return check_shape("output_numel", output_numel, rank, "output_shape", output_shape, {{"stride_x", stride_x}},
                           {{"stride_y", stride_y}});
    }
    Status run(const T* x, const T* grid, T* y, const Launch& launch) const {
        return grid_sample(launch, shape().problem(stride_x, stride_y), x, grid, y);
    }
};

template <class T>
struct GridSampleBackward {
    int64_t input_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    int32_t sample_mode, padding_mode, align_corners;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* stride_dx;

    GridShape shape() const { return {rank, input_shape, output_shape, sample_mode, padding_mode, align_corners}; }
    int64_t points() const { return shape().points(); }
    int64_t coordinates() const { return rank - 2; }
    // Without channels the gradient of the grid is 0, and without positions that of the images.
    Work work() const {
        if (input_numel == 0 && points() == 0) return Work::kNone;
        return input_numel == 0 || points() == 0 ? Work::kZeros : Work::kAll;
    }
    BK_COLD Status check() const {
        BK_TRY(shape().check());
        return check_shape("input_numel", input_numel, rank, "input_shape", input_shape,
                           {{"stride_dy", stride_dy}, {"stride_x", stride_x}}, {{"stride_dx", stride_dx}});
    }
    size_t workspace_size() const { return image_gradient_workspace<T>(shape().problem(stride_dx, stride_dy)); }
    Status run(const T* dy, const T* x, const T* grid, T* dx, T* dgrid, const Launch& launch) const {
        if (work() == Work::kZeros) {
            if (dx != nullptr) BK_TRY(write_zero_images(launch, rank, input_shape, stride_dx, dx));
            return points() == 0 ? Status::kOk : write_zeros(launch, points() * coordinates(), dgrid);
        }
        const GridProblem of_images = shape().problem(stride_dx, stride_dy);
        BK_TRY(require_records(of_images));
        BK_TRY(require_workspace(launch, workspace_size()));
        if (dx != nullptr) BK_TRY(image_gradient(launch, of_images, false, dy, grid, dx));
        if (dgrid == nullptr) return Status::kOk;
        return grid_gradient(launch, shape().problem(stride_x, stride_dy), false, dy, x, grid, dgrid);
    }
};

// --- dense images under the names of the reference --------------------------------------------------------------------

struct DenseGrid2d {
    int32_t n, c, ih, iw, oh, ow;

    bool has_points() const { return n > 0 && oh > 0 && ow > 0; }
    Status check() const {
        BK_TRY(require_non_negative({{"n", n}, {"c", c}, {"ih", ih}, {"iw", iw}, {"oh", oh}, {"ow", ow}}));
        for (const NamedExtent& e : {NamedExtent{"ih", ih}, NamedExtent{"iw", iw}})
            if (e.value == 0 && has_points())
                return fail(Status::kInvalidProblem, "%s is 0, must be >= 1 for positions to sample", e.name);
        return Status::kOk;
    }
    static ImageLayout layout(int64_t n, int64_t c, int64_t height, int64_t width) {
        ImageLayout layout;
        const int64_t extents[5] = {n, c, 1, height, width};
        const int64_t strides[5] = {c * height * width, height * width, 0, width, 1};
        for (int d = 0; d < 5; ++d) layout.extent[d] = extents[d], layout.stride[d] = strides[d];
        return layout;
    }
    GridProblem problem() const {
        return {layout(n, c, ih, iw), layout(n, c, oh, ow), {SampleMode::kLinear, SamplePadding::kZeros, false}, 2};
    }
};

template <class T>
struct GridSample2d {
    int32_t n, c, ih, iw, oh, ow;

    DenseGrid2d images() const { return {n, c, ih, iw, oh, ow}; }
    Work work() const { return all_or_none(int64_t{n} * c * (int64_t{oh} * ow)); }
    Status check() const { return images().check(); }
    Status run(const T* input, const T* grid, T* output, const Launch& launch) const {
        return grid_sample(launch, images().problem(), input, grid, output);
    }
};

// Both gradients are added to. Without channels or positions nothing is.
template <class T>
struct GridSample2dBackward {
    int32_t n, c, ih, iw, oh, ow;

    DenseGrid2d images() const { return {n, c, ih, iw, oh, ow}; }
    Work work() const { return images().has_points() ? all_or_none(c) : Work::kNone; }
    Status check() const { return images().check(); }
    size_t workspace_size() const { return image_gradient_workspace<T>(images().problem()); }
    Status run(const T* dout, const T* input, const T* grid, T* dinput, T* dgrid, const Launch& launch) const {
        const GridProblem problem = images().problem();
        if (workspace_holds(launch, workspace_size()))
            BK_TRY(image_gradient(launch, problem, true, dout, grid, dinput));
        else
            BK_TRY(scatter_image_gradient(launch, problem, dout, grid, dinput));
        return grid_gradient(launch, problem, true, dout, input, grid, dgrid);
    }
};

}  // namespace bk::image
