// SPDX-License-Identifier: Apache-2.0
// Threads take ranges of rows with a bitmap on the stack, and read all indices for each range: O(indices * ranges).
// Fewer indices than ranges are compared with their predecessors instead.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/gather/distinct_rows.h"

namespace bk {

constexpr int64_t kBitmapRows = int64_t{1} << 16;  // per range: 8 KiB of bits

template <class I, class Job>
Status run_distinct_rows(const Launch&, const I* indices, int64_t count, int64_t rows, int64_t bytes, const Job& job) {
    const Team alone{nullptr};
    const int64_t ranges = std::max(ceil_div(rows, kBitmapRows), std::min(thread_count(), rows));
    if (count < ranges) {
        parallel_chunks(count, grain_for(bytes), [&](int64_t begin, int64_t end) {
            for (int64_t k = begin; k < end; ++k) {
                const int64_t row = static_cast<int64_t>(indices[k]);
                if (row >= 0 && row < rows && std::find(indices, indices + k, indices[k]) == indices + k) job(alone, row);
            }
        });
        return Status::kOk;
    }
    const int64_t length = ceil_div(rows, ranges);
    parallel_chunks(ranges, grain_for(bytes * ceil_div(count, ranges)), [&](int64_t begin, int64_t end) {
        uint64_t marked[kBitmapRows / 64];
        for (int64_t range = begin; range < end; ++range) {
            const int64_t first = range * length;
            const uint64_t valid = static_cast<uint64_t>(std::clamp<int64_t>(rows - first, 0, length));
            std::fill_n(marked, ceil_div<int64_t>(length, 64), uint64_t{0});
            for (int64_t k = 0; k < count; ++k) {
                const uint64_t offset = static_cast<uint64_t>(indices[k]) - static_cast<uint64_t>(first);
                if (offset >= valid) continue;
                uint64_t& word = marked[offset / 64];
                const uint64_t bit = uint64_t{1} << offset % 64;
                if ((word & bit) != 0) continue;
                word |= bit;
                job(alone, first + static_cast<int64_t>(offset));
            }
        }
    });
    return Status::kOk;
}

}  // namespace bk
