// SPDX-License-Identifier: Apache-2.0
// grid_sample: images [N, C, (D,) H, W] at the positions of a grid [N, (D',) H', W', 2 or 3], whose last axis is (x, y) or
// (x, y, z) (Jaderberg et al. 2015), and its gradients.
//
// Forward: an item per position and group of channels. Gradient of the grid: an item per position, the sum over taps and
// channels in a fixed order. Gradient of the images: records (position, tap) are sorted by the element that they read, stably,
// and each element sums its records in order: no atomics.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/workspace.h"
#include "core/collectives/items.h"
#include "core/types/dtype.h"
#include "image/grid/grid_problem.h"
#include "image/grid/sample_point.h"

namespace bk::image {

// The position of one point: along z, y and x. Two axes have one tap along z.
template <class T>
struct PointReader {
    using C = compute_t<T>;
    const T* grid;
    int64_t extent[3];
    SampleOptions options;
    int axes;

    BK_HD void read(int64_t point, AxisPoint<C> (&at)[3]) const {
        const T* const coordinates = grid + point * axes;
        at[2] = AxisPoint<C>(widen(coordinates[0]), extent[2], options);
        at[1] = AxisPoint<C>(widen(coordinates[1]), extent[1], options);
        if (axes == 3)
            at[0] = AxisPoint<C>(widen(coordinates[2]), extent[0], options);
        else
            at[0] = AxisPoint<C>(C(0), 1, {SampleMode::kNearest, SamplePadding::kBorder, false});
    }
    static PointReader of(const GridProblem& problem, const T* grid) {
        PointReader reader{grid, {}, problem.options, problem.axes};
        for (int d = 0; d < 3; ++d) reader.extent[d] = problem.x.extent[2 + d];
        return reader;
    }
};

}  // namespace bk::image

#if !BK_CUDA
#include "image/grid/sample_points_cpu.h"
#endif

namespace bk::image {

template <class T>
struct GridSampleJob {
    using C = compute_t<T>;
    const T* x;
    T* y;
    PointReader<T> points;
    OutputItems items;
    int64_t extent_y[3], stride_x[5], stride_y[5];

    BK_HD void operator()(int64_t item) const {
        int64_t own[5];
        items.indices(item, own);
        const int64_t channel = items.channels.first(own[1]);
        const int lanes = items.channels.lanes(own[1]);
        const int64_t step_x = items.channels.step() * stride_x[1], step_y = items.channels.step() * stride_y[1];
        AxisPoint<C> at[3];
        points.read(((own[0] * extent_y[0] + own[2]) * extent_y[1] + own[3]) * extent_y[2] + own[4], at);
        const T* const image = x + own[0] * stride_x[0] + channel * stride_x[1];
        C sum[kItemLanes] = {};
        for (int k = 0; k < at[0].count; ++k) {
            const int64_t z = at[0].index(k);
            if (z < 0) continue;
            for (int j = 0; j < at[1].count; ++j) {
                const int64_t row = at[1].index(j);
                if (row < 0) continue;
                const C of_row = at[0].weight(k) * at[1].weight(j);
                const T* const from = image + z * stride_x[2] + row * stride_x[3];
                for (int i = 0; i < at[2].count; ++i) {
                    const int64_t column = at[2].index(i);
                    const C w = of_row * at[2].weight(i);
                    if (column >= 0 && w != C(0)) add_lanes(sum, lanes, w, from + column * stride_x[4], step_x);
                }
            }
        }
        T* const to = y + own[0] * stride_y[0] + channel * stride_y[1] + own[2] * stride_y[2] + own[3] * stride_y[3] +
                      own[4] * stride_y[4];
        for_lanes(lanes, [&](int lane) { to[lane * step_y] = narrow<T>(sum[lane]); });
    }
};

template <class T>
Status grid_sample(const Launch& launch, const GridProblem& problem, const T* x, const T* grid, T* y) {
#if !BK_CUDA
    const SamplePoints<T> points = SamplePoints<T>::of(problem, grid);
    if (points.serves_sample()) return points.sample(x, y);
#endif
    GridSampleJob<T> job{};
    job.x = x;
    job.y = y;
    job.points = PointReader<T>::of(problem, grid);
    job.items = OutputItems::of(problem.y);
    for (int d = 0; d < 3; ++d) job.extent_y[d] = problem.y.extent[2 + d];
    copy_strides(problem.x, job.stride_x);
    copy_strides(problem.y, job.stride_y);
    return run_items(launch, job.items.split.items, int64_t{kItemLanes} * 4 * static_cast<int64_t>(sizeof(T)), job);
}

// Gradient of the coordinates of one point.
template <class T>
struct GridGradientJob {
    using C = compute_t<T>;
    const T* dy;
    const T* x;
    T* dgrid;
    PointReader<T> points;
    ItemSplit<4> split;
    int64_t channels, stride_x[5], stride_y[5];
    bool accumulates;

    BK_HD void operator()(int64_t point) const {
        int64_t own[4];
        split.indices(point, own);
        AxisPoint<C> at[3];
        points.read(point, at);
        const T* const gradient =
            dy + own[0] * stride_y[0] + own[1] * stride_y[2] + own[2] * stride_y[3] + own[3] * stride_y[4];
        C sum[3] = {};
        for (int k = 0; k < at[0].count; ++k) {
            for (int j = 0; j < at[1].count; ++j) {
                for (int i = 0; i < at[2].count; ++i) {
                    const int64_t z = at[0].index(k), row = at[1].index(j), column = at[2].index(i);
                    if (z < 0 || row < 0 || column < 0) continue;
                    const C dot = product(
                        gradient, x + own[0] * stride_x[0] + z * stride_x[2] + row * stride_x[3] + column * stride_x[4]);
                    const C of[3] = {at[0].weight(k), at[1].weight(j), at[2].weight(i)};
                    add(sum[0], at[2].slope(i) * of[0] * of[1], dot);
                    add(sum[1], at[1].slope(j) * of[0] * of[2], dot);
                    add(sum[2], at[0].slope(k) * of[1] * of[2], dot);
                }
            }
        }
        T* const to = dgrid + point * points.axes;
        for (int d = 0; d < points.axes; ++d) to[d] = narrow<T>(accumulates ? widen(to[d]) + sum[d] : sum[d]);
    }

private:
    BK_HD static void add(C& sum, C slope, C dot) {
        if (slope != C(0)) sum += slope * dot;
    }
    BK_HD C product(const T* gradient, const T* image) const {
        C sum = C(0);
        for (int64_t c = 0; c < channels; ++c) sum += widen(gradient[c * stride_y[1]]) * widen(image[c * stride_x[1]]);
        return sum;
    }
};

template <class T>
Status grid_gradient(const Launch& launch, const GridProblem& problem, bool accumulates, const T* dy, const T* x, const T* grid,
                     T* dgrid) {
#if !BK_CUDA
    const SamplePoints<T> by_points = SamplePoints<T>::of(problem, grid);
    if (by_points.serves()) return by_points.gradient(accumulates, dy, x, dgrid);
#endif
    GridGradientJob<T> job{};
    job.dy = dy;
    job.x = x;
    job.dgrid = dgrid;
    job.points = PointReader<T>::of(problem, grid);
    const int64_t (&e)[5] = problem.y.extent;
    job.split = ItemSplit<4>::of({e[0], e[2], e[3], e[4]});
    job.channels = e[1];
    copy_strides(problem.x, job.stride_x);
    copy_strides(problem.y, job.stride_y);
    job.accumulates = accumulates;
    return run_items(launch, job.split.items, problem.taps() * e[1] * 2 * static_cast<int64_t>(sizeof(T)), job);
}

// Gradient of the images. `accumulates` adds to dx, and overwrites it otherwise.
template <class T>
size_t image_gradient_workspace(const GridProblem& problem);
template <class T>
Status image_gradient(const Launch& launch, const GridProblem& problem, bool accumulates, const T* dy, const T* grid, T* dx);

// Adds the gradient without a workspace: by atomics on a GPU, whose order varies; plane by plane on the CPU.
template <class T>
Status scatter_image_gradient(const Launch& launch, const GridProblem& problem, const T* dy, const T* grid, T* dx);

}  // namespace bk::image

#include "image/grid/image_gradient.h"
