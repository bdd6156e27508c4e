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
#include "norm/norm_row.h"

namespace bk {

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
        if (shape().prefers_lines()) carve(&carver);
        carver.take<char>(static_cast<int64_t>(inner_workspace()));
        return carver.bytes();
    }

    Status run(const T* dy, const T* x, const T* gamma, const S* saved_mean, const S* saved_rstd, T* dx, T* dgamma, T* dbeta,
               const Launch& given) const {
        if (work() == Work::kZeros) {
            BK_TRY(write_zeros(given, c_extent, dgamma));
            return write_zeros(given, c_extent, dbeta);
        }
        Launch launch = given;
        // Callers of other libraries bring two f32 a group, whatever is useful here.
        if (launch.workspace_bytes >= static_cast<size_t>(group_count()) * 8 && launch.workspace_bytes < workspace_size())
            launch.workspace_bytes = 0;
        bool found = false;
        BK_TRY(find_workspace(launch, workspace_size(), &found));
        Carver carver(found ? launch.workspace : nullptr);
        const bool of_batch = shape().is_of_batch();
        const bool has_sums =
            shape().prefers_lines() && (found || (of_batch && kIsExact && dgamma != nullptr && dbeta != nullptr));
        NormSums<T> sums{nullptr, nullptr, dgamma, dbeta};
        if (has_sums && found) sums = carve(&carver, dgamma, dbeta);
        if constexpr (kIsExact)
            if (has_sums && !found) sums = {dgamma, dbeta, nullptr, nullptr};
        launch = {carver.take<char>(0), found ? inner_workspace() : 0, given.stream};
        Function f{};
        f.is_centered = true;
        f.has_row_gamma = gamma != nullptr;
        // Before dx, which may lie on dy or x. Of a batch these are the sums that dx needs, but for gamma.
        if (dgamma != nullptr || dbeta != nullptr || (has_sums && of_batch)) {
            const NormSums<T> of_channels = of_batch ? sums : NormSums<T>{nullptr, nullptr, dgamma, dbeta};
            if (!of_batch || has_sums)
                BK_TRY(norm_columns<T>(launch, column_axes(), true, dy, x, saved_mean, saved_rstd, nullptr, x, of_channels));
        }
        if (has_sums) {
            if (!of_batch) {
                const NormSums<T> of_groups{sums.products, sums.slopes, nullptr, nullptr};
                BK_TRY(norm_columns<T>(launch, sum_axes(gamma != nullptr), true, dy, x, saved_mean, saved_rstd, gamma, x,
                                       of_groups));
            }
            f.terms = shape().group_size();
            f.sums_have_gamma = !of_batch;
        }
        const bool saves = of_batch && !has_sums;
        const T *rounded_mean = nullptr, *rounded_rstd = nullptr;
        const C *mean = nullptr, *rstd = nullptr;
        if constexpr (std::is_same_v<S, T>)
            rounded_mean = saved_mean, rounded_rstd = saved_rstd;
        else
            mean = saved_mean, rstd = saved_rstd;
        const auto run_rows = [&](const auto& function) {
            return map_rows(
                has_sums ? Launch{nullptr, 0, given.stream} : launch, has_sums ? line_axes() : group_axes(), function,
                inputs(dy, x), inputs(),
                inputs<T, T, T, C, C, C, C>(gamma, rounded_mean, rounded_rstd, sums.slopes, sums.products, mean, rstd),
                outputs(dx), outputs(saves ? dgamma : nullptr, saves ? dbeta : nullptr));
        };
        if (has_sums || gamma == nullptr || of_batch || shape().width() == 1) return run_rows(f);
        NormBackwardOfChannels<T> many{f, {}};
        many.has_row_gamma = false;
        BK_TRY(shape().fill(&many.channels, gamma, static_cast<const T*>(nullptr)));
        return run_rows(many);
    }

private:
    using C = compute_t<T>;
    using Per = ChannelShape::Per;
    using Function = NormBackward<T>;
    static constexpr bool kIsExact = std::is_same_v<T, C>;  // dgamma and dbeta are not rounded
    // dy, x, dx; then gamma, the statistics in T, sums of a group, the statistics
    // in the compute type, and dgamma and dbeta.
    static constexpr Per kFull[3] = {Per::kElement, Per::kElement, Per::kElement};
    static constexpr Per kAll[12] = {Per::kElement, Per::kElement, Per::kElement, Per::kChannel, Per::kGroup,   Per::kGroup,
                                     Per::kGroup,   Per::kGroup,   Per::kGroup,   Per::kGroup,   Per::kChannel, Per::kChannel};

    ChannelShape shape() const {
        return {n_extent, c_extent, spatial_extent, num_groups, static_cast<ChannelGroups>(group_kind)};
    }

    RowAxes<3, 9> group_axes() const { return {shape().groups(kAll), shape().of_group(kFull)}; }
    RowAxes<3, 9> line_axes() const { return {shape().lines(kAll), shape().of_line(kFull)}; }

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

    // Of a group, times gamma.
    NormColumnAxes sum_axes(bool has_gamma) const {
        const Per gamma = has_gamma ? Per::kChannel : Per::kGroup;
        const Per operands[] = {Per::kElement, Per::kElement, Per::kGroup, Per::kGroup, gamma,
                                Per::kGroup,   Per::kGroup,   Per::kGroup, Per::kGroup};
        const Per terms[] = {Per::kElement, Per::kElement, Per::kGroup, Per::kGroup, gamma};
        return {shape().groups(operands), shape().of_group(terms)};
    }

    size_t inner_workspace() const {
        const size_t columns = norm_columns_workspace<T, S>(column_axes());
        if (!shape().prefers_lines()) return std::max(columns, map_rows_workspace<Function>(group_axes()));
        return std::max({columns, norm_columns_workspace<T, S>(sum_axes(true)), norm_columns_workspace<T, S>(sum_axes(false))});
    }

    NormSums<T> carve(Carver* carver, T* dgamma = nullptr, T* dbeta = nullptr) const {
        C* const products = carver->take<C>(group_count());
        return {products, carver->take<C>(group_count()), dgamma, dbeta};
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
            bool found = false;
            BK_TRY(find_workspace(launch, workspace_size(), &found));
            BK_TRY(reduce(launch, shape().moment_axes(), GroupMoments<T>{static_cast<C>(eps)},
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
