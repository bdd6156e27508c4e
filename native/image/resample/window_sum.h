// SPDX-License-Identifier: Apache-2.0
// Interpolation over up to three axes in one pass: y[z, y, x] = sum of the products of three entries of banded matrices
// (sample_axis.h) and an input element; and its adjoint, the same sum over columns. One writer per result, no atomics.
#pragma once

#include <cstdint>

#include "core/collectives/items.h"
#include "core/types/dtype.h"
#include "image/resample/sample_axis.h"

namespace bk::image {

// Images [N, C, z, y, x] with any strides, of which leading spatial axes may have extent 1.
struct ImageLayout {
    int64_t extent[5] = {1, 1, 1, 1, 1};
    int64_t stride[5] = {};

    static ImageLayout of(int32_t rank, const int32_t* shape, const int64_t* strides) {
        ImageLayout layout;
        for (int32_t d = 0; d < rank; ++d) {
            const int32_t to = d < 2 ? d : d + 5 - rank;
            layout.extent[to] = shape[d];
            layout.stride[to] = shape[d] > 1 ? strides[d] : 0;
        }
        return layout;
    }
    int64_t elements() const { return extent[0] * extent[1] * extent[2] * extent[3] * extent[4]; }
    bool is_channels_last() const {
        const int64_t of_channel = stride[1] < 0 ? -stride[1] : stride[1], of_x = stride[4] < 0 ? -stride[4] : stride[4];
        return extent[1] > 1 && extent[4] > 1 && of_channel < of_x;
    }
};

// Positions of an output and groups of its channels as items: adjacent items are adjacent in memory.
struct OutputItems {
    ItemSplit<5> split;
    LaneGroups channels;
    bool is_channels_last = false;

    static OutputItems of(const ImageLayout& y, int64_t plane_lanes = kItemLanes) {
        OutputItems items;
        const int64_t (&e)[5] = y.extent;
        items.is_channels_last = y.is_channels_last();
        items.channels = LaneGroups::of(e[1], e[0] * e[2] * e[3] * e[4], items.is_channels_last ? kItemLanes : plane_lanes);
        const int64_t groups = items.channels.groups;
        if (items.is_channels_last)
            items.split = ItemSplit<5>::of({e[0], e[2], e[3], e[4], groups});
        else
            items.split = ItemSplit<5>::of({e[0], groups, e[2], e[3], e[4]});
        return items;
    }
    // Image, group of channels, and spatial indices of an item.
    BK_HD void indices(int64_t item, int64_t (&at)[5]) const {
        int64_t found[5];
        split.indices(item, found);
        at[0] = found[0];
        at[1] = is_channels_last ? found[4] : found[1];
        BK_UNROLL
        for (int d = 0; d < 3; ++d) at[2 + d] = is_channels_last ? found[1 + d] : found[2 + d];
    }
};

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

// Nearest neighbours: elements of a width are copied, bit for bit.
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

inline void copy_strides(const ImageLayout& layout, int64_t (&to)[5]) {
    for (int d = 0; d < 5; ++d) to[d] = layout.stride[d];
}

// The axes of an interpolation from [in] to [out].
struct SampleAxes {
    SampleAxis of[3];
};

template <class T>
Status window_sum(const Launch& launch, const SampleAxes& axes, bool is_adjoint, bool accumulates, const ImageLayout& x_layout,
                  const T* x, const ImageLayout& y_layout, T* y) {
    WindowSumJob<T> job{};
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
