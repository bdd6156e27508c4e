// SPDX-License-Identifier: Apache-2.0
// CPU indexed copies. Threads take fibers along the last axis. A scatter gives all updates of a target to one thread,
// in axis order, so that the last one wins.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/gather/gather_rows_cpu.h"
#include "core/gather/indexed_copy.h"
#include "core/select/compact_indices_cpu.h"

namespace bk {

// Copies `count` elements of a fiber whose indices are in [low, high), which may be a slice of the valid range.
template <bool kIsGather, class P, class I, class Q>
BK_HD void copy_fiber(P* plain, const I* index, Q* indexed, int64_t count, const int64_t (&step)[3], int64_t axis_step,
                      int64_t low, int64_t high, bool is_partial) {
    const uint64_t extent = static_cast<uint64_t>(high - low);
    const auto copy_all = [=](auto plain_step, auto index_step, auto indexed_step, auto along_axis) {
        const auto is_within = [=](int64_t k) {
            return static_cast<uint64_t>(index[k * index_step]) - static_cast<uint64_t>(low) < extent;
        };
        const auto target = [=](int64_t k) {
            return k * indexed_step + static_cast<int64_t>(index[k * index_step]) * along_axis;
        };
        const auto copy_one = [=](int64_t k) {
            if constexpr (kIsGather)
                plain[k * plain_step] = indexed[target(k)];
            else
                indexed[target(k)] = plain[k * plain_step];
        };
        if (!kIsGather && is_partial) return for_selected(count, is_within, copy_one);
        for (int64_t k = 0; k < count; ++k)
            if (is_within(k)) copy_one(k);
    };
    using One = std::integral_constant<int64_t, 1>;
    using None = std::integral_constant<int64_t, 0>;
    if (step[1] == 0) {
        const int64_t at = static_cast<int64_t>(*index);
        if (at < low || at >= high) return;
        Q* const from = indexed + at * axis_step;
        if (step[0] == 1 && step[2] == 1) {
            if constexpr (kIsGather)
                memcpy(plain, from, static_cast<size_t>(count) * sizeof(P));
            else
                memcpy(from, plain, static_cast<size_t>(count) * sizeof(P));
            return;
        }
        for (int64_t k = 0; k < count; ++k) {
            if constexpr (kIsGather)
                plain[k * step[0]] = from[k * step[2]];
            else
                from[k * step[2]] = plain[k * step[0]];
        }
    } else if (step[0] == 1 && step[1] == 1 && step[2] == 0 && axis_step == 1) {
        copy_all(One{}, One{}, None{}, One{});
    } else if (step[0] == 1 && step[1] == 1) {
        copy_all(One{}, One{}, step[2], axis_step);
    } else {
        copy_all(step[0], step[1], step[2], axis_step);
    }
}

template <class Bits, class I>
Status gather_along(const Launch&, const IndexedAxes& given, Bits* plain, const I* index, const Bits* indexed) {
    Layout<3> fibers = collapse(given.layout);
    int64_t step[3] = {1, 1, 0}, length = 1;
    if (fibers.rank > 0) {
        const int last = --fibers.rank;
        length = fibers.extent[last];
        for (int k = 0; k < 3; ++k) step[k] = fibers.stride[k][last];
    }
    const auto is_valid = [&](int64_t i) { return i >= 0 && i < given.extent; };
    if (fibers.rank == 1 && step[0] == 1 && step[1] == 0 && step[2] == 1 && fibers.stride[2][0] == 0) {
        const IndexedRows<Bits, I> rows{plain, index, indexed, fibers.stride[0][0], fibers.stride[1][0], given.step, length};
        parallel_ranges(fibers.extent[0], grain_for(static_cast<int64_t>(2 * sizeof(Bits)) * length),
                        [&](int64_t begin, int64_t end) { rows.copy(begin, end, is_valid, [](Bits*) {}); });
        return Status::kOk;
    }
    const int64_t tile = std::min<int64_t>(length, 16384), tiles = ceil_div(length, tile);  // threads may share a fiber
    const Walk<3, uint64_t> walk(fibers);
    const auto bytes = static_cast<int64_t>(2 * sizeof(Bits) + sizeof(I));
    parallel_ranges(fibers.numel() * tiles, grain_for(bytes * tile), [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) {
            const int64_t fiber = tiles == 1 ? at : at / tiles, first = (at - fiber * tiles) * tile;
            const auto offset = walk(static_cast<uint64_t>(fiber));
            copy_fiber<true>(plain + signed_offset(offset.of[0]) + first * step[0],
                             index + signed_offset(offset.of[1]) + first * step[1],
                             indexed + signed_offset(offset.of[2]) + first * step[2], std::min(tile, length - first), step,
                             given.step, 0, given.extent, false);
        }
    });
    return Status::kOk;
}

template <class Owner>
size_t scatter_workspace(int64_t) {
    return 0;
}

// Fibers go along the scatter axis, or along the last axis, tiled. A thread takes whole fibers, or all that lands in
// its slice of the axis.
template <class Owner, class Bits, class I>
Status scatter_along(const Launch&, const IndexedAxes& given, int, const Bits* plain, const I* index, Bits* indexed) {
    Layout<3> outer = collapse(given.layout);
    int64_t axis_count = 1, axis_steps[3] = {}, length = 1, step[3] = {};
    const auto take_axis = [&](int d, int64_t* extent, int64_t* steps) {
        *extent = outer.extent[d];
        for (int k = 0; k < 3; ++k) steps[k] = outer.stride[k][d];
        for (--outer.rank; d < outer.rank; ++d) {
            outer.extent[d] = outer.extent[d + 1];
            for (int k = 0; k < 3; ++k) outer.stride[k][d] = outer.stride[k][d + 1];
        }
    };
    int along_axis = outer.rank - 1;  // absent if its extent is 1
    while (along_axis >= 0 && outer.stride[IndexedAxes::kIndexed][along_axis] != 0) --along_axis;
    if (along_axis >= 0 && along_axis < outer.rank - 1) take_axis(along_axis, &axis_count, axis_steps);
    if (outer.rank > 0) take_axis(outer.rank - 1, &length, step);
    const bool along = step[2] == 0;
    const int64_t tile = along ? length : std::min<int64_t>(length, 4096), tiles = ceil_div(length, tile);
    const auto bytes = static_cast<int64_t>(2 * sizeof(Bits) + sizeof(I));
    const int64_t fiber_tiles = outer.numel() * tiles, total = bytes * length * axis_count * outer.numel();
    const int64_t wanted = std::min(thread_count(), ceil_div<int64_t>(total, 262144));
    const int64_t slices =
        fiber_tiles < wanted ? std::min(ceil_div(wanted, std::max<int64_t>(fiber_tiles, 1)), std::max<int64_t>(given.extent, 1))
                             : 1;
    const Walk<3, uint64_t> walk(outer);
    parallel_ranges(fiber_tiles * slices, grain_for(bytes * tile * axis_count), [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) {
            const int64_t fiber_tile = at / slices, slice = at % slices, first = fiber_tile % tiles * tile;
            const auto offset = walk(static_cast<uint64_t>(fiber_tile / tiles));
            const int64_t low = given.extent / slices * slice,
                          high = slice + 1 == slices ? given.extent : low + given.extent / slices;
            for (int64_t k = 0; k < axis_count; ++k)
                copy_fiber<false>(plain + signed_offset(offset.of[0]) + k * axis_steps[0] + first * step[0],
                                  index + signed_offset(offset.of[1]) + k * axis_steps[1] + first * step[1],
                                  indexed + signed_offset(offset.of[2]) + k * axis_steps[2] + first * step[2],
                                  std::min(tile, length - first), step, given.step, low, high, slices > 1);
        }
    });
    return Status::kOk;
}

}  // namespace bk
