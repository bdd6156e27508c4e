// SPDX-License-Identifier: Apache-2.0
// A pass of separable interpolation on a GPU: a thread has a position and some channels, which share its weights.
#pragma once

#include <cstdint>

#include "image/resample/filter_pass.h"

namespace bk::image {

template <class T>
struct PassJob {
    using Weight = weight_t<T>;
    using Between = between_t<T>;
    const void* x;
    void* y;
    OutputItems items;
    int64_t stride_x[5], stride_y[5];
    FilterTable<Weight> table;
    int axis;  // 2 to 4
    bool is_adjoint, from_between, to_between;

    BK_HD void operator()(int64_t item) const {
        int64_t at[5];
        items.indices(item, at);
        Weight sum[kItemLanes] = {};
        if (from_between)
            add_window(static_cast<const Between*>(x), at, sum);
        else
            add_window(static_cast<const T*>(x), at, sum);
        if (to_between)
            store(static_cast<Between*>(y), at, sum);
        else
            store(static_cast<T*>(y), at, sum);
    }

private:
    template <class Element>
    BK_HD void add_window(const Element* from, const int64_t (&at)[5], Weight (&sum)[kItemLanes]) const {
        const int lanes = items.channels.lanes(at[1]);
        const int64_t step = items.channels.step() * stride_x[1], own = axis == 2 ? at[2] : axis == 3 ? at[3] : at[4];
        from += at[0] * stride_x[0] + items.channels.first(at[1]) * stride_x[1];
        BK_UNROLL
        for (int d = 2; d < 5; ++d)
            if (d != axis) from += at[d] * stride_x[d];
        const int64_t along = stride_x[axis];
        if (is_adjoint) {
            const int64_t end = table.column_end[own];
            for (int64_t o = table.column_first[own]; o < end; ++o)
                add_lanes(sum, lanes, table.weight[(own - table.first[o]) * table.rows + o], from + o * along, step);
        } else {
            const int64_t count = table.count[own];
            const Weight* weight = table.weight + own;
            from += table.first[own] * along;
            for (int64_t k = 0; k < count; ++k, weight += table.rows, from += along) add_lanes(sum, lanes, *weight, from, step);
        }
    }
    template <class Element>
    BK_HD void store(Element* to, const int64_t (&at)[5], const Weight (&sum)[kItemLanes]) const {
        const int64_t step = items.channels.step() * stride_y[1];
        to += at[0] * stride_y[0] + items.channels.first(at[1]) * stride_y[1];
        BK_UNROLL
        for (int d = 2; d < 5; ++d) to += at[d] * stride_y[d];
        for_lanes(items.channels.lanes(at[1]), [&](int lane) { to[lane * step] = finish_pass<Element>(sum[lane]); });
    }
};

template <class T>
Status run_pass(const Launch& launch, const Pass<T>& pass) {
    PassJob<T> job{};
    job.x = pass.x;
    job.y = pass.y;
    job.items = OutputItems::of(pass.to);
    copy_strides(pass.from, job.stride_x);
    copy_strides(pass.to, job.stride_y);
    job.table = pass.table;
    job.axis = pass.axis;
    job.is_adjoint = pass.is_adjoint;
    job.from_between = pass.from_between;
    job.to_between = pass.to_between;
    return run_items(launch, job.items.split.items, kItemLanes * pass.table.most * 4, job);
}

}  // namespace bk::image
