// The problem of batch, group and instance norm: [N, C, S] in groups of whole channels.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/rows/row_map.h"

namespace bk {

// As group_kind numbers them.
enum class ChannelGroups : int32_t { kOfBatch = 0, kOfItem = 1 };

struct ChannelShape {
    int64_t items, channels, spatial, parts;  // parts of an item's channels, where groups are of an item
    ChannelGroups kind;

    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"n_extent", items}, {"c_extent", channels}, {"spatial_extent", spatial}}));
        if (kind != ChannelGroups::kOfBatch && kind != ChannelGroups::kOfItem)
            return fail(Status::kInvalidProblem, "group_kind is %d, must be 0 or 1", static_cast<int>(kind));
        if (parts < 1 && (parts < 0 || channels > 0))
            return fail(Status::kInvalidProblem, "num_groups is %lld, must be >= 1", static_cast<long long>(parts));
        if (kind == ChannelGroups::kOfItem && channels > 0 && channels % parts != 0)
            return fail(Status::kInvalidProblem, "num_groups is %lld, must divide c_extent, %lld",
                        static_cast<long long>(parts), static_cast<long long>(channels));
        return Status::kOk;
    }

    bool is_empty() const { return items == 0 || channels == 0 || spatial == 0; }
    bool is_of_batch() const { return kind == ChannelGroups::kOfBatch; }
    int64_t part_channels() const { return channels / parts; }
    // Whether gamma and beta are numbers of a whole group.
    bool is_of_channels() const { return is_of_batch() || part_channels() == 1; }
    // Statistics of each kind: none without elements.
    int64_t group_count() const { return is_empty() ? 0 : is_of_batch() ? channels : items * parts; }

    // What an operand has one of.
    enum class Per { kElement, kChannel, kGroup };

    // `Full` operands of an element or a channel each, then `Single` of a channel, the first of a group, or a group.
    template <int Full, int Single>
    BK_COLD RowAxes<Full, Single> axes(const Per (&full)[Full], const Per (&single)[Single]) const {
        RowAxes<Full, Single> axes;
        int64_t of_items[Full + Single], of_parts[Full + Single], of_channel[Full], of_spatial[Full];
        const int64_t width = is_of_batch() ? 1 : part_channels();  // channels from one part to the next
        for (int k = 0; k < Full + Single; ++k) {
            const Per per = k < Full ? full[k < Full ? k : 0] : single[k < Full ? 0 : k - Full];
            of_items[k] = per == Per::kElement ? channels * spatial : per == Per::kGroup && !is_of_batch() ? parts : 0;
            of_parts[k] = per == Per::kElement ? width * spatial : per == Per::kChannel ? width : 1;
            if (k >= Full) continue;
            of_channel[k] = per == Per::kElement ? spatial : 1;
            of_spatial[k] = per == Per::kElement ? 1 : 0;
        }
        if (is_of_batch()) {
            int64_t of_row[Full];
            for (int k = 0; k < Full; ++k) of_row[k] = of_items[k];
            axes.outer.append(channels, of_parts);
            axes.inner.append(items, of_row);
        } else {
            axes.outer.append(items, of_items);
            axes.outer.append(parts, of_parts);
            axes.inner.append(width, of_channel);
        }
        axes.inner.append(spatial, of_spatial);
        return axes;
    }
};

}  // namespace bk
