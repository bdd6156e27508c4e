// SPDX-License-Identifier: Apache-2.0
// Batched copies of rows of bytes, up to kMaxRowCopies in one launch: concat, stack and split.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/copy/copies.h"
#include "core/layout/layout.h"

namespace bk {

// rows >= 1; pitches are in bytes and have any sign.
struct RowCopy {
    const char* from;
    char* to;
    int64_t rows, bytes, from_pitch, to_pitch;
};

constexpr int kMaxRowCopies = 64;  // per launch; kernel arguments hold them by value

// Destinations overlap no other copy's source or destination; `count` is at most kMaxRowCopies.
Status copy_rows(const Launch& launch, const RowCopy* copies, int count);

// Collects strided copies of elements of `bytes` bytes. Copies that are rows of adjacent or of single elements are
// batched, kMaxRowCopies a launch; others get a launch each.
class CopyBatch {
public:
    CopyBatch(const Launch& launch, int bytes) : launch_(launch), bytes_(bytes) {}

    Status add(const CopyLayout& given, const void* x, void* y) {
        if (given.is_empty()) return Status::kOk;
        const CopyLayout layout = collapse(given);
        const int last = layout.rank - 1;
        const bool is_dense = last >= 0 && layout.stride[0][last] == 1 && layout.stride[1][last] == 1;
        if (layout.rank > 1 + is_dense) return copy_strided(launch_, layout, bytes_, x, y);
        const int rows = is_dense ? last - 1 : last;
        RowCopy copy{static_cast<const char*>(x), static_cast<char*>(y), 1, bytes_, 0, 0};
        if (is_dense) copy.bytes *= layout.extent[last];
        if (rows >= 0) {
            copy.rows = layout.extent[rows];
            copy.to_pitch = layout.stride[0][rows] * bytes_;
            copy.from_pitch = layout.stride[1][rows] * bytes_;
        }
        return add_tiles(copy);
    }

    Status flush() {
        const int count = count_;
        count_ = 0;
        return count == 0 ? Status::kOk : copy_rows(launch_, copies_, count);
    }

private:
    // Splits a copy into tiles whose bytes can be counted in 31 bits.
    Status add_tiles(RowCopy copy) {
        constexpr int64_t kMost = int64_t{1} << 30;
        const int64_t tile_bytes = std::min(copy.bytes, kMost), tile_rows = std::max<int64_t>(kMost / tile_bytes, 1);
        for (int64_t row = 0; row < copy.rows; row += tile_rows)
            for (int64_t byte = 0; byte < copy.bytes; byte += tile_bytes) {
                if (count_ == kMaxRowCopies) BK_TRY(flush());
                copies_[count_++] = {copy.from + row * copy.from_pitch + byte,
                                     copy.to + row * copy.to_pitch + byte,
                                     std::min(tile_rows, copy.rows - row),
                                     std::min(tile_bytes, copy.bytes - byte),
                                     copy.from_pitch,
                                     copy.to_pitch};
            }
        return Status::kOk;
    }

    Launch launch_;
    int bytes_, count_ = 0;
    RowCopy copies_[kMaxRowCopies];
};

}  // namespace bk
