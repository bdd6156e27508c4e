// SPDX-License-Identifier: Apache-2.0
// Nearest neighbours on the CPU, row by row of results. Indices along a row are looked up once for all rows, and a row whose
// source is that of the one before is copied from it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/compiler_cpu.h"
#include "core/row/parallel_rows_cpu.h"
#include "image/resample/image_rows_cpu.h"

namespace bk::image {

template <class Bits>
struct RowCopies {
    const Bits* x;
    Bits* y;
    ImageLayout from, to;
    const SampleAxis* axis;

    Status run() const {
        const ImageRows rows = ImageRows::of(from, to);
        const int64_t bytes = to.extent[4] * rows.elements() * static_cast<int64_t>(2 * sizeof(Bits));
        parallel_rows(rows.count, grain_for(bytes), [&](int64_t begin, int64_t end) { copy(rows, begin, end); });
        return Status::kOk;
    }

private:
    static constexpr int kIndices = 2048;

    BK_COLD void fill(int64_t first, int64_t end, int lanes, int32_t* index) const {
        for (int64_t p = first; p < end; ++p) {
            const int64_t source = axis[2].row(p).first;
            for (int channel = 0; channel < lanes; ++channel) *index++ = static_cast<int32_t>(source * lanes + channel);
        }
    }
    BK_HD void copy(const ImageRows& rows, int64_t begin, int64_t end) const {
        int32_t index[kIndices];
        const int64_t most = kIndices / rows.lanes, step = rows.lanes > 1 ? 1 : from.stride[4];
        for (int64_t first = 0; first < to.extent[4]; first += most) {
            const int64_t last = std::min(first + most, to.extent[4]), count = (last - first) * rows.lanes;
            fill(first, last, rows.lanes, index);
            const Bits *before = nullptr, *copied = nullptr;
            for (RowOfImage at(rows, begin); at.number < end; at.next(rows)) {
                const Bits* const row = x + at.n * from.stride[0] + at.c * from.stride[1] +
                                        axis[0].row(at.z).first * from.stride[2] + axis[1].row(at.y).first * from.stride[3];
                Bits* const result = y + at.n * to.stride[0] + at.c * to.stride[1] + at.z * to.stride[2] + at.y * to.stride[3] +
                                     first * (rows.lanes > 1 ? rows.lanes : to.stride[4]);
                if (rows.has_channels) {
                    for (int64_t p = 0; p < count; ++p)
                        copy_row(row + index[p] * from.stride[4], result + p * to.stride[4], to.extent[1]);
                } else if (!rows.is_dense) {
                    for (int64_t e = 0; e < count; ++e) result[e * to.stride[4]] = row[index[e] * step];
                } else if (row == before) {
                    copy_row(copied, result, count);
                } else if (step == 1) {
                    BK_VECTOR_LOOP
                    for (int64_t e = 0; e < count; ++e) result[e] = row[index[e]];
                } else {
                    for (int64_t e = 0; e < count; ++e) result[e] = row[index[e] * step];
                }
                before = row, copied = result;
            }
        }
    }
    BK_HD static void copy_row(const Bits* row, Bits* result, int64_t count) {
        BK_VECTOR_LOOP
        for (int64_t e = 0; e < count; ++e) result[e] = row[e];
    }
};

}  // namespace bk::image
