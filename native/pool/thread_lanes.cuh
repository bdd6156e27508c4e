// SPDX-License-Identifier: Apache-2.0
// Work of a GPU thread of pooling: one position, a window or a cell, of V channels, so that its geometry is computed once for
// all of them. Adjacent channels in memory (channels-last) move as vectors, with adjacent threads on adjacent channels.
// Vectors are narrower where V divides neither the channels nor the strides; the last group of channels then begins early
// enough to be whole. Other channels are lanes a stride apart, with adjacent threads on adjacent positions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch_cuda.h"
#include "core/types/vec.h"
#include "pool/windows.h"

namespace bk::pool {

constexpr int kPoolThreads = 256;
struct Position {
    int32_t a, b, c;
};

// Items are (batch, position, channel group), or (batch, channel group, position) if channels are not adjacent.
struct ItemGrid {
    LongDiv by_groups;     // channel groups
    LongDiv by_positions;  // of a plane
    LongDiv by_plane, by_row;
    int64_t channels, items;
    int width;  // channels of an access; 0: they are a stride apart

    static ItemGrid of(const Problem& p, const int32_t (&extent)[kAxes], int lanes, int width) {
        const int64_t row = extent[2], plane = extent[1] * row, all = extent[0] * plane;
        const int64_t groups = ceil_div<int64_t>(p.channels, lanes);
        return {LongDiv(groups), LongDiv(all), LongDiv(plane), LongDiv(row), p.channels, p.batch * groups * all, width};
    }
};

// The item's position, batch and channels: all V of them, or if not kWhole the lanes [first, lanes) of those from `channel`.
template <int V, bool kWhole>
struct ItemAt {
    Position at;
    int64_t batch, channel;
    int first = 0, lanes = V, width = V;

    BK_DEVICE ItemAt(const ItemGrid& grid, int64_t item) {
        int64_t group, position;
        if (kWhole || grid.width > 0) {
            const auto outer = grid.by_groups(item), split = grid.by_positions(outer.quotient);
            group = outer.remainder, batch = split.quotient, position = split.remainder;
        } else {
            const auto outer = grid.by_positions(item), split = grid.by_groups(outer.quotient);
            group = split.remainder, batch = split.quotient, position = outer.remainder;
        }
        channel = group * V;
        if constexpr (!kWhole) {
            channel = max(int64_t{0}, min(channel, grid.channels - V));
            first = static_cast<int>(group * V - channel);
            lanes = static_cast<int>(min(int64_t{V}, grid.channels));
            width = grid.width;
        }
        const auto plane = grid.by_plane(position);
        const auto row = grid.by_row(plane.remainder);
        at = {static_cast<int32_t>(plane.quotient), static_cast<int32_t>(row.quotient), static_cast<int32_t>(row.remainder)};
    }
};

// use(W) for the widest W, a power of two, that is at most `width`.
template <int W, class Use>
BK_DEVICE void with_width(int width, const Use& use) {
    if constexpr (W > 1)
        if (width < W) return with_width<W / 2>(width, use);
    use(std::integral_constant<int, W>{});
}

// The lanes of an operand.
template <class T, int V, bool kWhole>
struct LanePointers {
    using Element = std::remove_const_t<T>;
    static constexpr int kMost = V < kVectorLanes<Element> ? V : kVectorLanes<Element>;  // of an access
    T* of;
    int64_t stride;
    int first, lanes, width;

    BK_DEVICE LanePointers(T* base, const Strides& strides, const ItemAt<V, kWhole>& item, int64_t offset = 0)
        : of(base + (strides.plane(item.batch, item.channel) + offset)),
          stride(kWhole ? 1 : strides.channel),
          first(item.first),
          lanes(item.lanes),
          width(item.width) {}

    // Lanes behind the last channel are 0.
    BK_DEVICE Vec<Element, V> read(int64_t offset) const {
        Vec<Element, V> all;
        if constexpr (kWhole && V == kMost) {
            all = bk::load<V>(of + offset);
        } else {
            if constexpr (!kWhole) all = Vec<Element, V>{};
            with_width<kMost>(kWhole ? kMost : width, [&](auto chosen) {
                constexpr int W = decltype(chosen)::value;
#pragma unroll
                for (int v = 0; v < V; v += W) {
                    if (!kWhole && v >= lanes) break;
                    const auto some = bk::load<W>(of + offset + v * stride);
#pragma unroll
                    for (int u = 0; u < W; ++u) all.lane[v + u] = some.lane[u];
                }
            });
        }
        return all;
    }
    BK_DEVICE void write(const Vec<T, V>& all) const {
        with_width<kMost>(kWhole ? kMost : width, [&](auto chosen) {
            constexpr int W = decltype(chosen)::value;
#pragma unroll
            for (int v = 0; v < V; v += W) {
                if (!kWhole && (v < first || v >= lanes)) continue;
                Vec<T, W> some;
#pragma unroll
                for (int u = 0; u < W; ++u) some.lane[u] = all.lane[v + u];
                bk::store(of + v * stride, some);
            }
        });
    }
};

// Adjacent channels of an operand that an access can have, a power of two up to `most`; 0 if channels are not adjacent. An
// operand that is null permits all.
template <class T>
int channel_width(const Problem& p, const T* base, const Strides& strides, int most) {
    if (base == nullptr) return most;
    if (strides.channel != 1 || p.channels < 2) return 0;
    const auto fits = [&](int64_t lanes) {
        const int64_t some = std::min<int64_t>(lanes, kVectorLanes<T>);
        bool all = p.channels % lanes == 0 && is_aligned(base, static_cast<size_t>(some) * sizeof(T));
        all = all && (p.batch == 1 || strides.batch % some == 0);
        for (int d = 0; d < kAxes; ++d) all = all && strides.axis[d] % some == 0;
        return all;
    };
    int width = most;
    while (width > 1 && !fits(width)) width /= 2;
    return width;
}

// Batch and channels as one axis, if no operand tells them apart.
inline Problem with_merged_planes(Problem p) {
    Strides* const all[] = {&p.x, &p.dx, &p.y, &p.dy, &p.indices};
    for (Strides* s : all)
        if (p.channels > 1 && p.batch > 1 && s->batch != p.channels * s->channel) return p;
    for (Strides* s : all)
        if (p.channels == 1) s->channel = s->batch;
    p.channels *= p.batch, p.batch = 1;
    return p;
}

}  // namespace bk::pool
