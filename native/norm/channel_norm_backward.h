// Gradients of batch_norm and group_norm.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "norm/channel_shape.h"
#include "norm/norm_columns.h"
#include "norm/norm_row.h"

namespace bk {

template <class T>
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
        const size_t columns = shape().is_of_batch() ? 0 : norm_columns_workspace<T>(column_axes());
        return std::max(map_rows_workspace<Function>(axes(Per::kElement, Per::kElement)), columns);
    }

    Status run(const T* dy, const T* x, const T* gamma, const T* saved_mean, const T* saved_rstd, T* dx, T* dgamma, T* dbeta,
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
        if (!found) launch.workspace_bytes = 0;
        const bool of_batch = shape().is_of_batch(), of_channels = shape().is_of_channels();
        // Before dx, which may lie on dy or x.
        if (!of_batch) BK_TRY(norm_columns(launch, column_axes(), true, dy, x, saved_mean, saved_rstd, dgamma, dbeta));
        Function f{};
        f.is_centered = true;
        f.has_gamma = gamma != nullptr && !of_channels;
        f.has_row_gamma = gamma != nullptr && of_channels;
        // An operand that is not there has another to stand in for it; what is read of that is not used.
        return map_rows(launch,
                        axes(f.has_gamma ? Per::kChannel : Per::kElement, f.has_row_gamma ? Per::kChannel : Per::kGroup), f,
                        inputs(dy, x, f.has_gamma ? gamma : x), inputs(),
                        inputs(saved_mean, saved_rstd, f.has_row_gamma ? gamma : saved_mean), outputs(dx),
                        outputs(of_batch ? dgamma : nullptr, of_batch ? dbeta : nullptr));
    }

private:
    using Per = ChannelShape::Per;
    using Function = NormBackward<T>;

    ChannelShape shape() const {
        return {n_extent, c_extent, spatial_extent, num_groups, static_cast<ChannelGroups>(group_kind)};
    }

    RowAxes<4, 5> axes(Per gamma, Per row_gamma) const {
        return shape().axes({Per::kElement, Per::kElement, gamma, Per::kElement},
                            {Per::kGroup, Per::kGroup, row_gamma, Per::kChannel, Per::kChannel});
    }

    // Channels are walked by parts, of which each item has statistics.
    NormColumnAxes column_axes() const {
        const ChannelShape s = shape();
        const int64_t width = s.part_channels(), item = s.channels * s.spatial;
        NormColumnAxes axes;
        axes.kept.append(s.parts, {width * s.spatial, width * s.spatial, 1, 1, width, width});
        axes.kept.append(width, {s.spatial, s.spatial, 0, 0, 1, 1});
        axes.reduced.append(s.items, {item, item, s.parts, s.parts});
        axes.reduced.append(s.spatial, {1, 1, 0, 0});
        return axes;
    }
};

}  // namespace bk
