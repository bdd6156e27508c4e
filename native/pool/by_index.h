// SPDX-License-Identifier: Apache-2.0
// Windows that name a cell of their plane by its number: the values of all windows of a cell are added, or the last one is
// stored (max_unpool), without atomics on values. An index outside of the plane names no cell.
//
// A team has a plane. On a GPU it first finds, for each coordinate of a cell and each axis, the first and the last window that
// names such a cell, then each cell reads the windows between these bounds, in order. Indices of pooling are near each
// other, so these are few. Coordinates share a bound where a plane has more than fit into the team's scratch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/collectives/team.h"
#include "core/types/dtype.h"
#include "pool/windows.h"

namespace bk::pool {

constexpr int32_t kBounds = kTeamScratch / static_cast<int32_t>(2 * sizeof(int32_t));

BK_HD void lower_to(int32_t* at, int32_t value) {
#if BK_IN_KERNEL
    atomicMin(at, value);
#else
    *at = *at < value ? *at : value;
#endif
}
BK_HD void raise_to(int32_t* at, int32_t value) {
#if BK_IN_KERNEL
    atomicMax(at, value);
#else
    *at = *at > value ? *at : value;
#endif
}

// Strides: x of the cells, y of the windows' values, indices. Cells are written, and with `adds` read first.
template <class T>
struct ByIndexJob {
    using C = compute_t<T>;
    Problem p;
    const T* values;
    const int64_t* indices;
    T* cells;
    bool takes_last, adds, is_of_tensor;  // whether indices count from the first plane
    int32_t shift;                        // coordinates of 2^shift cells share a bound

    static int32_t shift_of(const Problem& p) {
        int32_t shift = 0;
        const auto bounds = [&] {
            int64_t all = 0;
            for (const Axis& axis : p.axis) all += (axis.in >> shift) + 1;
            return all;
        };
        while (bounds() > kBounds) ++shift;
        return shift;
    }

    struct Bounds {
        int32_t *first, *last;  // of the bounds of each axis
        int32_t begin[kAxes];
    };

    // A CPU's thread has a whole plane and goes through its windows once, in order; narrow sums would be rounded each time.
    BK_HD bool is_scattered() const {
        const int64_t step = p.x.axis[2], row = step * p.axis[2].in;
        const bool is_even =
            (p.axis[1].in == 1 || p.x.axis[1] == row) && (p.axis[0].in == 1 || p.x.axis[0] == row * p.axis[1].in);
        return is_even && (takes_last || std::is_same_v<C, T>);
    }
    BK_HD void scatter(int64_t plane) const {
        const int64_t n = plane / p.channels, c = plane % p.channels, step = p.x.axis[2], count = p.cells();
        const int64_t base = is_of_tensor ? plane * count : 0;
        T* const to = cells + p.x.plane(n, c);
        for (int64_t i = 0; i < count && !adds; ++i) to[i * step] = narrow<T>(C(0));
        const int64_t* const numbers = indices + p.indices.plane(n, c);
        const T* const from = values + p.y.plane(n, c);
        for (int32_t a = 0; a < p.axis[0].out; ++a)
            for (int32_t b = 0; b < p.axis[1].out; ++b) {
                const int64_t of_indices = p.indices.at(a, b, 0), of_y = p.y.at(a, b, 0);
                for (int32_t w = 0; w < p.axis[2].out; ++w) {
                    const int64_t number = numbers[of_indices + w * p.indices.axis[2]];
                    if (number < base || number >= base + count) continue;
                    T& cell = to[(number - base) * step];
                    const T value = from[of_y + w * p.y.axis[2]];
                    cell = takes_last ? value : narrow<T>(widen(cell) + widen(value));
                }
            }
    }

    BK_HD void operator()(const Team& team, int64_t plane) const {
        if constexpr (!BK_CUDA) {
            if (is_scattered()) return scatter(plane);
        }
        Bounds bounds{static_cast<int32_t*>(team.scratch), static_cast<int32_t*>(team.scratch) + kBounds, {}};
        bounds.begin[1] = (p.axis[0].in >> shift) + 1;
        bounds.begin[2] = bounds.begin[1] + (p.axis[1].in >> shift) + 1;
        const int32_t all = bounds.begin[2] + (p.axis[2].in >> shift) + 1;
        team.sync();
        for (int32_t i = team.rank; i < all; i += team.size) bounds.first[i] = INT32_MAX, bounds.last[i] = -1;
        team.sync();
        const int64_t n = plane / p.channels, c = plane % p.channels;
        const int64_t* const numbers = indices + p.indices.plane(n, c);
        const int64_t base = is_of_tensor ? plane * p.cells() : 0;
        find_bounds(team, numbers, base, bounds);
        team.sync();
        const T* const from = values + p.y.plane(n, c);
        T* const to = cells + p.x.plane(n, c);
        const int32_t width = p.axis[2].in, height = p.axis[1].in;
        const int64_t count = p.cells();
        for (int64_t i = team.rank; i < count; i += team.size) {
            int32_t own[kAxes];
            split(i, height, width, own);
            T* const cell = to + p.x.at(own[0], own[1], own[2]);
            const int32_t slot[] = {own[0] >> shift, bounds.begin[1] + (own[1] >> shift), bounds.begin[2] + (own[2] >> shift)};
            C sum = adds ? widen(*cell) : C(0);
            for (int32_t a = bounds.first[slot[0]]; a <= bounds.last[slot[0]]; ++a)
                for (int32_t b = bounds.first[slot[1]]; b <= bounds.last[slot[1]]; ++b)
                    for (int32_t w = bounds.first[slot[2]]; w <= bounds.last[slot[2]]; ++w) {
                        if (numbers[p.indices.at(a, b, w)] != base + i) continue;
                        const C value = widen(from[p.y.at(a, b, w)]);
                        sum = takes_last ? value : sum + value;
                    }
            *cell = narrow<T>(sum);
        }
    }

private:
    // Coordinates of a number; a division of 64 bits would be a call on a GPU.
    static BK_HD void split(int64_t number, int32_t height, int32_t width, int32_t (&at)[kAxes]) {
        if (number <= INT32_MAX) {
            const uint32_t row = static_cast<uint32_t>(number) / static_cast<uint32_t>(width);
            const uint32_t slab = row / static_cast<uint32_t>(height);
            at[0] = static_cast<int32_t>(slab);
            at[1] = static_cast<int32_t>(row - slab * static_cast<uint32_t>(height));
            at[2] = static_cast<int32_t>(static_cast<uint32_t>(number) - row * static_cast<uint32_t>(width));
        } else {
            const int64_t row = number / width, slab = row / height;
            at[0] = static_cast<int32_t>(slab);
            at[1] = static_cast<int32_t>(row - slab * height);
            at[2] = static_cast<int32_t>(number - row * width);
        }
    }
    BK_HD void find_bounds(const Team& team, const int64_t* numbers, int64_t base, const Bounds& bounds) const {
        const int64_t count = p.windows(), cells_of_plane = p.cells();
        const int32_t width = p.axis[2].in, height = p.axis[1].in;
        for (int64_t i = team.rank; i < count; i += team.size) {
            int32_t o[kAxes], cell[kAxes];
            split(i, p.axis[1].out, p.axis[2].out, o);
            const int64_t number = numbers[p.indices.at(o[0], o[1], o[2])];
            // base + cells does not overflow, where number - base might.
            if (number < base || number >= base + cells_of_plane) continue;
            split(number - base, height, width, cell);
            for (int d = 0; d < kAxes; ++d) {
                const int32_t slot = bounds.begin[d] + (cell[d] >> shift);
                lower_to(bounds.first + slot, o[d]);
                raise_to(bounds.last + slot, o[d]);
            }
        }
    }
};

// Kinds of sums over the windows of a cell.
enum class ByIndex { kLast, kSum, kAddToCells };

template <class T>
Status store_by_index(const Launch& launch, const Problem& p, ByIndex kind, bool is_of_tensor, const T* values,
                      const int64_t* indices, T* cells) {
    const int64_t bytes = p.cells() * static_cast<int64_t>(sizeof(T)) + p.windows() * 8;
    const ByIndexJob<T> job{p,
                            values,
                            indices,
                            cells,
                            kind == ByIndex::kLast,
                            kind == ByIndex::kAddToCells,
                            is_of_tensor,
                            ByIndexJob<T>::shift_of(p)};
    return run_teams(launch, p.planes(), bytes, job, true);
}

}  // namespace bk::pool
