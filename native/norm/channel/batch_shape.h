// SPDX-License-Identifier: Apache-2.0
// Shape of batch norm with running statistics: [N, C, S], or [N, S, C] with channels last.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/reduce/reduce.h"
#include "core/row/row_map.h"
#include "norm/channel/staged_slices.h"

namespace bk {

struct BatchShape {
    int64_t items, channels, spatial;
    int32_t channels_last;

    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"n_extent", items}, {"c_extent", channels}, {"spatial_extent", spatial}}));
        if (channels_last != 0 && channels_last != 1)
            return fail(Status::kInvalidProblem, "channels_last is %d, must be 0 or 1", channels_last);
        return Status::kOk;
    }

    bool is_empty() const { return items == 0 || channels == 0 || spatial == 0; }
    int64_t statistic_count() const { return is_empty() ? 0 : channels; }
    int64_t channel_stride() const { return channels_last != 0 ? 1 : spatial; }
    int64_t position_stride() const { return channels_last != 0 ? channels : 1; }

    // Axes of a reduction over each channel: `Full` inputs are full arrays, other operands have one element a channel.
    template <int In, int Out, int Full = 1>
    ReduceAxes<In, Out> sums() const {
        ReduceAxes<In, Out> axes;
        int64_t channel[In + Out], item[In], position[In];
        for (int k = 0; k < In + Out; ++k) channel[k] = k < Full ? channel_stride() : 1;
        for (int k = 0; k < In; ++k) item[k] = k < Full ? channels * spatial : 0;
        for (int k = 0; k < In; ++k) position[k] = k < Full ? position_stride() : 0;
        axes.kept.append(channels, channel);
        axes.reduced.append(items, item);
        axes.reduced.append(spatial, position);
        return axes;
    }

    // Requires !has_columns().
    BK_COLD SliceGroups slice_groups() const { return SliceGroups::of_batch(items, channels, spatial); }

    // Rows are the channels of one position if true, the positions of one channel of an item if false.
    bool has_columns() const { return channels_last != 0 || spatial == 1; }

    // Row axes of `Full` arrays and of `Single` operands with one element a channel.
    template <int Full, int Single>
    RowAxes<Full, Single> rows() const {
        RowAxes<Full, Single> axes;
        int64_t item[Full + Single], other[Full + Single], inner[Full];
        const bool columns = has_columns();
        for (int k = 0; k < Full + Single; ++k) item[k] = k < Full ? channels * spatial : 0;
        for (int k = 0; k < Full + Single; ++k) other[k] = k < Full ? (columns ? channels : spatial) : columns ? 0 : 1;
        for (int64_t& step : inner) step = 1;
        axes.outer.append(items, item);
        axes.outer.append(columns ? spatial : channels, other);
        axes.inner.append(columns ? channels : spatial, inner);
        return axes;
    }
};

}  // namespace bk
