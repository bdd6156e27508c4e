// SPDX-License-Identifier: Apache-2.0
// Adjoint of unfold: each element of dx sums dy over the windows that contain it.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/reduce/gather_adjoint.h"
#include "shape_layout/unfold.h"

namespace bk {

struct UnfoldBackwardShape {
    int64_t input_numel;
    int32_t rank;
    const int32_t* input_shape;
    int32_t unfold_dim;
    int32_t window_size;
    int32_t window_step;
    const int64_t* stride_dy;
    const int64_t* stride_dx;

    Windows windows() const { return {rank, input_shape, unfold_dim, window_size, window_step}; }
    Work work() const { return all_or_none(input_numel); }
    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"input_numel", input_numel}}));
        BK_TRY(windows().check({"stride_dx", stride_dx}, {"stride_dy", stride_dy}));
        return Windows::check_count("input_numel", input_numel, rank, input_shape, {"stride_dx", stride_dx});
    }
    Status locate_dy(Operand* dy, const char* name, Role role, int64_t size) const {
        return windows().locate(dy, name, role, size, "stride_dy", stride_dy);
    }
    BK_COLD GatherAdjoint folded() const {
        GatherAdjoint sum;
        sum.rank = rank;
        for (int32_t d = 0; d < rank; ++d) {
            GatherAxis& axis = sum.axis[d];
            axis.extent = axis.source = input_shape[d];
            axis.stride_y = stride_dx[d], axis.stride_x = stride_dy[d];
            if (d != unfold_dim) continue;
            axis.map_mode = AdjointMode::kWindows;
            axis.source = windows().count();
            axis.window = window_size, axis.step = axis.source > 1 ? window_step : 1;  // any, for one window
            axis.stride_x = stride_dy[rank], axis.stride_window = stride_dy[d];
        }
        return sum;
    }
};

template <class T>
struct UnfoldBackward : UnfoldBackwardShape {
    Status run(const T* dy, T* dx, const Launch& launch) const { return gather_adjoint(launch, folded(), dy, dx); }
};

}  // namespace bk
