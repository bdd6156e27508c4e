// group_norm with channels last.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/reduce/reduce.h"
#include "core/rows/row_map.h"
#include "norm/group_moments.h"
#include "norm/group_shape.h"
#include "norm/norm_map.h"

namespace bk {

// Mean and 1 / sqrt(variance + eps) or, of a part of a group, the standard deviation and what rounding left of the mean.
template <class T>
struct PartMoments : GroupMoments<T> {
    using typename GroupMoments<T>::C;
    using typename GroupMoments<T>::Acc;

    bool is_part;

    BK_HD auto parts() const { return moment_parts(*this); }
    BK_HD C wanted(const Acc& acc) const { return Moments<T>::wanted(acc, is_part ? C(0) : this->eps); }
    BK_HD Pack<C, C, C> finish(const Acc& acc, int64_t count) const {
        const C unit = this->unit_of(acc), mean = this->unscaled(this->mean_of(acc), unit);
        const C rest = this->mean_rest_of(acc) / unit;
        if (!is_part) return pack(mean, unit / this->spread_of(acc, count), rest);
        return pack(mean, this->unscaled(math::sqrt<C>(this->squares_of(acc) / static_cast<C>(count)), unit), rest);
    }
};

// Mean and 1 / sqrt(variance + eps) of a group, from the means and the standard deviations of its parts, which have equally
// many elements: deviations from the parts' means add to those of the means from the base.
template <class C>
struct JoinedMoments : GroupMoments<C> {
    using typename GroupMoments<C>::Acc;

    BK_HD auto parts() const { return moment_parts(*this); }
    BK_HD Acc start(C mean, C, C) const { return GroupMoments<C>::start(mean); }
    BK_HD void add(Acc& acc, int64_t, C mean, C deviation, C rest) const {
        const C difference = (mean * this->unit - acc.base) + rest * this->unit, within = deviation * this->unit;
        acc.sum += difference;
        acc.recent += difference * difference + within * within;
    }
    BK_HD Pack<C, C> finish(const Acc& acc, int64_t count) const {
        const C unit = this->unit_of(acc);
        return pack(this->unscaled(this->mean_of(acc), unit), unit / this->spread_of(acc, count));
    }
};

// y = (x - mean) * rstd * gamma + beta, rows of all channels, with the statistics of the group of each. A function of its own,
// as looking them up takes registers of every element.
template <class T>
struct GroupApply : OnlyMaps {
    using C = compute_t<T>;
    using Held = C;
    using Numbers = NormLine<C>;
    struct Row {
        int64_t place;  // of the first group of the item
    };
    struct Near {
        C mean, rstd;
    };

    const C* mean;
    const C* rstd;
    GroupOfChannel group;
    bool has_gamma;

    BK_HD Row start(C) const { return {0}; }
    BK_HD bool spans(int64_t n) const { return group.spans(n); }
    BK_HD Near near(const Row& row, int64_t j) const {
        const int64_t at = row.place + group(j);
        return {mean[at], rstd[at]};
    }
    BK_HD Held hold(const Row&, const Near&, C x) const { return x; }
    BK_HD Held pad() const { return 0; }
    BK_HD Numbers numbers(const Row&, const Near& of, C gamma, C beta) const {
        return {of.mean, has_gamma ? of.rstd * gamma : of.rstd, beta};
    }
    BK_HD Pack<C> map_by(const Numbers& of, Held x) const { return of(x); }
    BK_HD Pack<C> map(const Row& row, const Nothing&, const Near& of, Held x, C gamma, C beta) const {
        return map_by(numbers(row, of, gamma, beta), x);
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
        if (prefers_parts()) carve(&carver);
        carver.take<char>(static_cast<int64_t>(inner_workspace()));
        return carver.bytes();
    }

    Status run(const T* x, const C* gamma, const C* beta, T* y, C* saved_mean, C* saved_rstd, const Launch& launch) const {
        const bool found = workspace_holds(launch, workspace_size());
        BK_TRY(moments(launch, found, x, saved_mean, saved_rstd));
        const GroupApply<T> f{{}, saved_mean, saved_rstd, GroupOfChannel::of(shape()), gamma != nullptr};
        const Launch alone{nullptr, 0, launch.stream};
        return map_rows(alone, rows(), f, inputs(x), inputs(gamma, beta), inputs<C>(saved_mean), outputs(y), outputs());
    }

private:
    using Per = GroupShape::Per;
    struct Parts {
        C *mean, *deviation, *rest;
    };

    GroupShape shape() const { return {n_extent, c_extent, spatial_extent, num_groups}; }

    // Whether channels are summed up by themselves first, in the order of memory.
    bool prefers_parts() const {
        constexpr int64_t kLeast = 8;  // elements of each that are worth it
        return !shape().is_empty() && shape().width() > 1 && shape().spatial >= kLeast;
    }

    // Of groups, of the channels of an item, and of a group's channels.
    ReduceAxes<1, 3> whole() const {
        const Per kept[] = {Per::kElement, Per::kGroup, Per::kGroup, Per::kGroup};
        return {shape().over({GroupShape::kItem, GroupShape::kGroup}, kept),
                shape().over({GroupShape::kPlace, GroupShape::kChannel}, {Per::kElement})};
    }
    ReduceAxes<1, 3> parts() const {
        const Per kept[] = {Per::kElement, Per::kItemChannel, Per::kItemChannel, Per::kItemChannel};
        return {shape().over({GroupShape::kItem, GroupShape::kGroup, GroupShape::kChannel}, kept),
                shape().over({GroupShape::kPlace}, {Per::kElement})};
    }
    ReduceAxes<3, 2> joined() const {
        const Per of = Per::kItemChannel, kept[] = {of, of, of, Per::kGroup, Per::kGroup};
        return {shape().over({GroupShape::kItem, GroupShape::kGroup}, kept),
                shape().over({GroupShape::kChannel}, {of, of, of})};
    }
    RowAxes<2, 1> rows() const {
        return {shape().over({GroupShape::kItem, GroupShape::kPlace}, {Per::kElement, Per::kElement, Per::kGroup}),
                shape().over({GroupShape::kGroup, GroupShape::kChannel}, {Per::kElement, Per::kElement})};
    }

    size_t inner_workspace() const {
        if (!prefers_parts()) return reduce_workspace<PartMoments<T>, T>(whole());
        return std::max(reduce_workspace<PartMoments<T>, T>(parts()), reduce_workspace<JoinedMoments<C>, C, C, C>(joined()));
    }
    Parts carve(Carver* carver) const {
        const int64_t count = int64_t{n_extent} * c_extent;
        Parts parts;
        parts.mean = carver->take<C>(count);
        parts.deviation = carver->take<C>(count);
        parts.rest = carver->take<C>(count);
        return parts;
    }

    Status moments(const Launch& launch, bool found, const T* x, C* mean, C* rstd) const {
        PartMoments<T> f{GroupMoments<T>::of(eps), false};
        const auto whole_outputs = outputs<C, C, C>(mean, rstd, nullptr);
        if (!found) return reduce(Launch{nullptr, 0, launch.stream}, whole(), f, whole_outputs, inputs(x));
        Carver carver(launch.workspace);
        const Parts part = prefers_parts() ? carve(&carver) : Parts{};
        const Launch inner{carver.take<char>(0), inner_workspace(), launch.stream};
        if (!prefers_parts()) return reduce(inner, whole(), f, whole_outputs, inputs(x));
        f.is_part = true;
        BK_TRY(reduce(inner, parts(), f, outputs(part.mean, part.deviation, part.rest), inputs(x)));
        return reduce(inner, joined(), JoinedMoments<C>{GroupMoments<C>::of(eps)}, outputs(mean, rstd),
                      inputs<C, C, C>(part.mean, part.deviation, part.rest));
    }
};

}  // namespace bk
