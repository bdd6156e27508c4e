// SPDX-License-Identifier: Apache-2.0
// group_norm with channels last, [N, S, C]: y = (x - mean) * rstd * gamma + beta, statistics over a group.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/reduce/reduce.h"
#include "core/row/row_map.h"
#include "norm/channel/group_moments.h"
#include "norm/channel/group_shape.h"
#include "norm/norm_map.h"

namespace bk {

// Mean, 1 / sqrt(variance + eps) and the rounding error of the mean; with is_partial, for a channel that is merged
// later, the standard deviation without eps.
template <class T>
struct PartialMoments : GroupMoments<T> {
    using typename GroupMoments<T>::C;
    using typename GroupMoments<T>::Acc;

    bool is_partial;

    BK_HD auto combiner() const { return moment_combiner(*this); }
    BK_HD C wanted(const Acc& acc) const { return Moments<T>::wanted(acc, is_partial ? C(0) : this->eps); }
    BK_HD Pack<C, C, C> finish(const Acc& acc, int64_t count) const {
        const C unit = this->unit_of(acc), mean = this->unscaled(this->mean_of(acc), unit);
        const C mean_error = this->mean_error_of(acc) / unit;
        if (!is_partial) return pack(mean, unit / this->stddev_of(acc, count), mean_error);
        return pack(mean, this->unscaled(math::sqrt<C>(this->squares_of(acc) / static_cast<C>(count)), unit), mean_error);
    }
};

// Merges the moments of a group's channels, which have equally many elements (Chan, Golub and LeVeque 1983): squared
// deviations within the channels add to those of their means.
template <class C>
struct MergedMoments : GroupMoments<C> {
    using typename GroupMoments<C>::Acc;

    BK_HD auto combiner() const { return moment_combiner(*this); }
    BK_HD Acc start(C mean, C, C) const { return GroupMoments<C>::start(mean); }
    BK_HD void add(Acc& acc, int64_t, C mean, C deviation, C mean_error) const {
        const C difference = (mean * this->unit - acc.base) + mean_error * this->unit, within = deviation * this->unit;
        acc.sum += difference;
        acc.recent += difference * difference + within * within;
    }
    BK_HD Pack<C, C> finish(const Acc& acc, int64_t count) const {
        const C unit = this->unit_of(acc);
        return pack(this->unscaled(this->mean_of(acc), unit), unit / this->stddev_of(acc, count));
    }
};

// y = (x - mean) * rstd * gamma + beta over rows of all channels, with the statistics of each channel's group. A
// separate function, since the lookup takes registers of every element.
template <class T>
struct GroupApply : MapOnly {
    using C = compute_t<T>;
    using Cached = C;
    using MapParams = NormAffine<C>;
    struct Row {
        int64_t first_offset;  // offset of the item's first group
    };
    struct PositionParams {
        C mean, rstd;
    };

    const C* mean;
    const C* rstd;
    GroupOfChannel group;
    bool has_gamma;

    BK_HD Row start(C) const { return {0}; }
    BK_HD bool shares_params(int64_t n) const { return group.shares_params(n); }
    BK_HD PositionParams position_params(const Row& row, int64_t j) const {
        const int64_t at = row.first_offset + group(j);
        return {mean[at], rstd[at]};
    }
    BK_HD Cached transform(const Row&, const PositionParams&, C x) const { return x; }
    BK_HD Cached pad() const { return 0; }
    BK_HD MapParams map_params(const Row&, const PositionParams& of, C gamma, C beta) const {
        return {of.mean, has_gamma ? of.rstd * gamma : of.rstd, beta};
    }
    BK_HD Pack<C> map_with_params(const MapParams& of, Cached x) const { return of(x); }
    BK_HD Pack<C> map(const Row& row, const Nothing&, const PositionParams& of, Cached x, C gamma, C beta) const {
        return map_with_params(map_params(row, of, gamma, beta), x);
    }
};

// Number is the type of eps.
template <class T, class Number = float>
struct GroupNormChannelsLast {
    int32_t n_extent;
    int32_t c_extent;
    int32_t spatial_extent;
    int32_t num_groups;
    Number eps;

    using C = compute_t<T>;
    Work work() const { return shape().is_empty() ? Work::kNone : Work::kAll; }
    Status check() const { return shape().check(); }
    int64_t group_count() const { return shape().group_count(); }
    size_t workspace_size() const {
        Carver carver;
        if (prefers_channels()) carve(&carver);
        carver.take<char>(static_cast<int64_t>(inner_workspace()));
        return carver.bytes();
    }

    Status run(const T* x, const C* gamma, const C* beta, T* y, C* saved_mean, C* saved_rstd, const Launch& launch) const {
        const bool has_workspace = workspace_holds(launch, workspace_size());
        BK_TRY(moments(launch, has_workspace, x, saved_mean, saved_rstd));
        const GroupApply<T> f{{}, saved_mean, saved_rstd, GroupOfChannel::of(shape()), gamma != nullptr};
        const Launch no_workspace{nullptr, 0, launch.stream};
        return map_rows(no_workspace, rows(), f, inputs(x), inputs(gamma, beta), inputs<C>(saved_mean), outputs(y), outputs());
    }

private:
    using Per = GroupShape::Per;
    struct ChannelMoments {
        C *mean, *deviation, *mean_error;
    };

    GroupShape shape() const { return {n_extent, c_extent, spatial_extent, num_groups}; }

    // Whether moments of single channels come first, which reads x in the order of memory.
    bool prefers_channels() const {
        constexpr int64_t kMinPositions = 8;  // positions that are worth it
        return !shape().is_empty() && shape().width() > 1 && shape().spatial >= kMinPositions;
    }

    // Axes of the moments of groups, of the moments of channels, and of their merge.
    ReduceAxes<1, 3> group_axes() const {
        const Per operands[] = {Per::kElement, Per::kGroup, Per::kGroup, Per::kGroup};
        return {shape().over({GroupShape::kItem, GroupShape::kGroup}, operands),
                shape().over({GroupShape::kPosition, GroupShape::kChannel}, {Per::kElement})};
    }
    ReduceAxes<1, 3> channel_axes() const {
        const Per operands[] = {Per::kElement, Per::kItemChannel, Per::kItemChannel, Per::kItemChannel};
        return {shape().over({GroupShape::kItem, GroupShape::kGroup, GroupShape::kChannel}, operands),
                shape().over({GroupShape::kPosition}, {Per::kElement})};
    }
    ReduceAxes<3, 2> merged_axes() const {
        const Per of = Per::kItemChannel, operands[] = {of, of, of, Per::kGroup, Per::kGroup};
        return {shape().over({GroupShape::kItem, GroupShape::kGroup}, operands),
                shape().over({GroupShape::kChannel}, {of, of, of})};
    }
    RowAxes<2, 1> rows() const {
        return {shape().over({GroupShape::kItem, GroupShape::kPosition}, {Per::kElement, Per::kElement, Per::kGroup}),
                shape().over({GroupShape::kGroup, GroupShape::kChannel}, {Per::kElement, Per::kElement})};
    }

    size_t inner_workspace() const {
        if (!prefers_channels()) return reduce_workspace<PartialMoments<T>, T>(group_axes());
        return std::max(reduce_workspace<PartialMoments<T>, T>(channel_axes()),
                        reduce_workspace<MergedMoments<C>, C, C, C>(merged_axes()));
    }
    ChannelMoments carve(Carver* carver) const {
        const int64_t count = int64_t{n_extent} * c_extent;
        ChannelMoments moments;
        moments.mean = carver->take<C>(count);
        moments.deviation = carver->take<C>(count);
        moments.mean_error = carver->take<C>(count);
        return moments;
    }

    Status moments(const Launch& launch, bool has_workspace, const T* x, C* mean, C* rstd) const {
        PartialMoments<T> f{GroupMoments<T>::of(eps), false};
        const auto group_outputs = outputs<C, C, C>(mean, rstd, nullptr);
        if (!has_workspace) return reduce(Launch{nullptr, 0, launch.stream}, group_axes(), f, group_outputs, inputs(x));
        Carver carver(launch.workspace);
        const ChannelMoments channels = prefers_channels() ? carve(&carver) : ChannelMoments{};
        const Launch inner{carver.take<char>(0), inner_workspace(), launch.stream};
        if (!prefers_channels()) return reduce(inner, group_axes(), f, group_outputs, inputs(x));
        f.is_partial = true;
        BK_TRY(reduce(inner, channel_axes(), f, outputs(channels.mean, channels.deviation, channels.mean_error), inputs(x)));
        return reduce(inner, merged_axes(), MergedMoments<C>{GroupMoments<C>::of(eps)}, outputs(mean, rstd),
                      inputs<C, C, C>(channels.mean, channels.deviation, channels.mean_error));
    }
};

}  // namespace bk
