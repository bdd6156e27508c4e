// SPDX-License-Identifier: Apache-2.0
// Gradients of group_norm with channels last.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/copy/copies.h"
#include "core/reduce/reduce.h"
#include "core/row/row_map.h"
#include "norm/channel/group_shape.h"
#include "norm/norm_columns.h"
#include "norm/norm_map.h"
#include "norm/norm_row.h"

namespace bk {

// dx = rstd * (g - mean_g - x_hat * mean_gx), g = dy * gamma, over rows of all channels, with the means and the
// statistics of each channel's group.
template <class T>
struct GroupApplyBackward : MapOnly {
    using C = compute_t<T>;
    using MapParams = NormBackwardAffine<C>;
    struct Row {
        int64_t first_offset;  // offset of the item's first group
    };
    struct PositionParams {
        C mean, rstd, mean_gx, mean_g;
    };
    struct Cached {
        C dy, x;
    };

    const C* mean;
    const C* rstd;
    const C* sum_gx;
    const C* sum_g;
    GroupOfChannel group;
    bool has_gamma;
    C inv_count;  // 1 / elements of a group

    BK_HD Row start(C) const { return {0}; }
    BK_HD bool shares_params(int64_t n) const { return group.shares_params(n); }
    BK_HD PositionParams position_params(const Row& row, int64_t j) const {
        const int64_t at = row.first_offset + group(j);
        return {mean[at], rstd[at], sum_gx[at] * inv_count, sum_g[at] * inv_count};
    }
    BK_HD Cached transform(const Row&, const PositionParams&, C dy, C x) const { return {dy, x}; }
    BK_HD Cached pad() const { return {0, 0}; }
    BK_HD MapParams map_params(const Row&, const PositionParams& of, C gamma) const {
        return MapParams::of(of.mean, of.rstd, has_gamma ? gamma : C(1), of.mean_g, of.mean_gx);
    }
    BK_HD Pack<C> map_with_params(const MapParams& of, const Cached& held) const { return of(held.dy, held.x); }
    BK_HD Pack<C> map(const Row& row, const Nothing&, const PositionParams& of, const Cached& held, C gamma) const {
        return map_with_params(map_params(row, of, gamma), held);
    }
};

// CPU only: whether blocks of channels compute all gradients of this shape, without a workspace.
template <class T>
bool takes_channel_blocks(const GroupShape& shape);

// Operands of run_channel_blocks(); gamma, dx, dgamma and dbeta may be null.
template <class T>
struct ChannelBlocks {
    GroupShape shape;
    const T *dy, *x;
    const compute_t<T>*gamma, *mean, *rstd;
    T* dx;
    compute_t<T>*dgamma, *dbeta;
};

template <class T>
Status run_channel_blocks(const ChannelBlocks<T>& of);

// With a workspace, a pass in the order of memory sums each channel of an item; further sums combine these.
template <class T>
struct GroupNormChannelsLastBackward {
    int32_t n_extent;
    int32_t c_extent;
    int32_t spatial_extent;
    int32_t num_groups;

    using C = compute_t<T>;
    // Without elements dgamma and dbeta are empty sums: zeros.
    Work work() const { return !shape().is_empty() ? Work::kAll : c_extent > 0 ? Work::kZeros : Work::kNone; }
    Status check() const { return shape().check(); }
    int64_t group_count() const { return shape().group_count(); }
    size_t workspace_size() const {
        if (shape().is_empty()) return 0;
        Carver carver;
        carve(&carver);
        carver.take<char>(static_cast<int64_t>(inner_workspace()));
        return carver.bytes();
    }

    Status run(const T* dy, const T* x, const C* gamma, const C* saved_mean, const C* saved_rstd, T* dx, C* dgamma, C* dbeta,
               const Launch& launch) const {
        if (work() == Work::kZeros) {
            BK_TRY(write_zeros(launch, c_extent, dgamma));
            return write_zeros(launch, c_extent, dbeta);
        }
        const bool has_workspace = workspace_holds(launch, workspace_size());
        if constexpr (!kRowsStayOnChip)
            if (takes_channel_blocks<T>(shape()))
                return run_channel_blocks(ChannelBlocks<T>{shape(), dy, x, gamma, saved_mean, saved_rstd, dx, dgamma, dbeta});
        const GradientInputs given{dy, x, gamma, saved_mean, saved_rstd};
        return has_workspace ? run_sums(launch, given, dx, dgamma, dbeta)
                             : run_groups(Launch{nullptr, 0, launch.stream}, given, dx, dgamma, dbeta);
    }

private:
    using Per = GroupShape::Per;
    struct GradientInputs {
        const T *dy, *x;
        const C *gamma, *mean, *rstd;
    };
    struct Sums {
        C *mean, *rstd, *sum_gx, *sum_g;  // of each channel of an item
        C *group_gx, *group_g;
    };

    GroupShape shape() const { return {n_extent, c_extent, spatial_extent, num_groups}; }

    BK_COLD Status run_sums(const Launch& launch, const GradientInputs& given, T* dx, C* dgamma, C* dbeta) const {
        Carver carver(launch.workspace);
        const Sums sums = carve(&carver);
        const Launch no_workspace{nullptr, 0, launch.stream};
        const Launch inner{carver.take<char>(0), inner_workspace(), launch.stream};
        const C *mean = given.mean, *rstd = given.rstd;
        if (shape().width() > 1) {  // an element a channel, so that vectors of channels load them
            BK_TRY(copy_strided(no_workspace, broadcast_layout(), sizeof(C), mean, sums.mean));
            BK_TRY(copy_strided(no_workspace, broadcast_layout(), sizeof(C), rstd, sums.rstd));
            mean = sums.mean, rstd = sums.rstd;
        }
        BK_TRY(reduce(inner, channel_axes(), NormColumnPair<T>{{{}, true, false}}, outputs(sums.sum_gx, sums.sum_g),
                      inputs(given.dy, given.x, mean, rstd)));
        BK_TRY(combine_gradient_sums<C>(inner, group_sum_axes(given.gamma != nullptr), sums.sum_gx, sums.sum_g, given.gamma,
                                        given.rstd, {sums.group_gx, sums.group_g, nullptr, nullptr}));
        if (dgamma != nullptr || dbeta != nullptr)
            BK_TRY(combine_gradient_sums<C>(inner, channel_sum_axes(), sums.sum_gx, sums.sum_g, nullptr, sums.sum_g,
                                            {nullptr, nullptr, dgamma, dbeta}));
        const GroupApplyBackward<T> f{{},
                                      given.mean,
                                      given.rstd,
                                      sums.group_gx,
                                      sums.group_g,
                                      GroupOfChannel::of(shape()),
                                      given.gamma != nullptr,
                                      C(1) / static_cast<C>(shape().group_size())};
        return map_rows(no_workspace, rows(), f, inputs(given.dy, given.x), inputs(given.gamma), inputs(given.mean),
                        outputs(dx), outputs());
    }

    BK_COLD Status run_groups(const Launch& launch, const GradientInputs& given, T* dx, C* dgamma, C* dbeta) const {
        // dgamma and dbeta come before dx, which may alias dy or x.
        if (dgamma != nullptr || dbeta != nullptr)
            BK_TRY(reduce(launch, whole_channel_axes(), NormColumnPair<T>{{{}, true, false}}, outputs(dgamma, dbeta),
                          inputs(given.dy, given.x, given.mean, given.rstd)));
        NormBackward<T> f{};
        f.is_centered = true;
        f.has_gamma = given.gamma != nullptr;
        const C* const gamma = f.has_gamma ? given.gamma : given.rstd;
        return map_rows(launch, group_rows(f.has_gamma), f, inputs(given.dy, given.x, gamma), inputs(),
                        inputs<C, C, C, C, C>(nullptr, nullptr, nullptr, given.mean, given.rstd), outputs(dx),
                        outputs<C, C>(nullptr, nullptr));
    }

    // Axes of the sums over each channel of an item: dy, x and the statistics, one a channel.
    ReduceAxes<4, 2> channel_axes() const {
        const Per of = Per::kItemChannel;
        return {shape().over({GroupShape::kItem, GroupShape::kGroup, GroupShape::kChannel},
                             {Per::kElement, Per::kElement, of, of, of, of}),
                shape().over({GroupShape::kPosition}, {Per::kElement, Per::kElement, of, of})};
    }
    // Axes of the sums of channel sums: over the channels of a group, and over the items of a channel.
    CombinedSumAxes group_sum_axes(bool has_gamma) const {
        const Per of = Per::kItemChannel, gamma = has_gamma ? Per::kChannel : Per::kGroup;
        return {shape().over({GroupShape::kItem, GroupShape::kGroup},
                             {of, of, gamma, Per::kGroup, Per::kGroup, Per::kGroup, Per::kGroup}),
                shape().over({GroupShape::kChannel}, {of, of, gamma})};
    }
    CombinedSumAxes channel_sum_axes() const {
        const Per of = Per::kItemChannel;
        return {shape().over({GroupShape::kGroup, GroupShape::kChannel},
                             {of, of, of, Per::kChannel, Per::kChannel, Per::kChannel, Per::kChannel}),
                shape().over({GroupShape::kItem}, {of, of, of})};
    }
    ReduceAxes<4, 2> whole_channel_axes() const {
        const Per full = Per::kElement, of = Per::kGroup;
        return {shape().over({GroupShape::kGroup, GroupShape::kChannel}, {full, full, of, of, Per::kChannel, Per::kChannel}),
                shape().over({GroupShape::kItem, GroupShape::kPosition}, {full, full, of, of})};
    }

    // Broadcasts the statistics of groups to the channels of an item.
    CopyLayout broadcast_layout() const {
        CopyLayout layout;
        layout.assign(
            shape().over({GroupShape::kItem, GroupShape::kGroup, GroupShape::kChannel}, {Per::kItemChannel, Per::kGroup}));
        return layout;
    }

    RowAxes<3, 1> rows() const {
        const Per full = Per::kElement;
        return {shape().over({GroupShape::kItem, GroupShape::kPosition}, {full, full, full, Per::kGroup}),
                shape().over({GroupShape::kGroup, GroupShape::kChannel}, {full, full, full})};
    }
    RowAxes<4, 7> group_rows(bool has_gamma) const {
        const Per full = Per::kElement, of = Per::kGroup, gamma = has_gamma ? Per::kChannel : Per::kGroup;
        return {shape().over({GroupShape::kItem, GroupShape::kGroup}, {full, full, gamma, full, of, of, of, of, of, of, of}),
                shape().over({GroupShape::kPosition, GroupShape::kChannel}, {full, full, gamma, full})};
    }

    size_t inner_workspace() const {
        return std::max({reduce_workspace<NormColumnPair<T>, T, T, C, C>(channel_axes()),
                         combine_gradient_sums_workspace<C>(group_sum_axes(true)),
                         combine_gradient_sums_workspace<C>(group_sum_axes(false)),
                         combine_gradient_sums_workspace<C>(channel_sum_axes())});
    }
    Sums carve(Carver* carver) const {
        const int64_t each = int64_t{n_extent} * c_extent, statistics = shape().width() > 1 ? each : 0;
        Sums sums;
        sums.mean = carver->take<C>(statistics);
        sums.rstd = carver->take<C>(statistics);
        sums.sum_gx = carver->take<C>(each);
        sums.sum_g = carver->take<C>(each);
        sums.group_gx = carver->take<C>(group_count());
        sums.group_g = carver->take<C>(group_count());
        return sums;
    }
};

}  // namespace bk

#if !BK_CUDA
#include "norm/channel/channel_blocks_cpu.h"
#endif
