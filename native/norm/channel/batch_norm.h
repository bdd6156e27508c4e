// SPDX-License-Identifier: Apache-2.0
// Batch norm with running statistics (Ioffe and Szegedy 2015), for training and for inference.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "norm/channel/batch_shape.h"
#include "norm/channel/group_moments.h"
#include "norm/norm_map.h"

namespace bk {

// Moments of a channel. store() also updates its running ones: (1 - momentum) * running + momentum * batch.
template <class T>
struct RunningMoments : GroupMoments<T> {
    using C = compute_t<T>;
    using typename GroupMoments<T>::Acc;

    C momentum;
    const C* running_mean;
    const C* running_var;

    BK_HD auto combiner() const { return moment_combiner(*this); }
    void finish(const Acc&, int64_t) const = delete;  // store() writes instead
    // Outputs are saved_mean, saved_rstd, new_running_mean and new_running_var, one element a channel each.
    BK_HD void store(const Pack<C*, C*, C*, C*>& out, const int64_t* offset, const Acc& acc, int64_t count) const {
        const C unit = this->unit_of(acc), mean = this->unscaled(this->mean_of(acc), unit);
        get<0>(out)[offset[0]] = mean;
        get<1>(out)[offset[1]] = unit / this->stddev_of(acc, count);
        if (get<2>(out) != nullptr) {
            const C old = running_mean == nullptr ? C(0) : running_mean[offset[2]];
            get<2>(out)[offset[2]] = (C(1) - momentum) * old + momentum * mean;
        }
        if (get<3>(out) != nullptr) {
            const C old = running_var == nullptr ? C(1) : running_var[offset[3]];
            const C variance = this->squares_of(acc) / static_cast<C>(count - 1) / unit / unit;
            get<3>(out)[offset[3]] = (C(1) - momentum) * old + momentum * variance;
        }
    }
};

// statistic is the variance if has_variance, else 1 / sqrt(variance + eps).
template <class T>
Status batch_apply(const Launch& launch, const BatchShape& shape, compute_t<T> eps, bool has_variance, const T* x,
                   const compute_t<T>* mean, const compute_t<T>* statistic, const compute_t<T>* gamma, const compute_t<T>* beta,
                   T* y) {
    const Launch no_workspace{nullptr, 0, launch.stream};
    const bool has_gamma = gamma != nullptr;
    const auto coefficients = inputs(mean, statistic, gamma, beta);
    if (shape.has_columns())
        return map_rows(no_workspace, shape.template rows<2, 0>(), NormMap<T, true>{{}, eps, has_variance, has_gamma},
                        inputs(x), coefficients, inputs(), outputs(y), outputs());
    return map_rows(no_workspace, shape.template rows<2, 4>(), NormMap<T, false>{{}, eps, has_variance, has_gamma}, inputs(x),
                    inputs(), coefficients, outputs(y), outputs());
}

// Number is the type of eps and momentum.
template <class T, class Number = float>
struct BatchNormTraining {
    int32_t n_extent;
    int32_t c_extent;
    int32_t spatial_extent;
    int32_t channels_last;
    Number eps;
    Number momentum;

    using C = compute_t<T>;
    Work work() const { return shape().is_empty() ? Work::kNone : Work::kAll; }
    Status check() const { return shape().check(); }
    int64_t statistic_count() const { return shape().statistic_count(); }
    size_t workspace_size() const { return reduce_workspace<RunningMoments<T>, T>(shape().template sums<1, 4>()); }

    Status run(const T* x, const C* gamma, const C* beta, const C* running_mean, const C* running_var, T* y, C* saved_mean,
               C* saved_rstd, C* new_running_mean, C* new_running_var, const Launch& launch) const {
        const RunningMoments<T> moments{GroupMoments<T>::of(eps), static_cast<C>(momentum), running_mean, running_var};
        const auto saved = outputs(saved_mean, saved_rstd, new_running_mean, new_running_var);
        if constexpr (kRowsStayOnChip)
            if (!shape().has_columns() && can_stage_slices<T>(shape().slice_groups(), 1, x, y))
                return staged_norm(launch, shape().slice_groups(), moments, saved, x, gamma, beta, y);
        BK_TRY(reduce(launch, shape().template sums<1, 4>(), moments, saved, inputs(x)));
        return batch_apply(launch, shape(), C(0), false, x, saved_mean, saved_rstd, gamma, beta, y);
    }

private:
    BatchShape shape() const { return {n_extent, c_extent, spatial_extent, channels_last}; }
};

template <class T, class Number = float>
struct BatchNormInference {
    int32_t n_extent;
    int32_t c_extent;
    int32_t spatial_extent;
    int32_t channels_last;
    Number eps;

    using C = compute_t<T>;
    Work work() const { return shape().is_empty() ? Work::kNone : Work::kAll; }
    Status check() const { return shape().check(); }
    Status run(const T* x, const C* gamma, const C* beta, const C* running_mean, const C* running_var, T* y,
               const Launch& launch) const {
        return batch_apply(launch, shape(), static_cast<C>(eps), true, x, running_mean, running_var, gamma, beta, y);
    }

private:
    BatchShape shape() const { return {n_extent, c_extent, spatial_extent, channels_last}; }
};

}  // namespace bk
