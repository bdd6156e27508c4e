// Threads take lines, which are places along the last axis. Of a scatter they take them so that places with one target
// are one thread's, which comes to them in the order of the axis: the last one stays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/rows/gather_rows_cpu.h"
#include "core/rows/indexed_moves.h"
#include "core/rows/kept_places_cpu.h"

namespace bk {

// `count` places along a line, of indices in [low, high), which may be but a part of those that there are.
template <bool kGathers, class P, class I, class Q>
BK_HD void move_line(P* plain, const I* index, Q* placed, int64_t count, const int64_t (&step)[3], int64_t axis_step,
                     int64_t low, int64_t high, bool is_part) {
    const uint64_t extent = static_cast<uint64_t>(high - low);
    const auto move_all = [=](auto plain_step, auto index_step, auto placed_step, auto along_axis) {
        const auto is_within = [=](int64_t k) {
            return static_cast<uint64_t>(index[k * index_step]) - static_cast<uint64_t>(low) < extent;
        };
        const auto target = [=](int64_t k) {
            return k * placed_step + static_cast<int64_t>(index[k * index_step]) * along_axis;
        };
        const auto move = [=](int64_t k) {
            if constexpr (kGathers)
                plain[k * plain_step] = placed[target(k)];
            else
                placed[target(k)] = plain[k * plain_step];
        };
        if (!kGathers && is_part) return for_kept(count, is_within, move);
        for (int64_t k = 0; k < count; ++k)
            if (is_within(k)) move(k);
    };
    using One = std::integral_constant<int64_t, 1>;
    using None = std::integral_constant<int64_t, 0>;
    if (step[1] == 0) {
        const int64_t at = static_cast<int64_t>(*index);
        if (at < low || at >= high) return;
        Q* const from = placed + at * axis_step;
        if (step[0] == 1 && step[2] == 1) {
            if constexpr (kGathers)
                memcpy(plain, from, static_cast<size_t>(count) * sizeof(P));
            else
                memcpy(from, plain, static_cast<size_t>(count) * sizeof(P));
            return;
        }
        for (int64_t k = 0; k < count; ++k) {
            if constexpr (kGathers)
                plain[k * step[0]] = from[k * step[2]];
            else
                from[k * step[2]] = plain[k * step[0]];
        }
    } else if (step[0] == 1 && step[1] == 1 && step[2] == 0 && axis_step == 1) {
        move_all(One{}, One{}, None{}, One{});
    } else if (step[0] == 1 && step[1] == 1) {
        move_all(One{}, One{}, step[2], axis_step);
    } else {
        move_all(step[0], step[1], step[2], axis_step);
    }
}

template <class Bits, class I>
Status gather_along(const Launch&, const IndexedAxes& given, Bits* plain, const I* index, const Bits* placed) {
    Layout<3> lines = collapse(given.places);
    int64_t step[3] = {1, 1, 0}, length = 1;
    if (lines.rank > 0) {
        const int last = --lines.rank;
        length = lines.extent[last];
        for (int k = 0; k < 3; ++k) step[k] = lines.stride[k][last];
    }
    const auto is_kept = [&](int64_t i) { return i >= 0 && i < given.extent; };
    if (lines.rank == 1 && step[0] == 1 && step[1] == 0 && step[2] == 1 && lines.stride[2][0] == 0) {
        const IndexedRows<Bits, I> rows{plain, index, placed, lines.stride[0][0], lines.stride[1][0], given.step, length};
        parallel_ranges(lines.extent[0], grain_for(static_cast<int64_t>(2 * sizeof(Bits)) * length),
                        [&](int64_t begin, int64_t end) { rows.copy(begin, end, is_kept, [](Bits*) {}); });
        return Status::kOk;
    }
    const int64_t cut = std::min<int64_t>(length, 16384), cuts = ceil_div(length, cut);  // so that threads may share a line
    const Walk<3, uint64_t> walk(lines);
    const auto bytes = static_cast<int64_t>(2 * sizeof(Bits) + sizeof(I));
    parallel_ranges(lines.numel() * cuts, grain_for(bytes * cut), [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) {
            const int64_t line = cuts == 1 ? at : at / cuts, first = (at - line * cuts) * cut;
            const auto offset = walk(static_cast<uint64_t>(line));
            move_line<true>(plain + signed_offset(offset.of[0]) + first * step[0],
                            index + signed_offset(offset.of[1]) + first * step[1],
                            placed + signed_offset(offset.of[2]) + first * step[2], std::min(cut, length - first), step,
                            given.step, 0, given.extent, false);
        }
    });
    return Status::kOk;
}

template <class Owner>
size_t scatter_workspace(int64_t) {
    return 0;
}

// Lines go along the axis, or along the last axis, which is then cut, below it. A thread has whole lines, or all that
// lands in its part of the axis.
template <class Owner, class Bits, class I>
Status scatter_along(const Launch&, const IndexedAxes& given, int, const Bits* plain, const I* index, Bits* placed) {
    Layout<3> others = collapse(given.places);
    int64_t axis_count = 1, axis_steps[3] = {}, length = 1, step[3] = {};
    const auto take = [&](int d, int64_t* extent, int64_t* steps) {
        *extent = others.extent[d];
        for (int k = 0; k < 3; ++k) steps[k] = others.stride[k][d];
        for (--others.rank; d < others.rank; ++d) {
            others.extent[d] = others.extent[d + 1];
            for (int k = 0; k < 3; ++k) others.stride[k][d] = others.stride[k][d + 1];
        }
    };
    int along_axis = others.rank - 1;  // there is none of one place
    while (along_axis >= 0 && others.stride[IndexedAxes::kPlaced][along_axis] != 0) --along_axis;
    if (along_axis >= 0 && along_axis < others.rank - 1) take(along_axis, &axis_count, axis_steps);
    if (others.rank > 0) take(others.rank - 1, &length, step);
    const bool along = step[2] == 0;
    const int64_t cut = along ? length : std::min<int64_t>(length, 4096), cuts = ceil_div(length, cut);
    const auto bytes = static_cast<int64_t>(2 * sizeof(Bits) + sizeof(I));
    const int64_t units = others.numel() * cuts, total = bytes * length * axis_count * others.numel();
    const int64_t wanted = std::min(thread_count(), ceil_div<int64_t>(total, 262144));
    const int64_t parts =
        units < wanted ? std::min(ceil_div(wanted, std::max<int64_t>(units, 1)), std::max<int64_t>(given.extent, 1)) : 1;
    const Walk<3, uint64_t> walk(others);
    parallel_ranges(units * parts, grain_for(bytes * cut * axis_count), [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) {
            const int64_t unit = at / parts, part = at % parts, first = unit % cuts * cut;
            const auto offset = walk(static_cast<uint64_t>(unit / cuts));
            const int64_t low = given.extent / parts * part,
                          high = part + 1 == parts ? given.extent : low + given.extent / parts;
            for (int64_t k = 0; k < axis_count; ++k)
                move_line<false>(plain + signed_offset(offset.of[0]) + k * axis_steps[0] + first * step[0],
                                 index + signed_offset(offset.of[1]) + k * axis_steps[1] + first * step[1],
                                 placed + signed_offset(offset.of[2]) + k * axis_steps[2] + first * step[2],
                                 std::min(cut, length - first), step, given.step, low, high, parts > 1);
        }
    });
    return Status::kOk;
}

}  // namespace bk
