// SPDX-License-Identifier: Apache-2.0
// Additions by atomics, in any order.
#pragma once

#include <cstdint>

#include "core/scatter/atomics.cuh"
#include "image/grid/image_gradient.h"

namespace bk::image {

template <class T>
struct AtomicScatterJob {
    using C = compute_t<T>;
    const T* dy;
    T* dx;
    PointReader<T> points;
    OutputItems items;
    int64_t extent_y[3], stride_x[5], stride_y[5];

    BK_DEVICE void operator()(int64_t item) const {
        int64_t own[5];
        items.indices(item, own);
        const int64_t channel = items.channels.first(own[1]);
        const int lanes = items.channels.lanes(own[1]);
        const int64_t step_x = items.channels.step() * stride_x[1], step_y = items.channels.step() * stride_y[1];
        AxisPoint<C> at[3];
        points.read(((own[0] * extent_y[0] + own[2]) * extent_y[1] + own[3]) * extent_y[2] + own[4], at);
        const T* const from = dy + own[0] * stride_y[0] + channel * stride_y[1] + own[2] * stride_y[2] + own[3] * stride_y[3] +
                              own[4] * stride_y[4];
        T* const image = dx + own[0] * stride_x[0] + channel * stride_x[1];
        for (int k = 0; k < at[0].count; ++k)
            for (int j = 0; j < at[1].count; ++j)
                for (int i = 0; i < at[2].count; ++i) {
                    const int64_t in[3] = {at[0].index(k), at[1].index(j), at[2].index(i)};
                    const C w = at[0].weight(k) * at[1].weight(j) * at[2].weight(i);
                    if (in[0] < 0 || in[1] < 0 || in[2] < 0 || w == C(0)) continue;
                    T* const cell = image + in[0] * stride_x[2] + in[1] * stride_x[3] + in[2] * stride_x[4];
                    for (int lane = 0; lane < lanes; ++lane) {
                        const C value[1] = {w * widen(from[lane * step_y])};
                        atomic_add(cell + lane * step_x, value);
                    }
                }
    }
};

template <class T>
Status scatter_image_gradient(const Launch& launch, const GridProblem& problem, const T* dy, const T* grid, T* dx) {
    AtomicScatterJob<T> job{};
    job.dy = dy;
    job.dx = dx;
    job.points = PointReader<T>::of(problem, grid);
    job.items = OutputItems::of(problem.y);
    for (int d = 0; d < 3; ++d) job.extent_y[d] = problem.y.extent[2 + d];
    copy_strides(problem.x, job.stride_x);
    copy_strides(problem.y, job.stride_y);
    return run_items(launch, job.items.split.items, int64_t{kItemLanes} * 8 * static_cast<int64_t>(sizeof(T)), job);
}

}  // namespace bk::image
