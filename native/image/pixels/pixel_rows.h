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
#include "core/math/fastdiv.h"
#include "core/math/math.h"
#include "core/types/dtype.h"
#include "core/types/vec.h"

namespace bk::pixels {

constexpr int kGroup = 4;  // pixels of a thread

// Units of a row, groups or pixels, counted through the rows of all images. A team has kUnits of them, so that short rows
// share one.
struct RowUnits {
    static constexpr int64_t kUnits = 512;
    int64_t height, units, all;
    FastDiv<uint32_t> by_units, by_height;

    static RowUnits of(int64_t batch, int64_t height, int64_t units) {
        return {height, units, batch * height * units, FastDiv<uint32_t>(units), FastDiv<uint32_t>(height)};
    }
    int64_t items() const { return ceil_div(all, kUnits); }

    // visit(image, row of the image, unit of the row) for those of a thread.
    template <class Visit>
    BK_HD void each(const Team& team, int64_t item, const Visit& visit) const {
        const int64_t first = item * kUnits + team.rank, most = (item + 1) * kUnits, end = most < all ? most : all;
        if (first >= end) return;
        const auto at = split(first, units, by_units), of_row = split(at.quotient, height, by_height);
        const auto step = by_units(static_cast<uint32_t>(team.size));
        int64_t image = of_row.quotient, row = of_row.remainder, unit = at.remainder;
        for (int64_t k = first; k < end; k += team.size) {
            visit(image, row, unit);
            unit += step.remainder, row += step.quotient;
            if (unit >= units) unit -= units, ++row;
            if (row < height) continue;
            const auto carry = split(row, height, by_height);
            image += carry.quotient, row = carry.remainder;
        }
    }

private:
    static BK_HD DivMod<int64_t> split(int64_t n, int64_t divisor, const FastDiv<uint32_t>& by) {
        if (n > INT32_MAX) return {n / divisor, n % divisor};
        const auto fast = by(static_cast<uint32_t>(n));
        return {fast.quotient, fast.remainder};
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
    RowUnits groups;
    PixelOrder order;
    ChannelScale channel;
    float scale;
    int64_t width, source_h, source_w, top, left;
    bool is_aligned;  // rows of planes are aligned to a group
    const uint8_t* x;
    T* y;

    BK_HD void operator()(const Team& team, int64_t item) const {
        for (int32_t c = 0; c < order.channels; ++c) {
            const float offset = channel.offset(c), inverse = 1.0f / channel.factor(c);
            groups.each(team, item, [&](int64_t image, int64_t i, int64_t group) {
                const uint8_t* const from =
                    x + ((image * source_h + top + i) * source_w + left) * order.channels + order.channel(c);
                T* const to = y + ((image * order.channels + c) * groups.height + i) * width;
                const int64_t j = group * kGroup, first = order.flips ? width - 1 - j : j, rest = width - j;
                const int count = rest < kGroup ? static_cast<int>(rest) : kGroup;
                float values[kGroup];
                load_bytes(from + first * order.channels, order.flips ? -order.channels : order.channels, count, values);
                BK_UNROLL
                for (int k = 0; k < kGroup; ++k) values[k] = (math::product(values[k], scale) - offset) * inverse;
                store_lanes(to + j, values, count, is_aligned);
            });
        }
    }
};

template <class T>
struct ToPixelsJob {
    RowUnits pixels;
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
        const int64_t width = pixels.units, plane = pixels.height * width;
        pixels.each(team, item, [&](int64_t image, int64_t i, int64_t j) {
            const T* const from = y + image * order.channels * plane + i * width + (order.flips ? width - 1 - j : j);
            uint8_t* const to = x + ((image * pixels.height + i) * width + j) * order.channels;
            for (int32_t each = 0; each < order.channels; ++each) {
                const int32_t c = order.channel(each);
                to[each] = byte_of((math::product(widen(from[c * plane]), channel.factor(c)) + channel.offset(c)) * scale);
            }
        });
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
        job.groups = RowUnits::of(batch, height, ceil_div<int64_t>(width, kGroup));
        job.order = {channels, reverse_channels != 0, flip_columns != 0};
        job.channel = {mean, std};
        job.scale = scale;
        job.width = width;
        job.source_h = source_h;
        job.source_w = source_w;
        job.top = top;
        job.left = left;
        job.is_aligned = width % kGroup == 0 && is_aligned(y, kGroup * static_cast<int>(sizeof(T)));
        job.x = x;
        job.y = y;
        return run_teams(launch, job.groups.items(), RowUnits::kUnits * kGroup * channels * 5, job);
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
        job.pixels = RowUnits::of(batch, height, width);
        job.order = {channels, reverse_channels != 0, flip_columns != 0};
        job.channel = {mean, std};
        job.scale = scale;
        job.y = y;
        job.x = x;
        return run_teams(launch, job.pixels.items(), RowUnits::kUnits * channels * 5, job);
    }
};

}  // namespace bk::pixels
