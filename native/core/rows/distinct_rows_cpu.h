// Threads take ranges of rows, whose bits they have on the stack, and read all indices for each: time that grows with
// the indices times the ranges. For fewer indices than ranges each is compared with those before it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/rows/distinct_rows.h"

namespace bk {

constexpr int64_t kMarkedRows = int64_t{1} << 16;  // of a range: 8 KiB of bits

template <class I, class Job>
Status run_distinct_rows(const Launch&, const I* indices, int64_t count, int64_t rows, int64_t bytes, const Job& job) {
    const Team alone{nullptr};
    const int64_t ranges = std::max(ceil_div(rows, kMarkedRows), std::min(thread_count(), rows));
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
        uint64_t marked[kMarkedRows / 64];
        for (int64_t range = begin; range < end; ++range) {
            const int64_t first = range * length;
            const uint64_t some = static_cast<uint64_t>(std::clamp<int64_t>(rows - first, 0, length));
            std::fill_n(marked, ceil_div<int64_t>(length, 64), uint64_t{0});
            for (int64_t k = 0; k < count; ++k) {
                const uint64_t place = static_cast<uint64_t>(indices[k]) - static_cast<uint64_t>(first);
                if (place >= some) continue;
                uint64_t& word = marked[place / 64];
                const uint64_t bit = uint64_t{1} << place % 64;
                if ((word & bit) != 0) continue;
                word |= bit;
                job(alone, first + static_cast<int64_t>(place));
            }
        }
    });
    return Status::kOk;
}

}  // namespace bk
