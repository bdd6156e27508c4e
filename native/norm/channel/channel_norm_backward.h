// SPDX-License-Identifier: Apache-2.0
// Gradients of batch_norm, group_norm and group_norm_wide, with saved or recomputed statistics.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "norm/channel/channel_shape.h"
#include "norm/channel/group_moments.h"
#include "norm/norm_columns.h"
#include "norm/norm_map.h"
#include "norm/norm_row.h"

namespace bk {

// CPU only: whether one pass over memory computes dx, dgamma and dbeta of this shape, without a workspace.
template <class T>
bool takes_group_slices(const ChannelShape& shape);

// Operands of run_group_slices(); dx, gamma, dgamma and dbeta may be null.
template <class T, class S>
struct GroupSlices {
    ChannelShape shape;
    const T *dy, *x, *gamma;
    const S *mean, *rstd;
    T *dx, *dgamma, *dbeta;
};

template <class T, class S>
Status run_group_slices(const GroupSlices<T, S>& of);

// S is the type of the statistics, T or compute_t<T>.
template <class T, class S = T>
struct ChannelNormBackward {
    int32_t n_extent;
    int32_t c_extent;
    int32_t spatial_extent;
    int32_t num_groups;
    int32_t group_kind;

    // Without elements dgamma and dbeta are empty sums: zeros.
    Work work() const { return !shape().is_empty() ? Work::kAll : c_extent > 0 ? Work::kZeros : Work::kNone; }
    Status check() const { return shape().check(); }
    int64_t group_count() const { return shape().group_count(); }
    size_t workspace_size() const {
        Carver carver;
        if (has_slice_sums()) carve(&carver);
        carver.take<char>(static_cast<int64_t>(inner_workspace()));
        return carver.bytes();
    }

    Status run(const T* dy, const T* x, const T* gamma, const S* saved_mean, const S* saved_rstd, T* dx, T* dgamma, T* dbeta,
               const Launch& launch) const {
        if (work() == Work::kZeros) {
            BK_TRY(write_zeros(launch, c_extent, dgamma));
            return write_zeros(launch, c_extent, dbeta);
        }
        const bool has_workspace = workspace_holds(launch, workspace_size());
        if constexpr (!kRowsStayOnChip)
            if (takes_group_slices<T>(shape()))
                return run_group_slices(GroupSlices<T, S>{shape(), dy, x, gamma, saved_mean, saved_rstd, dx, dgamma, dbeta});
        const GradientInputs of{dy, x, gamma, saved_mean, saved_rstd};
        if constexpr (kRowsStayOnChip)
            if (can_stage_slices<T>(shape().slice_groups(), 2, dy, x, dx))
                return run_staged(launch, has_workspace, {dy, x, gamma, saved_mean, saved_rstd, dx, dgamma, dbeta});
        const bool wants_sums = dgamma != nullptr || dbeta != nullptr;
        const bool is_exact = std::is_same_v<T, C> && dgamma != nullptr && dbeta != nullptr;
        if (sums_slices() && shape().is_of_batch() && (has_workspace || is_exact))
            return run_batch(launch, has_workspace, of, dx, dgamma, dbeta);
        // Groups in registers (GPU) do not profit from slice sums unless dgamma or dbeta is wanted.
        if (sums_slices() && !shape().is_of_batch() && has_workspace && (wants_sums || !kRowsStayOnChip))
            return run_items(launch, of, dx, dgamma, dbeta);
        // dgamma and dbeta come before dx, which may alias dy or x.
        if (wants_sums && !shape().is_of_batch())
            BK_TRY(norm_columns<T>(launch, column_axes(), true, dy, x, saved_mean, saved_rstd, nullptr, x,
                                   {nullptr, nullptr, dgamma, dbeta}));
        return run_groups(launch, of, dx, dgamma, dbeta);
    }

    // Computes the statistics of x as well and writes them, in the same pass; sets *is_done if it can.
    BK_COLD Status run_with_moments(const T* dy, const T* x, const T* gamma, S* mean, S* rstd, compute_t<T> eps, T* dx,
                                    T* dgamma, T* dbeta, const Launch& launch, bool* is_done) const {
        const bool has_workspace = workspace_holds(launch, workspace_size());
        if constexpr (kRowsStayOnChip) {
            const bool has_sums = has_workspace || shape().is_of_batch() || (dgamma == nullptr && dbeta == nullptr);
            *is_done = has_sums && can_stage_slices<T>(shape().slice_groups(), 2, dy, x, dx);
            if (*is_done)
                return run_staged(launch, has_workspace,
                                  {dy, x, gamma, nullptr, nullptr, dx, dgamma, dbeta, nullptr, nullptr, mean, rstd, eps});
        }
        return Status::kOk;
    }

private:
    using C = compute_t<T>;
    using Per = ChannelShape::Per;
    using Function = NormBackward<T>;
    struct GradientInputs {
        const T *dy, *x, *gamma;
        const S *mean, *rstd;

        // Returns the statistic if its type is U, else null.
        template <class U>
        const U* mean_of() const {
            if constexpr (std::is_same_v<U, S>)
                return mean;
            else
                return nullptr;
        }
        template <class U>
        const U* rstd_of() const {
            if constexpr (std::is_same_v<U, S>)
                return rstd;
            else
                return nullptr;
        }
        const T* rounded_mean() const { return std::is_same_v<T, C> ? nullptr : mean_of<T>(); }
        const T* rounded_rstd() const { return std::is_same_v<T, C> ? nullptr : rstd_of<T>(); }
    };
    struct Sums {
        C *sum_gx, *sum_g;      // of each channel of an item
        C *group_gx, *group_g;  // over a group; with gamma, except of a batch
    };
    static constexpr Per kFull[3] = {Per::kElement, Per::kElement, Per::kElement};
    // Operands of the map over groups: dy, x, dx, gamma, statistics in T, statistics in C, dgamma, dbeta.
    static constexpr Per kGroupOperands[10] = {Per::kElement, Per::kElement, Per::kElement, Per::kChannel, Per::kGroup,
                                               Per::kGroup,   Per::kGroup,   Per::kGroup,   Per::kChannel, Per::kChannel};
    // Operands of the map over slices: dy, x, dx, statistics in C, statistics in T, gamma, sums of a group.
    static constexpr Per kSliceOperands[10] = {Per::kElement, Per::kElement, Per::kElement, Per::kGroup, Per::kGroup,
                                               Per::kGroup,   Per::kGroup,   Per::kChannel, Per::kGroup, Per::kGroup};

    ChannelShape shape() const {
        return {n_extent, c_extent, spatial_extent, num_groups, static_cast<ChannelGroups>(group_kind)};
    }

    // Whether a pass of sums, then a map over slices may beat a map over groups. For groups of an item the pass sums
    // slices; the sums of groups and of channels combine those.
    bool sums_slices() const {
        constexpr int64_t kLongSlice = 256;
        return shape().prefers_slices() || (kRowsStayOnChip && !shape().is_of_batch() && shape().spatial >= kLongSlice);
    }

    // Whether run() can use sums carved from the workspace.
    bool has_slice_sums() const {
        if constexpr (kRowsStayOnChip)
            if (!shape().is_of_batch() && may_stage_slices<T>(shape().slice_groups())) return true;
        return sums_slices();
    }

    // For groups of an item dgamma and dbeta combine slice sums or, without a workspace, take a pass of their own
    // before dx, which may alias dy or x.
    BK_COLD Status run_staged(const Launch& launch, bool has_workspace, StagedNormBackward<T, S, T> staged) const {
        const GradientInputs of{staged.dy, staged.x, staged.gamma, staged.mean, staged.rstd};
        const bool wants_sums = staged.dgamma != nullptr || staged.dbeta != nullptr;
        if (shape().is_of_batch() || !wants_sums) return staged_norm_backward(launch, shape().slice_groups(), staged);
        if (!has_workspace) {
            BK_TRY(norm_columns<T>(launch, column_axes(), true, of.dy, of.x, of.mean, of.rstd, nullptr, of.x,
                                   {nullptr, nullptr, staged.dgamma, staged.dbeta}));
            return staged_norm_backward(launch, shape().slice_groups(), staged);
        }
        Carver carver(launch.workspace);
        const Sums sums = carve(&carver);
        staged.slice_gx = sums.sum_gx;
        staged.slice_g = sums.sum_g;
        BK_TRY(staged_norm_backward(launch, shape().slice_groups(), staged));
        const Launch inner{carver.take<char>(0), inner_workspace(), launch.stream};
        return combine_channels(inner, of, sums, staged.dgamma, staged.dbeta);
    }

    BK_COLD Status run_batch(const Launch& launch, bool has_workspace, const GradientInputs& of, T* dx, T* dgamma,
                             T* dbeta) const {
        NormSums<T> sums{nullptr, nullptr, dgamma, dbeta};
        if constexpr (std::is_same_v<T, C>)
            if (!has_workspace) sums = {dgamma, dbeta, nullptr, nullptr};
        Carver carver(has_workspace ? launch.workspace : nullptr);
        if (has_workspace) {
            const Sums carved = carve(&carver);
            sums.sum_gx = carved.group_gx;
            sums.sum_g = carved.group_g;
        }
        const Launch inner{carver.take<char>(0), has_workspace ? inner_workspace() : 0, launch.stream};
        BK_TRY(norm_columns<T>(inner, column_axes(), true, of.dy, of.x, of.mean, of.rstd, nullptr, of.x, sums));
        return map_slices(launch, of, sums.sum_gx, sums.sum_g, dx);
    }

    // Separate functions: the axes of each take much of a small stack.
    BK_COLD Status sum_slices(const Launch& launch, const GradientInputs& of, const Sums& sums) const {
        return norm_columns<T>(launch, slice_sum_axes(), true, of.dy, of.x, of.mean, of.rstd, nullptr, of.x,
                               {sums.sum_gx, sums.sum_g, nullptr, nullptr});
    }
    BK_COLD Status combine_groups(const Launch& launch, const GradientInputs& of, const Sums& sums) const {
        return combine_gradient_sums<T>(launch, group_sum_axes(of.gamma != nullptr), sums.sum_gx, sums.sum_g, of.gamma, of.x,
                                        {sums.group_gx, sums.group_g, nullptr, nullptr});
    }
    BK_COLD Status combine_channels(const Launch& launch, const GradientInputs& of, const Sums& sums, T* dgamma,
                                    T* dbeta) const {
        return combine_gradient_sums<T>(launch, channel_sum_axes(), sums.sum_gx, sums.sum_g, nullptr, of.x,
                                        {nullptr, nullptr, dgamma, dbeta});
    }

    BK_COLD Status run_items(const Launch& launch, const GradientInputs& of, T* dx, T* dgamma, T* dbeta) const {
        Carver carver(launch.workspace);
        const Sums sums = carve(&carver);
        const Launch inner{carver.take<char>(0), inner_workspace(), launch.stream};
        BK_TRY(sum_slices(inner, of, sums));
        BK_TRY(combine_groups(inner, of, sums));
        if (dgamma != nullptr || dbeta != nullptr) BK_TRY(combine_channels(inner, of, sums, dgamma, dbeta));
        return map_slices(launch, of, sums.group_gx, sums.group_g, dx);
    }

    BK_COLD Status map_slices(const Launch& launch, const GradientInputs& of, const C* sum_gx, const C* sum_g, T* dx) const {
        const Launch no_workspace{nullptr, 0, launch.stream};
        const C inv_count = C(1) / static_cast<C>(shape().group_size());
        const NormMapBackward<T, false> f{{}, of.gamma != nullptr, !shape().is_of_batch(), inv_count};
        const RowAxes<3, 7> axes{shape().over_slices(kSliceOperands), shape().within_slice(kFull)};
        return map_rows(no_workspace, axes, f, inputs(of.dy, of.x), inputs(),
                        inputs<C, C, T, T, T, C, C>(of.template mean_of<C>(), of.template rstd_of<C>(), of.rounded_mean(),
                                                    of.rounded_rstd(), of.gamma, sum_gx, sum_g),
                        outputs(dx), outputs());
    }

    BK_COLD Status run_groups(const Launch& launch, const GradientInputs& of, T* dx, T* dgamma, T* dbeta) const {
        const bool saves = shape().is_of_batch(), has_one = saves || shape().width() == 1;
        Function f{};
        f.is_centered = true;
        f.has_row_gamma = of.gamma != nullptr && has_one;
        const auto run_rows = [&](const auto& function) {
            return map_rows(launch, group_axes(), function, inputs(of.dy, of.x), inputs(),
                            inputs<T, T, T, C, C>(of.gamma, of.rounded_mean(), of.rounded_rstd(), of.template mean_of<C>(),
                                                  of.template rstd_of<C>()),
                            outputs(dx), outputs(saves ? dgamma : nullptr, saves ? dbeta : nullptr));
        };
        if (of.gamma == nullptr || has_one) return run_rows(f);
        NormBackwardWithChannels<T> with_channels{f, {}};
        BK_TRY(shape().fill(&with_channels.channels, of.gamma, static_cast<const T*>(nullptr)));
        return run_rows(with_channels);
    }

    RowAxes<3, 7> group_axes() const { return {shape().over_groups(kGroupOperands), shape().within_group(kFull)}; }

    // Axes of the sums over a channel of the whole batch.
    NormColumnAxes column_axes() const {
        const ChannelShape s = shape();
        const Per operands[] = {Per::kElement, Per::kElement, Per::kGroup,   Per::kGroup,  Per::kGroup,
                                Per::kChannel, Per::kChannel, Per::kChannel, Per::kChannel};
        const Per reduced[] = {Per::kElement, Per::kElement, Per::kGroup, Per::kGroup, Per::kGroup};
        NormColumnAxes axes;
        s.append(&axes.kept, s.channel_groups(), &ChannelShape::Steps::group, operands);
        s.append(&axes.kept, s.width(), &ChannelShape::Steps::channel, operands);
        s.append(&axes.reduced, s.items, &ChannelShape::Steps::item, reduced);
        s.append(&axes.reduced, s.spatial, &ChannelShape::Steps::position, reduced);
        return axes;
    }

    // Axes of the sums over each slice.
    NormColumnAxes slice_sum_axes() const {
        const Per of = Per::kItemChannel;
        return {shape().over_slices({Per::kElement, Per::kElement, Per::kGroup, Per::kGroup, Per::kGroup, of, of, of, of}),
                shape().within_slice({Per::kElement, Per::kElement, Per::kGroup, Per::kGroup, Per::kGroup})};
    }

    // Axes of the sums of slice sums: over the channels of a group, and over the items of a channel.
    CombinedSumAxes group_sum_axes(bool has_gamma) const {
        const Per of = Per::kItemChannel, gamma = has_gamma ? Per::kChannel : Per::kGroup, group = Per::kGroup;
        const Per reduced[] = {of, of, gamma};
        CombinedSumAxes axes;
        axes.kept = shape().over_groups({of, of, gamma, group, group, group, group});
        shape().append(&axes.reduced, shape().width(), &ChannelShape::Steps::channel, reduced);
        return axes;
    }
    CombinedSumAxes channel_sum_axes() const {
        const ChannelShape s = shape();
        const Per of = Per::kItemChannel, channel = Per::kChannel;
        const Per operands[] = {of, of, Per::kGroup, channel, channel, channel, channel}, reduced[] = {of, of, Per::kGroup};
        CombinedSumAxes axes;
        s.append(&axes.kept, s.channel_groups(), &ChannelShape::Steps::group, operands);
        s.append(&axes.kept, s.width(), &ChannelShape::Steps::channel, operands);
        s.append(&axes.reduced, s.items, &ChannelShape::Steps::item, reduced);
        return axes;
    }

    size_t inner_workspace() const {
        const size_t columns =
            std::max(norm_columns_workspace<T, S>(column_axes()), map_rows_workspace<Function>(group_axes()));
        if (!has_slice_sums() || shape().is_of_batch()) return columns;
        return std::max({columns, norm_columns_workspace<T, S>(slice_sum_axes()),
                         combine_gradient_sums_workspace<T>(group_sum_axes(true)),
                         combine_gradient_sums_workspace<T>(group_sum_axes(false)),
                         combine_gradient_sums_workspace<T>(channel_sum_axes())});
    }

    Sums carve(Carver* carver) const {
        const int64_t each = shape().is_of_batch() ? 0 : int64_t{n_extent} * c_extent;
        Sums sums;
        sums.sum_gx = carver->take<C>(each);
        sums.sum_g = carver->take<C>(each);
        sums.group_gx = carver->take<C>(group_count());
        sums.group_g = carver->take<C>(group_count());
        return sums;
    }
};

// Gradients without saved statistics: the statistics are outputs, written first.
template <class T>
struct ChannelNormRecomputeBackward {
    using C = compute_t<T>;

    int32_t n_extent;
    int32_t c_extent;
    int32_t spatial_extent;
    int32_t num_groups;
    int32_t group_kind;
    double eps;

    Work work() const { return gradient().work(); }
    Status check() const { return gradient().check(); }
    int64_t group_count() const { return gradient().group_count(); }
    size_t workspace_size() const {
        return std::max(group_moments_workspace<T>(shape().moment_axes()), gradient().workspace_size());
    }

    Status run(const T* dy, const T* x, const T* gamma, C* mean, C* rstd, T* dx, T* dgamma, T* dbeta,
               const Launch& launch) const {
        if (work() == Work::kAll) {
            bool is_done = false;
            BK_TRY(gradient().run_with_moments(dy, x, gamma, mean, rstd, static_cast<C>(eps), dx, dgamma, dbeta, launch,
                                               &is_done));
            if (is_done) return Status::kOk;
            BK_TRY(reduce(launch, shape().moment_axes(), GroupMoments<T>::of(eps),
                          outputs<C, C, T, T>(mean, rstd, nullptr, nullptr), inputs(x)));
        }
        return gradient().run(dy, x, gamma, mean, rstd, dx, dgamma, dbeta, launch);
    }

private:
    ChannelShape shape() const {
        return {n_extent, c_extent, spatial_extent, num_groups, static_cast<ChannelGroups>(group_kind)};
    }
    ChannelNormBackward<T, C> gradient() const { return {n_extent, c_extent, spatial_extent, num_groups, group_kind}; }
};

}  // namespace bk
