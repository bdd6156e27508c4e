// SPDX-License-Identifier: Apache-2.0
// CPU select: tiles are counted in parallel, then written from their exclusive prefix on; a single thread does both at
// once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/select/select_indices.h"

namespace bk {

constexpr int64_t kSelectBlock = 1024;  // indices that are written together
constexpr int64_t kMinSelectTile = 32768;
constexpr int64_t kMaxSelectTiles = 256;

inline size_t select_workspace(int64_t) { return 0; }

// Ranks of the indices of one block; `selected` are offsets from `first`.
template <class Sink>
BK_HD void write_ranks(const Sink& sink, int64_t rank, int64_t first, int64_t length, const uint16_t* selected,
                       int64_t selected_count) {
    int64_t k = 0;
    for (int64_t i = 0; i <= selected_count; ++i) {
        const int64_t end = i < selected_count ? selected[i] : length;
        for (; k < end; ++k) sink.ranked(first + k, rank + i);
    }
}

template <class Predicate, class Sink>
BK_HD int64_t write_selected(const Predicate& predicate, const Sink& sink, int64_t rank, int64_t begin, int64_t end) {
    uint16_t selected[kSelectBlock];
    for (int64_t first = begin; first < end; first += kSelectBlock) {
        const int64_t length = std::min(kSelectBlock, end - first);
        int64_t selected_count = 0;
        for (int64_t k = 0; k < length; ++k) {
            selected[selected_count] = static_cast<uint16_t>(k);
            selected_count += predicate.at(first + k);
        }
        for (int64_t k = 0; k < selected_count; ++k) sink(rank + k, first + selected[k]);
        if constexpr (kTakesRanks<Sink>) {
            if (sink.takes_ranks()) write_ranks(sink, rank, first, length, selected, selected_count);
        }
        rank += selected_count;
    }
    return rank;
}

template <class Predicate, class Sink>
Status select_indices(const Launch&, int64_t count, const Predicate& predicate, const Sink& sink) {
    const int64_t size = std::max(kMinSelectTile, ceil_div(count, kMaxSelectTiles)), tiles = ceil_div(count, size);
    if (tiles <= 1 || thread_count() == 1) {
        int64_t selected_count = 0;
        dispatch_range([&](int64_t begin, int64_t end) { selected_count = write_selected(predicate, sink, 0, begin, end); }, 0,
                       count);
        sink.total(selected_count);
        return Status::kOk;
    }
    int64_t before[kMaxSelectTiles];
    parallel_ranges(tiles, 1, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
            int64_t selected_count = 0;
            for (int64_t index = c * size; index < std::min(count, (c + 1) * size); ++index)
                selected_count += predicate.at(index);
            before[c] = selected_count;
        }
    });
    int64_t total = 0;
    for (int64_t c = 0; c < tiles; ++c) {
        const int64_t selected_count = before[c];
        before[c] = total;
        total += selected_count;
    }
    parallel_ranges(tiles, 1, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c)
            write_selected(predicate, sink, before[c], c * size, std::min(count, (c + 1) * size));
    });
    sink.total(total);
    return Status::kOk;
}

}  // namespace bk
