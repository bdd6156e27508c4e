// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "indexing/one_hot.h"

namespace bk {

template <class Bits, class I>
Status one_hot(const Launch&, int64_t numel, int32_t classes, const I* src, Bits* out, const Bits& one) {
    const auto row_bytes = static_cast<int64_t>(sizeof(Bits)) * classes;
    parallel_ranges(ceil_div<int64_t>(numel, classes), grain_for(row_bytes), [&](int64_t begin, int64_t end) {
        // Clears a few rows at a time, so that they are in cache when the ones are written.
        const int64_t step = std::max<int64_t>(1, 16384 / row_bytes);
        for (int64_t row = begin; row < end; row += step) {
            const int64_t last = std::min(row + step, end), first = row * classes, until = std::min(last * classes, numel);
            memset(out + first, 0, sizeof(Bits) * static_cast<size_t>(until - first));
            for (int64_t r = row; r < last; ++r) {
                const auto id = static_cast<int64_t>(src[r]);
                if (id >= 0 && id < classes && r * classes + id < numel) out[r * classes + id] = one;
            }
        }
    });
    return Status::kOk;
}

}  // namespace bk
