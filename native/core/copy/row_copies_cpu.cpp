// SPDX-License-Identifier: Apache-2.0
#include "core/copy/row_copies.h"

#include <cstring>

#include "core/copy/copy_row_cpu.h"

namespace bk {

namespace {

constexpr int64_t kShortRow = 256;         // bytes
constexpr int64_t kBlockBytes = 64 << 10;  // rows that several copies write alternately while they stay in cache

template <int64_t Bytes>
void copy_words(const RowCopy& copy, int64_t begin, int64_t end) {
    const char* from = copy.from + begin * copy.from_pitch;
    char* to = copy.to + begin * copy.to_pitch;
    for (int64_t row = begin; row < end; ++row, from += copy.from_pitch, to += copy.to_pitch) memcpy(to, from, Bytes);
}

void copy_rows(const RowCopy& copy, int64_t begin, int64_t end) {
    switch (copy.bytes) {
        case 1: return copy_words<1>(copy, begin, end);
        case 2: return copy_words<2>(copy, begin, end);
        case 4: return copy_words<4>(copy, begin, end);
        case 8: return copy_words<8>(copy, begin, end);
        case 16: return copy_words<16>(copy, begin, end);
        default: break;
    }
    for (int64_t row = begin; row < end; ++row)
        copy_row(copy.to + row * copy.to_pitch, copy.from + row * copy.from_pitch, static_cast<size_t>(copy.bytes));
}

// Copies bytes [begin, end) of the concatenated rows.
void copy_bytes(const RowCopy& copy, int64_t begin, int64_t end) {
    int64_t row = begin / copy.bytes, byte = begin % copy.bytes;
    const int64_t last = end / copy.bytes, tail = end % copy.bytes;
    const auto copy_range = [&](int64_t r, int64_t low, int64_t high) {
        copy_row(copy.to + r * copy.to_pitch + low, copy.from + r * copy.from_pitch + low, static_cast<size_t>(high - low));
    };
    if (row == last) return copy_range(row, byte, tail);
    if (byte > 0) copy_range(row++, byte, copy.bytes);
    copy_rows(copy, row, last);
    if (tail > 0) copy_range(last, 0, tail);
}

}  // namespace

Status copy_rows(const Launch&, const RowCopy* copies, int count) {
    int64_t ends[kMaxRowCopies], total = 0, row_bytes = 0;
    bool alternates = count > 1;
    for (int k = 0; k < count; ++k) {
        total += copies[k].rows * copies[k].bytes;
        row_bytes += copies[k].bytes;
        ends[k] = total;
        alternates = alternates && copies[k].rows == copies[0].rows && copies[k].rows > 1 && copies[k].bytes < kShortRow;
    }
    if (alternates) {
        const int64_t block = std::max<int64_t>(kBlockBytes / row_bytes, 1);
        split_ranges(copies[0].rows, grain_for(2 * row_bytes), [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; row += block)
                for (int k = 0; k < count; ++k) copy_rows(copies[k], row, std::min(row + block, end));
        });
        return Status::kOk;
    }
    split_ranges(total, grain_for(2), [&](int64_t begin, int64_t end) {
        int k = static_cast<int>(std::upper_bound(ends, ends + count, begin) - ends);
        while (begin < end) {
            const int64_t first = k > 0 ? ends[k - 1] : 0, until = std::min(end, ends[k]);
            copy_bytes(copies[k++], begin - first, until - first);
            begin = until;
        }
    });
    return Status::kOk;
}

}  // namespace bk
