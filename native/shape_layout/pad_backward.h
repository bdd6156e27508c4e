// SPDX-License-Identifier: Apache-2.0
// Adjoint of reflect, replicate and circular padding: dx[c] sums dy over all indices that were copied from c.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/reduce/gather_adjoint.h"
#include "shape_layout/extents.h"

namespace bk {

struct PadBackwardShape {
    int64_t input_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    const int32_t* pad_low;
    const int64_t* stride_dy;
    const int64_t* stride_dx;

    Work work() const {
        if (input_numel == 0) return Work::kNone;
        for (int32_t d = 0; d < rank; ++d)
            if (output_shape[d] == 0) return Work::kZeros;
        return Work::kAll;
    }
    BK_COLD Status check() const {
        BK_TRY(check_shape("input_numel", input_numel, rank, "input_shape", input_shape, {{"stride_dy", stride_dy}},
                           {{"stride_dx", stride_dx}}));
        int64_t count = 0;
        BK_TRY(count_elements("output_shape", rank, output_shape, &count));
        BK_TRY(require_array("pad_low", pad_low, rank));
        for (int32_t d = 0; d < rank; ++d)
            if (input_shape[d] == 0 && count > 0)
                return fail(Status::kInvalidProblem, "input_shape[%d] is 0, must be >= 1 for a non-empty dy", d);
        return Status::kOk;
    }
    BK_COLD GatherAdjoint folded(AdjointMode map_mode) const {
        GatherAdjoint sum;
        sum.rank = rank;
        for (int32_t d = 0; d < rank; ++d) {
            const bool is_plain = pad_low[d] == 0 && input_shape[d] == output_shape[d];
            sum.axis[d] = {is_plain ? AdjointMode::kShift : map_mode,
                           input_shape[d],
                           output_shape[d],
                           pad_low[d],
                           stride_dx[d],
                           stride_dy[d]};
        }
        return sum;
    }
};

template <AdjointMode map_mode, class T>
struct PadBackward : PadBackwardShape {
    Status run(const T* dy, T* dx, const Launch& launch) const { return gather_adjoint(launch, folded(map_mode), dy, dx); }
};

}  // namespace bk
