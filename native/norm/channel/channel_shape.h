// SPDX-License-Identifier: Apache-2.0
// Batch, group and instance norm: [N, C, S] in groups of whole channels. A slice is one channel of one item.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/row/row_map.h"
#include "norm/channel/group_moments.h"
#include "norm/channel/staged_slices.h"
#include "norm/norm_row.h"

namespace bk {

// group_kind: with kOfBatch a group is one channel of all items, with kOfItem it is a range of an item's channels.
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
    // An item's channels divide into channel_groups() ranges of width() adjacent channels.
    int64_t channel_groups() const { return is_of_batch() ? channels : num_groups; }
    int64_t width() const { return channels / channel_groups(); }
    int64_t group_size() const { return (is_of_batch() ? items : width()) * spatial; }
    // Number of means, and of inverse standard deviations; 0 without elements.
    int64_t group_count() const { return is_empty() ? 0 : is_of_batch() ? channels : items * channel_groups(); }

    // Per says what an operand has one element of, Steps its strides between items, groups, channels and positions.
    enum class Per { kElement, kItemChannel, kChannel, kGroup };
    struct Steps {
        int64_t item, group, channel, position;
    };
    Steps steps(Per per) const {
        if (per == Per::kElement) return {channels * spatial, width() * spatial, spatial, 1};
        if (per == Per::kItemChannel) return {channels, width(), 1, 0};
        if (per == Per::kChannel) return {0, width(), 1, 0};
        return {is_of_batch() ? 0 : channel_groups(), 1, 0, 0};
    }

    // Layouts of all operands: over_groups() has the axes between groups, within_group() those of a group.
    template <int Operands>
    void append(Layout<Operands>* layout, int64_t extent, int64_t Steps::* axis, const Per* operands) const {
        int64_t stride[Operands];
        for (int k = 0; k < Operands; ++k) stride[k] = steps(operands[k]).*axis;
        layout->append(extent, stride);
    }
    template <int Operands>
    BK_COLD Layout<Operands> over_groups(const Per (&operands)[Operands]) const {
        Layout<Operands> layout;
        if (!is_of_batch()) append(&layout, items, &Steps::item, operands);
        append(&layout, channel_groups(), &Steps::group, operands);
        return layout;
    }
    template <int Operands>
    BK_COLD Layout<Operands> within_group(const Per (&operands)[Operands]) const {
        Layout<Operands> layout;
        append(&layout, is_of_batch() ? items : width(), is_of_batch() ? &Steps::item : &Steps::channel, operands);
        append(&layout, spatial, &Steps::position, operands);
        return layout;
    }
    // Layouts of all operands: over_slices() has the axes between slices, within_slice() that of a slice.
    template <int Operands>
    BK_COLD Layout<Operands> over_slices(const Per (&operands)[Operands]) const {
        Layout<Operands> layout;
        append(&layout, items, &Steps::item, operands);
        append(&layout, channel_groups(), &Steps::group, operands);
        append(&layout, width(), &Steps::channel, operands);
        return layout;
    }
    template <int Operands>
    BK_COLD Layout<Operands> within_slice(const Per (&operands)[Operands]) const {
        Layout<Operands> layout;
        append(&layout, spatial, &Steps::position, operands);
        return layout;
    }

    BK_COLD SliceGroups slice_groups() const {
        return is_of_batch() ? SliceGroups::of_batch(items, channels, spatial)
                             : SliceGroups::of_items(items, num_groups, width(), spatial);
    }

    // Axes of the reduction that computes the statistics.
    BK_COLD GroupMomentAxes moment_axes() const {
        const Per operands[] = {Per::kElement, Per::kGroup, Per::kGroup, Per::kGroup, Per::kGroup};
        return {over_groups(operands), within_group({Per::kElement})};
    }

    // Fills what a row function looks up for a group of several channels.
    template <class T>
    BK_COLD Status fill(NormChannels<T>* channels, const T* gamma, const T* beta) const {
        if (group_size() > INT32_MAX)
            return fail(Status::kUnsupported, "groups of %lld elements need a workspace", static_cast<long long>(group_size()));
        *channels = {gamma, beta, FastDiv<uint32_t>(spatial), static_cast<uint32_t>(group_size())};
        return Status::kOk;
    }

    // Whether a pass of statistics, then a map over slices beats a map over groups: a group of the batch is strided,
    // and the CPU, which cannot keep long rows on chip, reads them again anyway.
    bool prefers_slices() const {
        constexpr int64_t kMinSlice = 16;
        return spatial >= kMinSlice && (is_of_batch() ? items > 1 : width() > 1 && !kRowsStayOnChip);
    }
};

}  // namespace bk
