// SPDX-License-Identifier: Apache-2.0
// Interpolation on a GPU: a thread has a position and some channels, which share its windows and weights.
#pragma once

#include <cstdint>

#include "image/resample/resample_tiles_cuda.cuh"
#include "image/resample/window_sum.h"

namespace bk::image {

template <class T>
struct WindowSumJob {
    using C = compute_t<T>;
    const T* x;
    T* y;
    OutputItems items;
    int64_t stride_x[5], stride_y[5];
    SampleAxis axis[3];
    bool is_adjoint, accumulates;

    BK_HD Window window(int d, int64_t own) const { return is_adjoint ? axis[d].column(own) : axis[d].row(own); }
    BK_HD C weight(int d, int64_t own, int64_t other) const {
        return is_adjoint ? axis[d].template weight<C>(other, own) : axis[d].template weight<C>(own, other);
    }
    BK_HD void operator()(int64_t item) const {
        int64_t at[5];
        items.indices(item, at);
        const int64_t channel = items.channels.first(at[1]);
        const int lanes = items.channels.lanes(at[1]);
        const int64_t step = items.channels.step() * stride_x[1];
        const T* const image = x + at[0] * stride_x[0] + channel * stride_x[1];
        const Window in_z = window(0, at[2]), in_y = window(1, at[3]), in_x = window(2, at[4]);
        C sum[kItemLanes] = {};
        for (int64_t k = in_z.first; k < in_z.end; ++k) {
            const C of_z = weight(0, at[2], k);
            for (int64_t j = in_y.first; j < in_y.end; ++j) {
                const C of_row = of_z * weight(1, at[3], j);
                const T* const row = image + k * stride_x[2] + j * stride_x[3];
                for (int64_t i = in_x.first; i < in_x.end; ++i) {
                    const C w = of_row * weight(2, at[4], i);
                    if (w != C(0)) add_lanes(sum, lanes, w, row + i * stride_x[4], step);
                }
            }
        }
        T* const to =
            y + at[0] * stride_y[0] + channel * stride_y[1] + at[2] * stride_y[2] + at[3] * stride_y[3] + at[4] * stride_y[4];
        const int64_t step_y = items.channels.step() * stride_y[1];
        if (accumulates)
            for_lanes(lanes, [&](int lane) { to[lane * step_y] = narrow<T>(widen(to[lane * step_y]) + sum[lane]); });
        else
            for_lanes(lanes, [&](int lane) { to[lane * step_y] = narrow<T>(sum[lane]); });
    }
};

// Windows of equal weights, as of area and of the adjoint of nearest neighbours: a loop of loads and additions.
template <class T>
struct EqualSumJob {
    using C = compute_t<T>;
    static constexpr int kItemBlocks = sizeof(C) == 4 ? 4 : 2;
    const T* x;
    T* y;
    OutputItems items;
    int64_t stride_x[5], stride_y[5];
    SampleAxis axis[3];
    bool is_adjoint, accumulates;

    BK_HD void operator()(int64_t item) const {
        int64_t at[5];
        items.indices(item, at);
        const int64_t channel = items.channels.first(at[1]);
        const int lanes = items.channels.lanes(at[1]);
        const int64_t step = items.channels.step() * stride_x[1], step_y = items.channels.step() * stride_y[1];
        const T* from = x + at[0] * stride_x[0] + channel * stride_x[1];
        T* to = y + at[0] * stride_y[0] + channel * stride_y[1];
        int64_t length[3];
        C weight = C(1);
        BK_UNROLL
        for (int d = 0; d < 3; ++d) {
            const Window window = axis[d].equal_window(is_adjoint, at[2 + d]);
            length[d] = window.end - window.first;
            weight *= axis[d].template equal_weight<C>(is_adjoint, window);
            from += window.first * stride_x[2 + d];
            to += at[2 + d] * stride_y[2 + d];
        }
        C sum[kItemLanes] = {};
        for (int64_t k = 0; k < length[0]; ++k)
            for (int64_t j = 0; j < length[1]; ++j) {
                const T* const row = from + k * stride_x[2] + j * stride_x[3];
                for (int64_t i = 0; i < length[2]; ++i) add_lanes(sum, lanes, weight, row + i * stride_x[4], step);
            }
        for_lanes(lanes, [&](int lane) {
            const C before = accumulates ? static_cast<C>(widen(to[lane * step_y])) : C(0);
            to[lane * step_y] = narrow<T>(before + sum[lane]);
        });
    }
};

template <class Bits>
struct NearestJob {
    const Bits* x;
    Bits* y;
    OutputItems items;
    int64_t stride_x[5], stride_y[5];
    SampleAxis axis[3];

    BK_HD void operator()(int64_t item) const {
        int64_t at[5];
        items.indices(item, at);
        const int64_t channel = items.channels.first(at[1]);
        const int lanes = items.channels.lanes(at[1]);
        const int64_t step_x = items.channels.step() * stride_x[1], step_y = items.channels.step() * stride_y[1];
        const Bits* from = x + at[0] * stride_x[0] + channel * stride_x[1];
        Bits* to = y + at[0] * stride_y[0] + channel * stride_y[1];
        BK_UNROLL
        for (int d = 0; d < 3; ++d) {
            from += axis[d].row(at[2 + d]).first * stride_x[2 + d];
            to += at[2 + d] * stride_y[2 + d];
        }
        for_lanes(lanes, [&](int lane) { to[lane * step_y] = from[lane * step_x]; });
    }
};

template <template <class> class Job, class T>
Status run_window_sum(const Launch& launch, const SampleAxes& axes, bool is_adjoint, bool accumulates,
                      const ImageLayout& x_layout, const T* x, const ImageLayout& y_layout, T* y) {
    Job<T> job{};
    job.x = x;
    job.y = y;
    job.items = OutputItems::of(y_layout);
    copy_strides(x_layout, job.stride_x);
    copy_strides(y_layout, job.stride_y);
    for (int d = 0; d < 3; ++d) job.axis[d] = axes.of[d];
    job.is_adjoint = is_adjoint;
    job.accumulates = accumulates;
    return run_items(launch, job.items.split.items, int64_t{kItemLanes} * 4 * static_cast<int64_t>(sizeof(T)), job);
}

template <class T>
Status window_sum(const Launch& launch, const SampleAxes& axes, bool is_adjoint, bool accumulates, const ImageLayout& x_layout,
                  const T* x, const ImageLayout& y_layout, T* y) {
    bool is_equal = true;
    for (const SampleAxis& axis : axes.of) is_equal = is_equal && axis.has_equal_weights(is_adjoint);
    const ResampleTiles tiles = ResampleTiles::of(axes, is_adjoint, accumulates, x_layout, y_layout);
    if (!is_equal && tiles.is_possible()) return launch_resample_tiles(launch, tiles, x, y);
    const auto run = is_equal ? run_window_sum<EqualSumJob, T> : run_window_sum<WindowSumJob, T>;
    return run(launch, axes, is_adjoint, accumulates, x_layout, x, y_layout, y);
}

template <class T>
Status nearest(const Launch& launch, const SampleAxes& axes, const ImageLayout& x_layout, const T* x,
               const ImageLayout& y_layout, T* y) {
    NearestJob<bits_t<T>> job{};
    job.x = reinterpret_cast<const bits_t<T>*>(x);
    job.y = reinterpret_cast<bits_t<T>*>(y);
    job.items = OutputItems::of(y_layout, kCopyLanes);
    copy_strides(x_layout, job.stride_x);
    copy_strides(y_layout, job.stride_y);
    for (int d = 0; d < 3; ++d) job.axis[d] = axes.of[d];
    return run_items(launch, job.items.split.items, int64_t{kItemLanes} * 2 * static_cast<int64_t>(sizeof(T)), job);
}

}  // namespace bk::image
