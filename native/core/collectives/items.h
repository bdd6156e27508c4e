// SPDX-License-Identifier: Apache-2.0
// Independent items: a job is a trivially copyable struct with `void operator()(int64_t item) const`, which a GPU thread runs
// for one item and a CPU thread for a range.
//
// An item may serve several channels (planes, lanes) at one position, so that what depends on the position is computed once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "core/platform.h"

namespace bk {

// job(item) for each item in [0, items), which touches about `bytes` of memory.
template <class Job>
Status run_items(const Launch& launch, int64_t items, int64_t bytes, const Job& job);

// Quotients of numbers below 2^50 by a launch constant: a product in f64, whose error is below 1, and a correction. A division
// of 64 bits would be a call on a GPU.
struct WideDiv {
    int64_t divisor = 1;
    double inverse = 1;

    WideDiv() = default;
    explicit WideDiv(int64_t by) : divisor(by > 0 ? by : 1), inverse(1.0 / static_cast<double>(divisor)) {}
    BK_HD int64_t operator()(int64_t n) const {
        const int64_t estimate = static_cast<int64_t>(static_cast<double>(n) * inverse), rest = n - estimate * divisor;
        return estimate - (rest < 0 ? 1 : 0) + (rest >= divisor ? 1 : 0);
    }
};

// Splits an item number into N indices, the last fastest.
template <int N>
struct ItemSplit {
    FastDiv<uint32_t> narrow[N];
    WideDiv wide[N];
    bool is_narrow = false;
    int64_t items = 0;

    static ItemSplit of(const int64_t (&extents)[N]) {
        ItemSplit split;
        split.items = 1;
        for (int d = 0; d < N; ++d) {
            split.wide[d] = WideDiv(extents[d]);
            split.items *= extents[d];
        }
        split.is_narrow = split.items < (int64_t{1} << 31);
        for (int d = 0; d < N && split.is_narrow; ++d) split.narrow[d] = FastDiv<uint32_t>(extents[d]);
        return split;
    }
    BK_HD void indices(int64_t item, int64_t (&index)[N]) const {
        if (is_narrow) {
            uint32_t rest = static_cast<uint32_t>(item);
            BK_UNROLL
            for (int d = N - 1; d > 0; --d) {
                const auto split = narrow[d](rest);
                index[d] = split.remainder;
                rest = split.quotient;
            }
            index[0] = rest;
        } else {
            BK_UNROLL
            for (int d = N - 1; d > 0; --d) {
                const int64_t rest = wide[d](item);
                index[d] = item - rest * wide[d].divisor;
                item = rest;
            }
            index[0] = item;
        }
    }
};

}  // namespace bk

#if BK_CUDA
#include "core/collectives/items_cuda.cuh"
#else
#include "core/collectives/items_cpu.h"
#endif

namespace bk {

// Channels in groups of at most kItemLanes. Those of a group are adjacent on the CPU, whose vectors they fill; on a GPU
// adjacent groups, which adjacent threads take, have adjacent channels.
struct LaneGroups {
    int64_t channels = 0, groups = 0;

    // Groups of at most `lanes`, and of as many as leave work for the whole chip.
    static LaneGroups of(int64_t channels, int64_t positions, int64_t lanes = kItemLanes) {
        while (lanes > 1 && ceil_div(channels, lanes) * positions < kFewestItems) lanes /= 2;
        return {channels, ceil_div(channels, lanes)};
    }
    BK_HD int64_t first(int64_t group) const { return kLanesAreAdjacent ? group * width() : group; }
    BK_HD int64_t step() const { return kLanesAreAdjacent ? 1 : groups; }
    BK_HD int lanes(int64_t group) const {
        if (!kLanesAreAdjacent) return static_cast<int>((channels - group + groups - 1) / groups);
        const int64_t rest = channels - first(group), each = width();
        return static_cast<int>(rest < 0 ? 0 : rest < each ? rest : each);
    }

private:
    BK_HD int64_t width() const { return (channels + groups - 1) / groups; }
};

// sum[lane] += weight * x[lane * pitch] in the accumulator's type.
template <class C, class T>
BK_HD void add_lanes(C (&sum)[kItemLanes], int lanes, C weight, const T* x, int64_t pitch) {
    if (kLanesAreAdjacent && pitch == 1)
        for_lanes(lanes, [&](int lane) { sum[lane] += weight * static_cast<C>(widen(x[lane])); });
    else
        for_lanes(lanes, [&](int lane) { sum[lane] += weight * static_cast<C>(widen(x[lane * pitch])); });
}

}  // namespace bk
