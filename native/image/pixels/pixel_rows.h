// SPDX-License-Identifier: Apache-2.0
// Images of bytes, pixel by pixel, to planes of a float dtype and back, in one pass over both.
//
//   to planes   y[n, c, i, j] = (x[n, top + i, left + j', c'] * scale - mean[c]) / std[c]
//   to pixels   x[n, i, j, c'] = round((y[n, c, i, j] * std[c] + mean[c]) * scale), cut to 0 .. 255
//
// c' is c, or of the channels in reverse; j' is j, or of the window in reverse. The window is a part of the image. A thread has
// four neighbouring pixels with all their channels: a vector of a plane where rows are aligned.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/collectives/team.h"
#include "core/math/math.h"
#include "core/types/dtype.h"
#include "core/types/vec.h"

namespace bk::pixels {

constexpr int kGroup = 4;  // pixels of a thread

// Rows of groups that teams share.
struct PixelRows {
    static constexpr int64_t kGroups = 512;  // of a team
    int64_t height, width, groups, tiles;

    static PixelRows of(int64_t height, int64_t width) {
        const int64_t groups = ceil_div<int64_t>(width, kGroup);
        return {height, width, groups, ceil_div(groups, kGroups)};
    }
    int64_t items(int64_t batch) const { return batch * height * tiles; }
    BK_HD int64_t row(int64_t item) const { return item / tiles; }  // of all images
    BK_HD int64_t begin(int64_t item) const { return item % tiles * kGroups; }
    BK_HD int64_t end(int64_t item) const {
        const int64_t most = begin(item) + kGroups;
        return most < groups ? most : groups;
    }
    BK_HD int count(int64_t group) const {
        const int64_t rest = width - group * kGroup;
        return rest < kGroup ? static_cast<int>(rest) : kGroup;
    }
};

// Channels of a pixel and how they and the columns are ordered.
struct PixelOrder {
    int32_t channels;
    bool reverses_channels, flips;

    BK_HD int32_t channel(int32_t c) const { return reverses_channels ? channels - 1 - c : c; }
};

// A factor and an offset of a channel; 1 and 0 without arrays.
struct ChannelScale {
    const float *mean, *std;  // either may be null

    BK_HD float offset(int32_t c) const { return mean == nullptr ? 0.0f : mean[c]; }
    BK_HD float factor(int32_t c) const { return std == nullptr ? 1.0f : std[c]; }
};

// Bytes at a stride.
BK_HD void load_bytes(const uint8_t* from, int64_t stride, int count, float* to) {
    BK_UNROLL
    for (int k = 0; k < kGroup; ++k) to[k] = k < count ? static_cast<float>(from[k * stride]) : 0.0f;
}

template <class T>
BK_HD void store_lanes(T* to, const float* values, int count, bool is_aligned) {
    if (is_aligned && count == kGroup) {
        Vec<T, kGroup> lanes;
        BK_UNROLL
        for (int k = 0; k < kGroup; ++k) lanes.lane[k] = narrow<T>(values[k]);
        store(to, lanes);
        return;
    }
    BK_UNROLL
    for (int k = 0; k < kGroup; ++k)
        if (k < count) to[k] = narrow<T>(values[k]);
}

template <class T>
struct ToPlanesJob {
    PixelRows rows;
    PixelOrder order;
    ChannelScale channel;
    float scale;
    int64_t source_h, source_w, top, left;
    bool is_aligned;  // rows of planes are aligned to a group
    const uint8_t* x;
    T* y;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t row = rows.row(item), image = row / rows.height, i = row % rows.height;
        const uint8_t* const source = x + ((image * source_h + top + i) * source_w + left) * order.channels;
        T* const planes = y + (image * order.channels * rows.height + i) * rows.width;
        for (int32_t c = 0; c < order.channels; ++c) {
            const float offset = channel.offset(c), inverse = 1.0f / channel.factor(c);
            const uint8_t* const from = source + order.channel(c);
            T* const to = planes + c * rows.height * rows.width;
            for (int64_t group = rows.begin(item) + team.rank; group < rows.end(item); group += team.size) {
                const int count = rows.count(group);
                const int64_t j = group * kGroup, first = order.flips ? rows.width - 1 - j : j;
                float values[kGroup];
                load_bytes(from + first * order.channels, order.flips ? -order.channels : order.channels, count, values);
                BK_UNROLL
                for (int k = 0; k < kGroup; ++k) values[k] = (math::product(values[k], scale) - offset) * inverse;
                store_lanes(to + j, values, count, is_aligned);
            }
        }
    }
};

template <class T>
struct ToPixelsJob {
    PixelRows rows;
    PixelOrder order;
    ChannelScale channel;
    float scale;
    const T* y;
    uint8_t* x;

    BK_HD static uint8_t byte_of(float value) {
        const float cut = value > 0.0f ? (value < 255.0f ? value : 255.0f) : 0.0f;  // NaN is 0
        return static_cast<uint8_t>(math::rint<float>(cut));
    }
    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t row = rows.row(item), image = row / rows.height, i = row % rows.height;
        const T* const planes = y + (image * order.channels * rows.height + i) * rows.width;
        uint8_t* const target = x + row * rows.width * order.channels;
        const int64_t begin = rows.begin(item) * kGroup, most = rows.end(item) * kGroup;
        const int64_t end = most < rows.width ? most : rows.width;
        for (int64_t j = begin + team.rank; j < end; j += team.size) {
            const T* const from = planes + (order.flips ? rows.width - 1 - j : j);
            for (int32_t each = 0; each < order.channels; ++each) {
                const int32_t c = order.channel(each);
                const float value = widen(from[c * rows.height * rows.width]);
                target[j * order.channels + each] =
                    byte_of((math::product(value, channel.factor(c)) + channel.offset(c)) * scale);
            }
        }
    }
};

BK_COLD inline Status require_flag(const char* name, int32_t value) {
    if (value == 0 || value == 1) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %d, must be 0 or 1", name, value);
}

// `part` elements from `start` on are in `whole`.
BK_COLD inline Status require_window(const char* name, int32_t start, const char* part_name, int32_t part,
                                     const char* whole_name, int32_t whole) {
    if (start >= 0 && int64_t{start} + part <= whole) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %d and %s is %d, the window must be in %s, %d", name, start, part_name, part,
                whole_name, whole);
}

template <class T>
struct PixelsToPlanes {
    int32_t batch, source_h, source_w, channels, height, width, top, left, reverse_channels, flip_columns;
    float scale;

    Work work() const { return all_or_none(int64_t{batch} * channels * (int64_t{height} * width)); }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch},
                                     {"source_h", source_h},
                                     {"source_w", source_w},
                                     {"channels", channels},
                                     {"height", height},
                                     {"width", width}}));
        BK_TRY(require_window("top", top, "height", height, "source_h", source_h));
        BK_TRY(require_window("left", left, "width", width, "source_w", source_w));
        BK_TRY(require_flag("reverse_channels", reverse_channels));
        return require_flag("flip_columns", flip_columns);
    }
    Status run(const uint8_t* x, const float* mean, const float* std, T* y, const Launch& launch) const {
        ToPlanesJob<T> job{};
        job.rows = PixelRows::of(height, width);
        job.order = {channels, reverse_channels != 0, flip_columns != 0};
        job.channel = {mean, std};
        job.scale = scale;
        job.source_h = source_h;
        job.source_w = source_w;
        job.top = top;
        job.left = left;
        job.is_aligned = width % kGroup == 0 && is_aligned(y, kGroup * static_cast<int>(sizeof(T)));
        job.x = x;
        job.y = y;
        return run_teams(launch, job.rows.items(batch), int64_t{width} * channels * 5, job);
    }
};

template <class T>
struct PlanesToPixels {
    int32_t batch, channels, height, width, reverse_channels, flip_columns;
    float scale;

    Work work() const { return all_or_none(int64_t{batch} * channels * (int64_t{height} * width)); }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"channels", channels}, {"height", height}, {"width", width}}));
        BK_TRY(require_flag("reverse_channels", reverse_channels));
        return require_flag("flip_columns", flip_columns);
    }
    Status run(const T* y, const float* mean, const float* std, uint8_t* x, const Launch& launch) const {
        ToPixelsJob<T> job{};
        job.rows = PixelRows::of(height, width);
        job.order = {channels, reverse_channels != 0, flip_columns != 0};
        job.channel = {mean, std};
        job.scale = scale;
        job.y = y;
        job.x = x;
        return run_teams(launch, job.rows.items(batch), int64_t{width} * channels * 5, job);
    }
};

}  // namespace bk::pixels
