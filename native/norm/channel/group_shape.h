// SPDX-License-Identifier: Apache-2.0
// Shape of group and instance norm with channels last: [N, S, C], an item's channels in equal groups.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/abi/checks.h"
#include "core/layout/layout.h"
#include "core/math/fastdiv.h"

namespace bk {

struct GroupShape {
    int64_t items, channels, spatial, groups;

    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"n_extent", items}, {"c_extent", channels}, {"spatial_extent", spatial}}));
        if (groups < 1 && (groups < 0 || channels > 0))
            return fail(Status::kInvalidProblem, "num_groups is %lld, must be >= 1", static_cast<long long>(groups));
        if (channels > 0 && channels % groups != 0)
            return fail(Status::kInvalidProblem, "num_groups is %lld, must divide c_extent, %lld",
                        static_cast<long long>(groups), static_cast<long long>(channels));
        return Status::kOk;
    }

    bool is_empty() const { return items == 0 || channels == 0 || spatial == 0; }
    int64_t width() const { return channels / groups; }
    int64_t group_size() const { return width() * spatial; }
    // Number of means, and of inverse standard deviations; 0 without elements.
    int64_t group_count() const { return is_empty() ? 0 : items * groups; }

    enum Axis { kItem, kPosition, kGroup, kChannel };  // kChannel: within its group
    // Per says what an operand has one element of.
    enum class Per { kElement, kItemChannel, kChannel, kGroup };

    int64_t extent(Axis axis) const {
        const int64_t all[] = {items, spatial, groups, width()};
        return all[axis];
    }
    int64_t step(Per per, Axis axis) const {
        const int64_t all[][4] = {{channels * spatial, channels, width(), 1},  // kElement
                                  {channels, 0, width(), 1},                   // kItemChannel
                                  {0, 0, width(), 1},                          // kChannel
                                  {groups, 0, 1, 0}};                          // kGroup
        return all[static_cast<int>(per)][axis];
    }

    template <int Operands>
    BK_COLD Layout<Operands> over(std::initializer_list<Axis> axes, const Per (&operands)[Operands]) const {
        Layout<Operands> layout;
        for (const Axis axis : axes) {
            int64_t stride[Operands];
            for (int k = 0; k < Operands; ++k) stride[k] = step(operands[k], axis);
            layout.append(extent(axis), stride);
        }
        return layout;
    }
};

// Group of a column of a row of all channels. Vectors may reach beyond the row: any group will do there.
struct GroupOfChannel {
    FastDiv<uint32_t> width;
    uint32_t channels = 0;

    static GroupOfChannel of(const GroupShape& shape) {
        return {FastDiv<uint32_t>(shape.width()), static_cast<uint32_t>(shape.channels)};
    }
    BK_HD bool shares_params(int64_t n) const { return width.divisor() % static_cast<uint32_t>(n) == 0; }
    BK_HD int64_t operator()(int64_t j) const {
        const uint32_t channel = static_cast<uint32_t>(j);
        return static_cast<int64_t>(width(channel < channels ? channel : 0).quotient);
    }
};

}  // namespace bk
