// SPDX-License-Identifier: Apache-2.0
// Separable interpolation by tables: a pass along each axis, the last axis first, as Pillow does. Results between passes are
// f32 (f64 for f64) in the workspace; those of bytes are bytes, each pass rounding sums of integers.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/require_workspace.h"
#include "core/collectives/items.h"
#include "core/types/dtype.h"
#include "image/resample/filter_table.h"
#include "image/resample/window_sum.h"

namespace bk::image {

template <class T>
using weight_t = std::conditional_t<std::is_same_v<T, uint8_t>, int32_t, compute_t<T>>;
// Elements between passes.
template <class T>
using between_t = std::conditional_t<std::is_same_v<T, uint8_t>, uint8_t, compute_t<T>>;

template <class T>
BK_HD T finish_pass(compute_t<T> sum) {
    return narrow<T>(sum);
}
template <class T>
BK_HD uint8_t finish_pass(int32_t sum) {
    const int32_t rounded = (sum + (1 << (kByteWeightBits - 1))) >> kByteWeightBits;
    return static_cast<uint8_t>(rounded < 0 ? 0 : rounded > 255 ? 255 : rounded);
}

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

// Axes that need a pass, and the memory between passes.
template <class T>
struct Passes {
    using Weight = weight_t<T>;
    using Between = between_t<T>;
    SampleAxes axes;
    bool antialias, is_adjoint;
    ImageLayout x, y;  // of the pass from x to y: of the adjoint, x has the outputs' extents

    size_t workspace() const {
        Carver carver;
        const Plan plan = carve(&carver);
        return plan.count == 0 ? 0 : carver.bytes();
    }
    Status run(const Launch& launch, const T* from, T* to) const {
        BK_TRY(require_workspace(launch, workspace()));
        Carver carver(launch.workspace);
        const Plan plan = carve(&carver);
        ImageLayout layout = x;
        const void* source = from;
        for (int k = 0; k < plan.count; ++k) {
            const int axis = plan.axis[k];
            const bool is_last = k + 1 == plan.count;
            BK_TRY(fill_table(launch, axes.of[axis - 2], antialias, plan.table[k]));
            const ImageLayout next = is_last ? y : between(layout, axis);
            PassJob<T> job{};
            job.x = source;
            job.y = is_last ? static_cast<void*>(to) : plan.between[k];
            job.items = OutputItems::of(next);
            copy_strides(layout, job.stride_x);
            copy_strides(next, job.stride_y);
            job.table = plan.table[k];
            job.axis = axis;
            job.is_adjoint = is_adjoint;
            job.from_between = k > 0;
            job.to_between = !is_last;
            BK_TRY(run_items(launch, job.items.split.items, kItemLanes * plan.table[k].most * 4, job));
            layout = next;
            source = job.y;
        }
        return Status::kOk;
    }

private:
    struct Plan {
        int count = 0;
        int axis[3];
        FilterTable<Weight> table[3];
        Between* between[3];
    };

    // Axes that change, the last first; without any, the last, whose matrix is then the identity.
    Plan carve(Carver* carver) const {
        Plan plan;
        for (int d = 4; d >= 2; --d)
            if (needs_pass(axes.of[d - 2])) plan.axis[plan.count++] = d;
        if (plan.count == 0) plan.axis[plan.count++] = 4;
        ImageLayout layout = x;
        for (int k = 0; k < plan.count; ++k) {
            plan.table[k] = FilterTable<Weight>::carve(carver, axes.of[plan.axis[k] - 2], antialias, is_adjoint);
            layout = between(layout, plan.axis[k]);
            plan.between[k] = k + 1 < plan.count ? carver->take<Between>(layout.elements()) : nullptr;
        }
        return plan;
    }
    static bool needs_pass(const SampleAxis& axis) { return axis.in != axis.out || axis.step != 1; }

    // Dense, with channels where y has them.
    ImageLayout between(const ImageLayout& before, int axis) const {
        ImageLayout layout = before;
        layout.extent[axis] = y.extent[axis];
        static constexpr int kOrders[2][5] = {{0, 1, 2, 3, 4}, {0, 2, 3, 4, 1}};
        int64_t step = 1;
        for (int d = 4; d >= 0; --d) {
            const int to = kOrders[y.is_channels_last() ? 1 : 0][d];
            layout.stride[to] = step;
            step *= layout.extent[to];
        }
        return layout;
    }
};

}  // namespace bk::image
