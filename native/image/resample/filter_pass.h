// SPDX-License-Identifier: Apache-2.0
// Separable interpolation by tables: a pass along each axis, the last axis first, as Pillow does. Results between passes are
// f32 (f64 for f64) in the workspace; those of bytes are bytes, each pass rounding sums of integers.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/require_workspace.h"
#include "core/types/dtype.h"
#include "image/resample/filter_table.h"
#include "image/resample/image_layout.h"
#include "image/resample/pass_elements.h"
#include "image/resample/window_sum.h"

namespace bk::image {

// One pass along `axis`, 2 to 4: y[.., o, ..] = sum of weight[o, i] x[.., i, ..] in the order of i, or its adjoint.
template <class T>
struct Pass {
    const void* x;
    void* y;
    ImageLayout from, to;
    FilterTable<weight_t<T>> table;
    int axis;
    bool is_adjoint, from_between, to_between;
};
template <class T>
Status run_pass(const Launch& launch, const Pass<T>& pass);

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
            void* const result = is_last ? static_cast<void*>(to) : plan.between[k];
            const Pass<T> pass{source, result, layout, next, plan.table[k], axis, is_adjoint, k > 0, !is_last};
            BK_TRY(run_pass(launch, pass));
            layout = next;
            source = result;
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

#if BK_CUDA
#include "image/resample/filter_pass_cuda.cuh"
#else
#include "image/resample/filter_pass_cpu.h"
#endif
