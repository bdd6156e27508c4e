// The problem of batch norm with running statistics: [N, C, S], or [N, S, C] with channels last.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/reduce/reduce.h"
#include "core/rows/row_map.h"
#include "norm/held_lines.h"

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
    int64_t channel_step() const { return channels_last != 0 ? 1 : spatial; }
    int64_t place_step() const { return channels_last != 0 ? channels : 1; }

    // A reduction over the channel of `Full` arrays: the further inputs and the outputs have one element a channel.
    template <int In, int Out, int Full = 1>
    ReduceAxes<In, Out> sums() const {
        ReduceAxes<In, Out> axes;
        int64_t kept[In + Out], item[In], place[In];
        for (int k = 0; k < In + Out; ++k) kept[k] = k < Full ? channel_step() : 1;
        for (int k = 0; k < In; ++k) item[k] = k < Full ? channels * spatial : 0;
        for (int k = 0; k < In; ++k) place[k] = k < Full ? place_step() : 0;
        axes.kept.append(channels, kept);
        axes.reduced.append(items, item);
        axes.reduced.append(spatial, place);
        return axes;
    }

    // Unless rows are the channels of a place.
    BK_COLD LineGroups line_groups() const { return LineGroups::of_batch(items, channels, spatial); }

    // Whether rows are the channels of a place, and not the places of a channel of an item.
    bool has_columns() const { return channels_last != 0 || spatial == 1; }

    // Rows of `Full` arrays, with `Single` numbers a channel.
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
