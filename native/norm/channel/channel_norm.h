// SPDX-License-Identifier: Apache-2.0
// batch_norm, group_norm and group_norm_wide: y = (x - mean) * rstd * gamma + beta, with statistics over a channel of
// the batch or over a group of channels of an item.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "norm/channel/channel_shape.h"
#include "norm/channel/group_moments.h"
#include "norm/norm_map.h"
#include "norm/norm_row.h"

namespace bk {

// S is the type of the saved statistics, T or compute_t<T>; Number is the type of eps.
template <class T, class S = T, class Number = float>
struct ChannelNorm {
    int32_t n_extent;
    int32_t c_extent;
    int32_t spatial_extent;
    int32_t num_groups;
    int32_t group_kind;
    Number eps;

    Work work() const { return shape().is_empty() ? Work::kNone : Work::kAll; }
    Status check() const { return shape().check(); }
    int64_t group_count() const { return shape().group_count(); }
    size_t workspace_size() const {
        if (!shape().prefers_slices()) return map_rows_workspace<Function>(group_axes());
        Carver carver;
        carve(&carver);
        carver.take<char>(static_cast<int64_t>(group_moments_workspace<T>(shape().moment_axes())));
        return carver.bytes();
    }

    Status run(const T* x, const T* gamma, const T* beta, T* y, S* saved_mean, S* saved_rstd, const Launch& launch) const {
        const bool has_workspace = workspace_holds(launch, workspace_size());
        if constexpr (kRowsStayOnChip)
            if (can_stage_slices<T>(shape().slice_groups(), 1, x, y)) {
                const auto saved = of_each_type(saved_mean, saved_rstd);
                return staged_norm(launch, shape().slice_groups(), GroupMoments<T>::of(eps), saved, x, gamma, beta, y);
            }
        if (shape().prefers_slices() && (has_workspace || (kIsExact && saved_mean != nullptr && saved_rstd != nullptr)))
            return run_slices(launch, has_workspace, x, gamma, beta, y, saved_mean, saved_rstd);
        Function f{};
        f.eps = static_cast<C>(eps);
        f.is_centered = true;
        f.has_row_gamma = gamma != nullptr;
        f.has_row_beta = beta != nullptr;
        const Statistics<T> rounded = of_type<T>(saved_mean, saved_rstd);
        const Statistics<C> exact = kIsNarrow ? of_type<C>(saved_mean, saved_rstd) : Statistics<C>{};
        const auto run_groups = [&](const auto& function) {
            return map_rows(launch, group_axes(), function, inputs(x), inputs<T, T>(nullptr, nullptr), inputs(gamma, beta),
                            outputs(y), outputs(rounded.mean, rounded.rstd, exact.mean, exact.rstd));
        };
        if (shape().is_of_batch() || shape().width() == 1) return run_groups(f);
        NormForwardWithChannels<T> with_channels{f, {}};
        BK_TRY(shape().fill(&with_channels.channels, gamma, beta));
        return run_groups(with_channels);
    }

private:
    using C = compute_t<T>;
    using Per = ChannelShape::Per;
    using Function = NormForward<T>;
    static constexpr bool kIsExact = std::is_same_v<S, C>;    // saved statistics are not rounded
    static constexpr bool kIsNarrow = !std::is_same_v<T, C>;  // T has fewer bits than C
    static constexpr Per kFull[2] = {Per::kElement, Per::kElement};
    // Operands of the map over groups: x, y, gamma, beta, then the statistics saved in T and in C. Operands of the map
    // over slices: x, y, the statistics, gamma, beta.
    static constexpr Per kGroupOperands[8] = {Per::kElement, Per::kElement, Per::kChannel, Per::kChannel,
                                              Per::kGroup,   Per::kGroup,   Per::kGroup,   Per::kGroup};
    static constexpr Per kSliceOperands[6] = {Per::kElement, Per::kElement, Per::kGroup,
                                              Per::kGroup,   Per::kChannel, Per::kChannel};

    template <class U>
    struct Statistics {
        U *mean, *rstd;
    };

    // Returns the saved statistics if their type is U, else nulls.
    template <class U>
    static Statistics<U> of_type(S* mean, S* rstd) {
        if constexpr (std::is_same_v<U, S>)
            return {mean, rstd};
        else
            return {nullptr, nullptr};
    }

    // Returns outputs in C, then in T; the pair of the other type is null.
    static auto of_each_type(S* mean, S* rstd) {
        const Statistics<C> exact = of_type<C>(mean, rstd);
        const Statistics<T> rounded = kIsExact ? Statistics<T>{} : of_type<T>(mean, rstd);
        return outputs(exact.mean, exact.rstd, rounded.mean, rounded.rstd);
    }

    ChannelShape shape() const {
        return {n_extent, c_extent, spatial_extent, num_groups, static_cast<ChannelGroups>(group_kind)};
    }

    RowAxes<2, 6> group_axes() const { return {shape().over_groups(kGroupOperands), shape().within_group(kFull)}; }
    RowAxes<2, 4> slice_axes() const { return {shape().over_slices(kSliceOperands), shape().within_slice(kFull)}; }

    Statistics<C> carve(Carver* carver) const {
        C* const mean = carver->take<C>(group_count());
        return {mean, carver->take<C>(group_count())};
    }

    Status run_slices(const Launch& launch, bool has_workspace, const T* x, const T* gamma, const T* beta, T* y, S* saved_mean,
                      S* saved_rstd) const {
        Carver carver(has_workspace ? launch.workspace : nullptr);
        Statistics<C> statistics = carve(&carver);
        void* const scratch = carver.take<char>(0);
        const GroupMomentAxes axes = shape().moment_axes();
        const Launch inner{scratch, has_workspace ? group_moments_workspace<T>(axes) : 0, launch.stream};
        const Statistics<C> exact = of_type<C>(saved_mean, saved_rstd);
        if (exact.mean != nullptr) statistics.mean = exact.mean;
        if (exact.rstd != nullptr) statistics.rstd = exact.rstd;
        const Statistics<T> rounded = kIsExact ? Statistics<T>{} : of_type<T>(saved_mean, saved_rstd);
        BK_TRY(reduce(inner, axes, GroupMoments<T>::of(eps),
                      outputs(statistics.mean, statistics.rstd, rounded.mean, rounded.rstd), inputs(x)));
        const Launch no_workspace{nullptr, 0, launch.stream};
        return map_rows(no_workspace, slice_axes(), NormMap<T, false>{{}, C(0), false, gamma != nullptr}, inputs(x), inputs(),
                        inputs<C, C, T, T>(statistics.mean, statistics.rstd, gamma, beta), outputs(y), outputs());
    }
};

}  // namespace bk
