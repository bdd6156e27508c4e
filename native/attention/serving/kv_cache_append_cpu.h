// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "attention/serving/kv_cache_append.h"

namespace bk {

// The rows of a plane that fit the cache are contiguous in source and cache, so they are one memcpy.
inline Status append_rows(const Launch&, const CacheShape& shape, const int64_t* offsets, const CacheRows (&both)[2]) {
    const int64_t row_bytes = both[0].row_bytes + both[1].row_bytes;
    parallel_ranges(shape.rows(), grain_for(2 * row_bytes), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end;) {
            const int64_t plane = row / shape.new_len, first = row % shape.new_len;
            const int64_t count = std::min(shape.new_len - first, end - row);
            const int64_t offset = offsets[plane / shape.heads];
            // No row fits at such an offset; sums with any other offset fit 64 bits.
            const bool none_fit = offset <= -shape.new_len || offset >= shape.max_len;
            const int64_t low = none_fit ? first : std::max(first, -offset);
            const int64_t high = none_fit ? first : std::min(first + count, shape.max_len - offset);
            if (low < high)
                for (const CacheRows& rows : both) {
                    if (rows.row_bytes == 0) continue;
                    memcpy(rows.cache + (plane * shape.max_len + offset + low) * rows.row_bytes,
                           rows.source + (plane * shape.new_len + low) * rows.row_bytes,
                           static_cast<size_t>((high - low) * rows.row_bytes));
                }
            row += count;
        }
    });
    return Status::kOk;
}

}  // namespace bk
