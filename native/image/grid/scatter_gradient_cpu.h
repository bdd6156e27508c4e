// SPDX-License-Identifier: Apache-2.0
// Additions plane by plane, each by one thread, in the order of the positions.
#pragma once

#include <cstdint>

#include "image/grid/image_gradient.h"

namespace bk::image {

template <class T>
struct PlaneScatterJob {
    using C = compute_t<T>;
    const T* dy;
    T* dx;
    PointReader<T> points;
    GridProblem problem;

    void operator()(int64_t plane) const {
        const int64_t channels = problem.x.extent[1], image = plane / channels, channel = plane % channels;
        const int64_t (&e)[5] = problem.y.extent;
        const int64_t (&sx)[5] = problem.x.stride;
        const int64_t (&sy)[5] = problem.y.stride;
        T* const to = dx + image * sx[0] + channel * sx[1];
        const T* const from = dy + image * sy[0] + channel * sy[1];
        for (int64_t point = 0; point < problem.points(); ++point) {
            AxisPoint<C> at[3];
            points.read(image * problem.points() + point, at);
            const int64_t x = point % e[4], y = point / e[4] % e[3], z = point / e[4] / e[3];
            const C gradient = widen(from[z * sy[2] + y * sy[3] + x * sy[4]]);
            for (int k = 0; k < at[0].count; ++k)
                for (int j = 0; j < at[1].count; ++j)
                    for (int i = 0; i < at[2].count; ++i) {
                        const int64_t in[3] = {at[0].index(k), at[1].index(j), at[2].index(i)};
                        const C w = at[0].weight(k) * at[1].weight(j) * at[2].weight(i);
                        if (in[0] < 0 || in[1] < 0 || in[2] < 0 || w == C(0)) continue;
                        T* const cell = to + in[0] * sx[2] + in[1] * sx[3] + in[2] * sx[4];
                        *cell = narrow<T>(widen(*cell) + w * gradient);
                    }
        }
    }
};

template <class T>
Status scatter_image_gradient(const Launch& launch, const GridProblem& problem, const T* dy, const T* grid, T* dx) {
    const PlaneScatterJob<T> job{dy, dx, PointReader<T>::of(problem, grid), problem};
    return run_items(launch, problem.x.extent[0] * problem.x.extent[1],
                     problem.points() * problem.taps() * static_cast<int64_t>(sizeof(T)), job);
}

}  // namespace bk::image
