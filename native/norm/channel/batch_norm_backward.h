// SPDX-License-Identifier: Apache-2.0
// Gradients of batch_norm_training.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "norm/channel/batch_shape.h"
#include "norm/norm_columns.h"
#include "norm/norm_map.h"

namespace bk {

template <class T>
struct BatchNormTrainingBackward {
    int32_t n_extent;
    int32_t c_extent;
    int32_t spatial_extent;
    int32_t channels_last;

    using C = compute_t<T>;
    // Without elements dgamma and dbeta are empty sums: zeros.
    Work work() const { return !shape().is_empty() ? Work::kAll : c_extent > 0 ? Work::kZeros : Work::kNone; }
    Status check() const { return shape().check(); }
    int64_t statistic_count() const { return shape().statistic_count(); }
    size_t workspace_size() const { return reduce_workspace<NormColumnPair<T>, T, T, C, C>(sums()); }

    Status run(const T* dy, const T* x, const C* gamma, const C* saved_mean, const C* saved_rstd, T* dx, C* dgamma, C* dbeta,
               const Launch& launch) const {
        if (work() == Work::kZeros) {
            BK_TRY(write_zeros(launch, c_extent, dgamma));
            return write_zeros(launch, c_extent, dbeta);
        }
        if constexpr (kRowsStayOnChip)
            if (!shape().has_columns() && can_stage_slices<T>(shape().slice_groups(), 2, dy, x, dx))
                return staged_norm_backward(
                    launch, shape().slice_groups(),
                    StagedNormBackward<T, C, C>{dy, x, gamma, saved_mean, saved_rstd, dx, dgamma, dbeta});
        BK_TRY(reduce(launch, sums(), NormColumnPair<T>{{{}, true, false}}, outputs(dgamma, dbeta),
                      inputs(dy, x, saved_mean, saved_rstd)));
        const C inv_count = C(1) / static_cast<C>(shape().items * shape().spatial);
        const auto coefficients = inputs<C, C, C, C, C>(saved_mean, saved_rstd, gamma, dgamma, dbeta);
        const Launch no_workspace{nullptr, 0, launch.stream};
        const bool has_gamma = gamma != nullptr;
        if (shape().has_columns())
            return map_rows(no_workspace, shape().template rows<3, 0>(),
                            NormMapBackward<T, true>{{}, has_gamma, false, inv_count}, inputs(dy, x), coefficients, inputs(),
                            outputs(dx), outputs());
        return map_rows(no_workspace, shape().template rows<3, 5>(), NormMapBackward<T, false>{{}, has_gamma, false, inv_count},
                        inputs(dy, x), inputs(), coefficients, outputs(dx), outputs());
    }

private:
    BatchShape shape() const { return {n_extent, c_extent, spatial_extent, channels_last}; }
    ReduceAxes<4, 2> sums() const { return shape().template sums<4, 2, 2>(); }
};

}  // namespace bk
