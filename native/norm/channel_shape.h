// The problem of batch, group and instance norm: [N, C, S] in groups of whole channels.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/rows/row_map.h"
#include "norm/group_moments.h"
#include "norm/held_lines.h"
#include "norm/norm_row.h"

namespace bk {

// As group_kind numbers them: of the batch, a channel of all items is a group, else a part of an item's channels is.
enum class ChannelGroups : int32_t { kOfBatch = 0, kOfItem = 1 };

struct ChannelShape {
    int64_t items, channels, spatial, num_groups;
    ChannelGroups kind;

    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"n_extent", items}, {"c_extent", channels}, {"spatial_extent", spatial}}));
        if (kind != ChannelGroups::kOfBatch && kind != ChannelGroups::kOfItem)
            return fail(Status::kInvalidProblem, "group_kind is %d, must be 0 or 1", static_cast<int>(kind));
        if (num_groups < 1 && (num_groups < 0 || channels > 0))
            return fail(Status::kInvalidProblem, "num_groups is %lld, must be >= 1", static_cast<long long>(num_groups));
        if (kind == ChannelGroups::kOfItem && channels > 0 && channels % num_groups != 0)
            return fail(Status::kInvalidProblem, "num_groups is %lld, must divide c_extent, %lld",
                        static_cast<long long>(num_groups), static_cast<long long>(channels));
        return Status::kOk;
    }

    bool is_empty() const { return items == 0 || channels == 0 || spatial == 0; }
    bool is_of_batch() const { return kind == ChannelGroups::kOfBatch; }
    // Channels lie in parts, a group's together: `width` channels each.
    int64_t parts() const { return is_of_batch() ? channels : num_groups; }
    int64_t width() const { return channels / parts(); }
    int64_t group_size() const { return (is_of_batch() ? items : width()) * spatial; }
    // Statistics of each kind: none without elements.
    int64_t group_count() const { return is_empty() ? 0 : is_of_batch() ? channels : items * parts(); }

    // What an operand has one of, and its steps from item to item, part to part, channel to channel and along the lines.
    enum class Per { kElement, kItemChannel, kChannel, kGroup };
    struct Steps {
        int64_t item, part, channel, line;
    };
    Steps steps(Per per) const {
        if (per == Per::kElement) return {channels * spatial, width() * spatial, spatial, 1};
        if (per == Per::kItemChannel) return {channels, width(), 1, 0};
        if (per == Per::kChannel) return {0, width(), 1, 0};
        return {is_of_batch() ? 0 : parts(), 1, 0, 0};
    }

    // Which axes of a layout of all operands: those that groups differ in, and those that a group has.
    template <int Operands>
    void append(Layout<Operands>* layout, int64_t extent, int64_t Steps::* axis, const Per* operands) const {
        int64_t stride[Operands];
        for (int k = 0; k < Operands; ++k) stride[k] = steps(operands[k]).*axis;
        layout->append(extent, stride);
    }
    template <int Operands>
    BK_COLD Layout<Operands> groups(const Per (&operands)[Operands]) const {
        Layout<Operands> layout;
        if (!is_of_batch()) append(&layout, items, &Steps::item, operands);
        append(&layout, parts(), &Steps::part, operands);
        return layout;
    }
    template <int Operands>
    BK_COLD Layout<Operands> of_group(const Per (&operands)[Operands]) const {
        Layout<Operands> layout;
        append(&layout, is_of_batch() ? items : width(), is_of_batch() ? &Steps::item : &Steps::channel, operands);
        append(&layout, spatial, &Steps::line, operands);
        return layout;
    }
    // Every channel of every item.
    template <int Operands>
    BK_COLD Layout<Operands> lines(const Per (&operands)[Operands]) const {
        Layout<Operands> layout;
        append(&layout, items, &Steps::item, operands);
        append(&layout, parts(), &Steps::part, operands);
        append(&layout, width(), &Steps::channel, operands);
        return layout;
    }
    template <int Operands>
    BK_COLD Layout<Operands> of_line(const Per (&operands)[Operands]) const {
        Layout<Operands> layout;
        append(&layout, spatial, &Steps::line, operands);
        return layout;
    }

    BK_COLD LineGroups line_groups() const {
        return is_of_batch() ? LineGroups::of_batch(items, channels, spatial)
                             : LineGroups::of_items(items, num_groups, width(), spatial);
    }

    // Of the statistics of groups.
    BK_COLD GroupMomentAxes moment_axes() const {
        const Per kept[] = {Per::kElement, Per::kGroup, Per::kGroup, Per::kGroup, Per::kGroup};
        return {groups(kept), of_group({Per::kElement})};
    }

    // What a row function looks up where a group has several channels.
    template <class T>
    BK_COLD Status fill(NormChannels<T>* channels, const T* gamma, const T* beta) const {
        if (group_size() > INT32_MAX)
            return fail(Status::kUnsupported, "groups of %lld elements need a workspace", static_cast<long long>(group_size()));
        *channels = {gamma, beta, FastDiv<uint32_t>(spatial), static_cast<uint32_t>(group_size())};
        return Status::kOk;
    }

    // Whether statistics, in a pass of their own, then a map over lines are better than a map over groups: that walks a group
    // whose lines lie apart by single elements, and what cannot keep rows reads them again anyway.
    bool prefers_lines() const {
        constexpr int64_t kShortLine = 16;
        return spatial >= kShortLine && (is_of_batch() ? items > 1 : width() > 1 && !kRowsStayOnChip);
    }
};

}  // namespace bk
