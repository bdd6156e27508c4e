// Many copies of rows of bytes in one launch: what joins tensors and takes them apart.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/copies.h"
#include "core/pointwise/layout.h"

namespace bk {

// Rows of `bytes` bytes each, at least one; pitches count bytes and have any sign.
struct RowCopy {
    const char* from;
    char* to;
    int64_t rows, bytes, from_pitch, to_pitch;
};

constexpr int kMostRowCopies = 64;  // of a launch, whose arguments hold them by value

// Copies of which none writes what another one reads or writes; `count` is at most kMostRowCopies.
Status copy_rows(const Launch& launch, const RowCopy* copies, int count);

// Strided copies of elements of `bytes` bytes: those that are rows of neighbours, or one element after another, go together
// in launches of kMostRowCopies, others have one each.
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
        return add_part(copy);
    }

    Status flush() {
        const int count = count_;
        count_ = 0;
        return count == 0 ? Status::kOk : copy_rows(launch_, copies_, count);
    }

private:
    // In pieces whose bytes can be numbered in 31 bits.
    Status add_part(RowCopy copy) {
        constexpr int64_t kMost = int64_t{1} << 30;
        const int64_t piece_bytes = std::min(copy.bytes, kMost), piece_rows = std::max<int64_t>(kMost / piece_bytes, 1);
        for (int64_t row = 0; row < copy.rows; row += piece_rows)
            for (int64_t byte = 0; byte < copy.bytes; byte += piece_bytes) {
                if (count_ == kMostRowCopies) BK_TRY(flush());
                copies_[count_++] = {copy.from + row * copy.from_pitch + byte,
                                     copy.to + row * copy.to_pitch + byte,
                                     std::min(piece_rows, copy.rows - row),
                                     std::min(piece_bytes, copy.bytes - byte),
                                     copy.from_pitch,
                                     copy.to_pitch};
            }
        return Status::kOk;
    }

    Launch launch_;
    int bytes_, count_ = 0;
    RowCopy copies_[kMostRowCopies];
};

}  // namespace bk
