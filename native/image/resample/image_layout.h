// SPDX-License-Identifier: Apache-2.0
// Images as all loops over them see it: extents, strides, and items of their positions.
#pragma once

#include <cstdint>

#include "core/collectives/items.h"

namespace bk::image {

// Images [N, C, z, y, x] with any strides, of which leading spatial axes may have extent 1.
struct ImageLayout {
    int64_t extent[5] = {1, 1, 1, 1, 1};
    int64_t stride[5] = {};

    static ImageLayout of(int32_t rank, const int32_t* shape, const int64_t* strides) {
        ImageLayout layout;
        for (int32_t d = 0; d < rank; ++d) {
            const int32_t to = d < 2 ? d : d + 5 - rank;
            layout.extent[to] = shape[d];
            layout.stride[to] = shape[d] > 1 ? strides[d] : 0;
        }
        return layout;
    }
    int64_t elements() const { return extent[0] * extent[1] * extent[2] * extent[3] * extent[4]; }
    bool is_channels_last() const {
        const int64_t of_channel = stride[1] < 0 ? -stride[1] : stride[1], of_x = stride[4] < 0 ? -stride[4] : stride[4];
        return extent[1] > 1 && extent[4] > 1 && of_channel < of_x;
    }
};

// Positions of an output and groups of its channels as items: adjacent items are adjacent in memory.
struct OutputItems {
    ItemSplit<5> split;
    LaneGroups channels;
    bool is_channels_last = false;

    static OutputItems of(const ImageLayout& y, int64_t plane_lanes = kItemLanes) {
        OutputItems items;
        const int64_t (&e)[5] = y.extent;
        items.is_channels_last = y.is_channels_last();
        items.channels = LaneGroups::of(e[1], e[0] * e[2] * e[3] * e[4], items.is_channels_last ? kItemLanes : plane_lanes);
        const int64_t groups = items.channels.groups;
        if (items.is_channels_last)
            items.split = ItemSplit<5>::of({e[0], e[2], e[3], e[4], groups});
        else
            items.split = ItemSplit<5>::of({e[0], groups, e[2], e[3], e[4]});
        return items;
    }
    // Image, group of channels, and spatial indices of an item.
    BK_HD void indices(int64_t item, int64_t (&at)[5]) const {
        int64_t found[5];
        split.indices(item, found);
        at[0] = found[0];
        at[1] = is_channels_last ? found[4] : found[1];
        BK_UNROLL
        for (int d = 0; d < 3; ++d) at[2 + d] = is_channels_last ? found[1 + d] : found[2 + d];
    }
};

inline void copy_strides(const ImageLayout& layout, int64_t (&to)[5]) {
    for (int d = 0; d < 5; ++d) to[d] = layout.stride[d];
}

}  // namespace bk::image
