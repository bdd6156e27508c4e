// Gradients of batch_norm, group_norm and group_norm_wide, and those that compute the statistics again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "norm/channel_shape.h"
#include "norm/group_moments.h"
#include "norm/norm_columns.h"
#include "norm/norm_map.h"
#include "norm/norm_row.h"

namespace bk {

// Whether what keeps no rows of such groups on the chip has all gradients in one pass over memory, without a workspace.
template <class T>
bool takes_group_lines(const ChannelShape& shape);

// Its operands. dx, gamma, dgamma and dbeta may be null.
template <class T, class S>
struct GroupLines {
    ChannelShape shape;
    const T *dy, *x, *gamma;
    const S *mean, *rstd;
    T *dx, *dgamma, *dbeta;
};

template <class T, class S>
Status run_group_lines(const GroupLines<T, S>& of);

// S is the type of the statistics, T or that of computation.
template <class T, class S = T>
struct ChannelNormBackward {
    int32_t n_extent;
    int32_t c_extent;
    int32_t spatial_extent;
    int32_t num_groups;
    int32_t group_kind;

    // Without elements the gradients of gamma and beta are sums of nothing.
    Work work() const { return !shape().is_empty() ? Work::kAll : c_extent > 0 ? Work::kZeros : Work::kNone; }
    Status check() const { return shape().check(); }
    int64_t group_count() const { return shape().group_count(); }
    size_t workspace_size() const {
        Carver carver;
        if (has_line_sums()) carve(&carver);
        carver.take<char>(static_cast<int64_t>(inner_workspace()));
        return carver.bytes();
    }

    Status run(const T* dy, const T* x, const T* gamma, const S* saved_mean, const S* saved_rstd, T* dx, T* dgamma, T* dbeta,
               const Launch& launch) const {
        if (work() == Work::kZeros) {
            BK_TRY(write_zeros(launch, c_extent, dgamma));
            return write_zeros(launch, c_extent, dbeta);
        }
        const bool found = workspace_holds(launch, workspace_size());
        if constexpr (!kRowsStayOnChip)
            if (takes_group_lines<T>(shape()))
                return run_group_lines(GroupLines<T, S>{shape(), dy, x, gamma, saved_mean, saved_rstd, dx, dgamma, dbeta});
        const Given of{dy, x, gamma, saved_mean, saved_rstd};
        if constexpr (kRowsStayOnChip)
            if (holds_lines<T>(shape().line_groups(), 2, dy, x, dx))
                return run_held(launch, found, {dy, x, gamma, saved_mean, saved_rstd, dx, dgamma, dbeta});
        const bool wants_sums = dgamma != nullptr || dbeta != nullptr;
        const bool is_exact = std::is_same_v<T, C> && dgamma != nullptr && dbeta != nullptr;
        if (sums_lines() && shape().is_of_batch() && (found || is_exact))
            return run_batch(launch, found, of, dx, dgamma, dbeta);
        // What has a group in registers has no use for sums that nobody asked for.
        if (sums_lines() && !shape().is_of_batch() && found && (wants_sums || !kRowsStayOnChip))
            return run_items(launch, of, dx, dgamma, dbeta);
        // Before dx, which may lie on dy or x.
        if (wants_sums && !shape().is_of_batch())
            BK_TRY(norm_columns<T>(launch, column_axes(), true, dy, x, saved_mean, saved_rstd, nullptr, x,
                                   {nullptr, nullptr, dgamma, dbeta}));
        return run_groups(launch, of, dx, dgamma, dbeta);
    }

    // With the statistics of x, which are written, in the same pass: where that can be.
    BK_COLD Status run_with_moments(const T* dy, const T* x, const T* gamma, S* mean, S* rstd, compute_t<T> eps, T* dx,
                                    T* dgamma, T* dbeta, const Launch& launch, bool* is_done) const {
        const bool found = workspace_holds(launch, workspace_size());
        if constexpr (kRowsStayOnChip) {
            const bool has_sums = found || shape().is_of_batch() || (dgamma == nullptr && dbeta == nullptr);
            *is_done = has_sums && holds_lines<T>(shape().line_groups(), 2, dy, x, dx);
            if (*is_done)
                return run_held(launch, found,
                                {dy, x, gamma, nullptr, nullptr, dx, dgamma, dbeta, nullptr, nullptr, mean, rstd, eps});
        }
        return Status::kOk;
    }

private:
    using C = compute_t<T>;
    using Per = ChannelShape::Per;
    using Function = NormBackward<T>;
    struct Given {
        const T *dy, *x, *gamma;
        const S *mean, *rstd;

        // The statistics where they are of a type, null where they are not.
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
        C *products, *slopes;              // of each channel of an item
        C *group_products, *group_slopes;  // times gamma, but not of a batch
    };
    static constexpr Per kFull[3] = {Per::kElement, Per::kElement, Per::kElement};
    // dy, x, dx; then gamma, the statistics in T and in the compute type, and dgamma and dbeta.
    static constexpr Per kOfGroups[10] = {Per::kElement, Per::kElement, Per::kElement, Per::kChannel, Per::kGroup,
                                          Per::kGroup,   Per::kGroup,   Per::kGroup,   Per::kChannel, Per::kChannel};
    // dy, x, dx; then the statistics in the compute type and in T, gamma, and the sums of a group.
    static constexpr Per kOfLines[10] = {Per::kElement, Per::kElement, Per::kElement, Per::kGroup, Per::kGroup,
                                         Per::kGroup,   Per::kGroup,   Per::kChannel, Per::kGroup, Per::kGroup};

    ChannelShape shape() const {
        return {n_extent, c_extent, spatial_extent, num_groups, static_cast<ChannelGroups>(group_kind)};
    }

    // Whether sums in a pass of their own, then a map over lines may be better than a map over groups. Of an item they are
    // sums of lines, of which those of groups and of channels are made.
    bool sums_lines() const {
        constexpr int64_t kLongLine = 256;
        return shape().prefers_lines() || (kRowsStayOnChip && !shape().is_of_batch() && shape().spatial >= kLongLine);
    }

    // Whether the workspace has the sums of lines of an item.
    bool has_line_sums() const {
        if constexpr (kRowsStayOnChip)
            if (!shape().is_of_batch() && may_hold_lines<T>(shape().line_groups())) return true;
        return sums_lines();
    }

    // dgamma and dbeta of items are made of the sums of lines, or have a pass of their own: before dx, which may lie on dy or
    // x.
    BK_COLD Status run_held(const Launch& launch, bool found, HeldGradient<T, S, T> held) const {
        const Given of{held.dy, held.x, held.gamma, held.mean, held.rstd};
        const bool wants_sums = held.dgamma != nullptr || held.dbeta != nullptr;
        if (shape().is_of_batch() || !wants_sums) return held_gradient(launch, shape().line_groups(), held);
        if (!found) {
            BK_TRY(norm_columns<T>(launch, column_axes(), true, of.dy, of.x, of.mean, of.rstd, nullptr, of.x,
                                   {nullptr, nullptr, held.dgamma, held.dbeta}));
            return held_gradient(launch, shape().line_groups(), held);
        }
        Carver carver(launch.workspace);
        const Sums sums = carve(&carver);
        held.line_products = sums.products;
        held.line_slopes = sums.slopes;
        BK_TRY(held_gradient(launch, shape().line_groups(), held));
        const Launch inner{carver.take<char>(0), inner_workspace(), launch.stream};
        return join_channels(inner, of, sums, held.dgamma, held.dbeta);
    }

    BK_COLD Status run_batch(const Launch& launch, bool found, const Given& of, T* dx, T* dgamma, T* dbeta) const {
        NormSums<T> sums{nullptr, nullptr, dgamma, dbeta};
        if constexpr (std::is_same_v<T, C>)
            if (!found) sums = {dgamma, dbeta, nullptr, nullptr};
        Carver carver(found ? launch.workspace : nullptr);
        if (found) {
            const Sums carved = carve(&carver);
            sums.products = carved.group_products;
            sums.slopes = carved.group_slopes;
        }
        const Launch inner{carver.take<char>(0), found ? inner_workspace() : 0, launch.stream};
        BK_TRY(norm_columns<T>(inner, column_axes(), true, of.dy, of.x, of.mean, of.rstd, nullptr, of.x, sums));
        return map_lines(launch, of, sums.products, sums.slopes, dx);
    }

    // Functions of their own, since the axes of each take a good part of a small stack.
    BK_COLD Status sum_lines(const Launch& launch, const Given& of, const Sums& sums) const {
        return norm_columns<T>(launch, line_sums(), true, of.dy, of.x, of.mean, of.rstd, nullptr, of.x,
                               {sums.products, sums.slopes, nullptr, nullptr});
    }
    BK_COLD Status join_groups(const Launch& launch, const Given& of, const Sums& sums) const {
        return join_slopes<T>(launch, joined_groups(of.gamma != nullptr), sums.products, sums.slopes, of.gamma, of.x,
                              {sums.group_products, sums.group_slopes, nullptr, nullptr});
    }
    BK_COLD Status join_channels(const Launch& launch, const Given& of, const Sums& sums, T* dgamma, T* dbeta) const {
        return join_slopes<T>(launch, joined_channels(), sums.products, sums.slopes, nullptr, of.x,
                              {nullptr, nullptr, dgamma, dbeta});
    }

    BK_COLD Status run_items(const Launch& launch, const Given& of, T* dx, T* dgamma, T* dbeta) const {
        Carver carver(launch.workspace);
        const Sums sums = carve(&carver);
        const Launch inner{carver.take<char>(0), inner_workspace(), launch.stream};
        BK_TRY(sum_lines(inner, of, sums));
        BK_TRY(join_groups(inner, of, sums));
        if (dgamma != nullptr || dbeta != nullptr) BK_TRY(join_channels(inner, of, sums, dgamma, dbeta));
        return map_lines(launch, of, sums.group_products, sums.group_slopes, dx);
    }

    BK_COLD Status map_lines(const Launch& launch, const Given& of, const C* products, const C* slopes, T* dx) const {
        const Launch alone{nullptr, 0, launch.stream};
        const C share = C(1) / static_cast<C>(shape().group_size());
        const NormMapBackward<T, false> f{{}, of.gamma != nullptr, !shape().is_of_batch(), share};
        const RowAxes<3, 7> axes{shape().lines(kOfLines), shape().of_line(kFull)};
        return map_rows(alone, axes, f, inputs(of.dy, of.x), inputs(),
                        inputs<C, C, T, T, T, C, C>(of.template mean_of<C>(), of.template rstd_of<C>(), of.rounded_mean(),
                                                    of.rounded_rstd(), of.gamma, products, slopes),
                        outputs(dx), outputs());
    }

    BK_COLD Status run_groups(const Launch& launch, const Given& of, T* dx, T* dgamma, T* dbeta) const {
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
        NormBackwardOfChannels<T> many{f, {}};
        BK_TRY(shape().fill(&many.channels, of.gamma, static_cast<const T*>(nullptr)));
        return run_rows(many);
    }

    RowAxes<3, 7> group_axes() const { return {shape().groups(kOfGroups), shape().of_group(kFull)}; }

    // Of a channel of the whole batch.
    NormColumnAxes column_axes() const {
        const ChannelShape s = shape();
        const Per operands[] = {Per::kElement, Per::kElement, Per::kGroup,   Per::kGroup,  Per::kGroup,
                                Per::kChannel, Per::kChannel, Per::kChannel, Per::kChannel};
        const Per terms[] = {Per::kElement, Per::kElement, Per::kGroup, Per::kGroup, Per::kGroup};
        NormColumnAxes axes;
        s.append(&axes.kept, s.parts(), &ChannelShape::Steps::part, operands);
        s.append(&axes.kept, s.width(), &ChannelShape::Steps::channel, operands);
        s.append(&axes.reduced, s.items, &ChannelShape::Steps::item, terms);
        s.append(&axes.reduced, s.spatial, &ChannelShape::Steps::line, terms);
        return axes;
    }

    // Of a channel of an item.
    NormColumnAxes line_sums() const {
        const Per of = Per::kItemChannel;
        return {shape().lines({Per::kElement, Per::kElement, Per::kGroup, Per::kGroup, Per::kGroup, of, of, of, of}),
                shape().of_line({Per::kElement, Per::kElement, Per::kGroup, Per::kGroup, Per::kGroup})};
    }

    // Sums of the lines of a group, and of a channel's lines in all items.
    JoinedSlopeAxes joined_groups(bool has_gamma) const {
        const Per of = Per::kItemChannel, gamma = has_gamma ? Per::kChannel : Per::kGroup, group = Per::kGroup;
        const Per terms[] = {of, of, gamma};
        JoinedSlopeAxes axes;
        axes.kept = shape().groups({of, of, gamma, group, group, group, group});
        shape().append(&axes.reduced, shape().width(), &ChannelShape::Steps::channel, terms);
        return axes;
    }
    JoinedSlopeAxes joined_channels() const {
        const ChannelShape s = shape();
        const Per of = Per::kItemChannel, channel = Per::kChannel;
        const Per operands[] = {of, of, Per::kGroup, channel, channel, channel, channel}, terms[] = {of, of, Per::kGroup};
        JoinedSlopeAxes axes;
        s.append(&axes.kept, s.parts(), &ChannelShape::Steps::part, operands);
        s.append(&axes.kept, s.width(), &ChannelShape::Steps::channel, operands);
        s.append(&axes.reduced, s.items, &ChannelShape::Steps::item, terms);
        return axes;
    }

    size_t inner_workspace() const {
        const size_t columns =
            std::max(norm_columns_workspace<T, S>(column_axes()), map_rows_workspace<Function>(group_axes()));
        if (!has_line_sums() || shape().is_of_batch()) return columns;
        return std::max({columns, norm_columns_workspace<T, S>(line_sums()), join_slopes_workspace<T>(joined_groups(true)),
                         join_slopes_workspace<T>(joined_groups(false)), join_slopes_workspace<T>(joined_channels())});
    }

    Sums carve(Carver* carver) const {
        const int64_t each = shape().is_of_batch() ? 0 : int64_t{n_extent} * c_extent;
        Sums sums;
        sums.products = carver->take<C>(each);
        sums.slopes = carver->take<C>(each);
        sums.group_products = carver->take<C>(group_count());
        sums.group_slopes = carver->take<C>(group_count());
        return sums;
    }
};

// Without saved statistics: they are outputs, written first.
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
