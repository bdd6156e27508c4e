// SPDX-License-Identifier: Apache-2.0
// Rows of the results of images on the CPU, as tasks.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/platform.h"
#include "image/resample/image_layout.h"

namespace bk::image {

constexpr int64_t kChannels = 512;      // of a chunk of adjacent channels
constexpr int64_t kLeastChannels = 16;  // for vectors of channels

// Rows of planes; of all channels where these are adjacent: each position a vector of channels, or if they are few, each row
// one of positions and channels.
struct ImageRows {
    int64_t count = 0, planes = 1, depth = 1, height = 1;  // planes: of an image
    bool has_channels = false;                             // whether a position is a vector of channels
    int lanes = 1;                                         // adjacent channels of a row
    bool is_dense = false;                                 // whether the elements of a row are adjacent

    static ImageRows of(const ImageLayout& x, const ImageLayout& y) {
        ImageRows rows;
        const int64_t channels = y.extent[1];
        const bool are_adjacent = channels > 1 && x.stride[1] == 1 && y.stride[1] == 1;
        const auto are_whole = [&](const ImageLayout& of) { return of.extent[4] == 1 || of.stride[4] == channels; };
        rows.has_channels = are_adjacent && channels >= kLeastChannels;
        if (are_adjacent && !rows.has_channels && are_whole(x) && are_whole(y) && x.extent[4] <= INT32_MAX / kLeastChannels)
            rows.lanes = static_cast<int>(channels);
        rows.is_dense = rows.lanes > 1 || y.stride[4] == 1 || y.extent[4] == 1;
        rows.planes = rows.has_channels || rows.lanes > 1 ? 1 : channels;
        rows.depth = y.extent[2];
        rows.height = y.extent[3];
        rows.count = y.extent[0] * rows.planes * rows.depth * rows.height;
        rows.channels_ = channels;
        return rows;
    }
    int64_t elements() const { return channels_ / planes; }

private:
    int64_t channels_ = 1;
};

// Indices of a row.
struct RowOfImage {
    int64_t number, n, c, z, y;

    BK_HD RowOfImage(const ImageRows& rows, int64_t row) : number(row) {
        y = row % rows.height;
        row /= rows.height;
        z = row % rows.depth;
        row /= rows.depth;
        c = row % rows.planes;
        n = row / rows.planes;
    }
    BK_HD void next(const ImageRows& rows) {
        ++number;
        if (++y < rows.height) return;
        y = 0;
        if (++z < rows.depth) return;
        z = 0;
        if (++c < rows.planes) return;
        c = 0;
        ++n;
    }
};

}  // namespace bk::image
