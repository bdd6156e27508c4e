// SPDX-License-Identifier: Apache-2.0
// Work of a GPU thread of pooling: one position, a window or a cell, of V channels, so that its geometry is
// computed once for all of them. The channels are adjacent in memory and move as a vector (channels-last), with adjacent
// threads on adjacent channels; or they are V planes, with adjacent threads on adjacent positions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch_cuda.h"
#include "core/types/vec.h"
#include "pool/windows.h"

namespace bk::pool {

constexpr int kPoolThreads = 256;
constexpr int kPlaneLanes = 4;

struct Position {
    int32_t a, b, c;
};

// Items are (batch, position, channel group), or (plane group, position).
struct ItemGrid {
    LongDiv by_groups;     // channel groups
    LongDiv by_positions;  // of a plane
    LongDiv by_plane, by_row;
    LongDiv by_channels;
    int64_t planes, items;

    static ItemGrid of(const Problem& p, const int32_t (&extent)[kAxes], int vector_lanes) {
        const int64_t row = extent[2], plane = extent[1] * row, all = extent[0] * plane;
        const int64_t groups = vector_lanes > 0 ? p.channels / vector_lanes : 1;
        const int64_t outer = vector_lanes > 0 ? p.batch * groups : ceil_div<int64_t>(p.planes(), kPlaneLanes);
        return {LongDiv(groups), LongDiv(all), LongDiv(plane), LongDiv(row), LongDiv(p.channels), p.planes(), outer * all};
    }
};

// The item's position, and for each lane its batch and channel.
template <int V, bool kVector>
struct ItemAt {
    static constexpr int kLanes = kVector ? 1 : V;  // addresses
    Position at;
    int64_t batch[kLanes], channel[kLanes];
    int stores;  // lanes that exist

    BK_DEVICE ItemAt(const ItemGrid& grid, int64_t item) {
        int64_t outer, position;
        if constexpr (kVector) {
            const auto group = grid.by_groups(item);
            const auto split = grid.by_positions(group.quotient);
            batch[0] = split.quotient, channel[0] = group.remainder * V;
            position = split.remainder, stores = V;
        } else {
            const auto split = grid.by_positions(item);
            outer = split.quotient * V, position = split.remainder;
            stores = static_cast<int>(min(int64_t{V}, grid.planes - outer));
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const auto plane = grid.by_channels(min(outer + v, grid.planes - 1));
                batch[v] = plane.quotient, channel[v] = plane.remainder;
            }
        }
        const auto plane = grid.by_plane(position);
        const auto row = grid.by_row(plane.remainder);
        at = {static_cast<int32_t>(plane.quotient), static_cast<int32_t>(row.quotient), static_cast<int32_t>(row.remainder)};
    }
};

// The lanes of an operand.
template <class T, int V, bool kVector>
struct LanePointers {
    static constexpr int kLanes = ItemAt<V, kVector>::kLanes;
    T* of[kLanes];

    BK_DEVICE LanePointers(T* base, const Strides& strides, const ItemAt<V, kVector>& item, int64_t offset = 0) {
#pragma unroll
        for (int v = 0; v < kLanes; ++v) of[v] = base + (strides.plane(item.batch[v], item.channel[v]) + offset);
    }
    BK_DEVICE auto read(int64_t offset) const {
        using Element = std::remove_const_t<T>;
        if constexpr (kVector && sizeof(T) * V > kVectorBytes) {  // indices
            constexpr int kStep = kVectorLanes<Element>;
            Vec<Element, V> all;
#pragma unroll
            for (int v = 0; v < V; v += kStep) {
                const auto some = bk::load<kStep>(of[0] + offset + v);
#pragma unroll
                for (int u = 0; u < kStep; ++u) all.lane[v + u] = some.lane[u];
            }
            return all;
        } else if constexpr (kVector) {
            return bk::load<V>(of[0] + offset);
        } else {
            Vec<Element, V> all;
#pragma unroll
            for (int v = 0; v < V; ++v) all.lane[v] = of[v][offset];
            return all;
        }
    }
    BK_DEVICE void write(const Vec<T, V>& all, int stores) const {
        if constexpr (kVector && sizeof(T) * V > kVectorBytes) {
            constexpr int kStep = kVectorLanes<T>;
#pragma unroll
            for (int v = 0; v < V; v += kStep) {
                Vec<T, kStep> some;
#pragma unroll
                for (int u = 0; u < kStep; ++u) some.lane[u] = all.lane[v + u];
                bk::store(of[0] + v, some);
            }
        } else if constexpr (kVector) {
            bk::store(of[0], all);
        } else {
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (v < stores) *of[v] = all.lane[v];
        }
    }
};

// Whether channels of an operand are adjacent and all vectors of them aligned. An operand that is null is.
template <class T>
bool has_vectors(const Problem& p, const T* base, const Strides& strides, int lanes) {
    constexpr int64_t kBytes = sizeof(T);
    const int64_t most = std::min<int64_t>(lanes, kVectorLanes<T>);
    if (base == nullptr) return true;
    bool fits = strides.channel == 1 && p.channels % lanes == 0 && is_aligned(base, static_cast<size_t>(most * kBytes));
    fits = fits && (p.batch == 1 || strides.batch % most == 0);
    for (int d = 0; d < kAxes; ++d) fits = fits && strides.axis[d] % most == 0;
    return fits;
}

}  // namespace bk::pool
