// SPDX-License-Identifier: Apache-2.0
// Copies rows of a dense y that are mostly one contiguous range of a row of x: pads, their gradients, triangles. A
// block computes the source range of each of its rows once, into shared memory; threads then write 16-byte vectors and
// look up the range by row.
#pragma once

#include <cstdint>

#include "core/copy/unaligned_vectors.cuh"
#include "core/math/fastdiv.h"
#include "core/platform.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kShiftedThreads = 256;
constexpr int kShiftedUnroll = 4;  // vectors of a thread in flight together
constexpr int kShiftedVectors = kShiftedThreads * kShiftedUnroll;
constexpr int kShiftedVectorsOfRow = 2;  // in a row, at least

struct ShiftedRows {
    FastDiv<uint32_t> extent;
    uint32_t begin = 0, end = 0;  // range of a row that is copied from x, for rows that have one
    AddressRange reach;           // of x, gaps included
    bool any = false;             // whether this path applies
};

// Element `along` of the row is x[start + along] for begin <= along < end.
struct ShiftedRow {
    int64_t start;
    uint32_t begin, end;
};

// Source ranges of the block's rows, in shared memory.
struct BlockRows {
    ShiftedRow row[kShiftedVectors / kShiftedVectorsOfRow + 2];

    // Fills the table with row_of(r); row 0 is that of the block's first element, whose index in it is `skipped`.
    template <class RowOf>
    BK_DEVICE void find(const ShiftedRows& rows, uint32_t skipped, uint32_t elements, const RowOf& row_of) {
        const uint32_t last = rows.extent(skipped + elements - 1).quotient;
        for (uint32_t r = threadIdx.x; r <= last; r += kShiftedThreads) row[r] = row_of(r);
        __syncthreads();
    }
};

// Stores the vectors of the block's `elements` at y that are contiguous in x; other(vector, row, along) gets each other
// vector, whose first element has index `along` in its row.
template <class Bits, class Other>
BK_DEVICE void copy_shifted(const ShiftedRows& rows, const BlockRows& found, uint32_t skipped, uint32_t elements, const Bits* x,
                            Bits* y, const Other& other) {
    constexpr uint32_t N = kVectorLanes<Bits>;
    const Bits* from[kShiftedUnroll];
    UnalignedVector around[kShiftedUnroll];
#pragma unroll
    for (int u = 0; u < kShiftedUnroll; ++u) {
        const uint32_t vector_index = threadIdx.x + u * kShiftedThreads;
        from[u] = nullptr;
        if (vector_index * N >= elements) continue;
        const DivMod<uint32_t> at = rows.extent(skipped + vector_index * N);
        const ShiftedRow row = found.row[at.quotient];
        if (at.remainder >= row.begin && at.remainder + N <= row.end && vector_index * N + N <= elements)
            from[u] = x + (row.start + at.remainder);
        if (from[u] != nullptr && !rows.reach.covers_aligned(from[u])) from[u] = nullptr;
        if (from[u] == nullptr) other(vector_index, row, at.remainder);
    }
#pragma unroll
    for (int u = 0; u < kShiftedUnroll; ++u)
        if (from[u] != nullptr) around[u].load_from(from[u]);
#pragma unroll
    for (int u = 0; u < kShiftedUnroll; ++u)
        if (from[u] != nullptr) store<N>(y + (threadIdx.x + u * kShiftedThreads) * N, around[u].elements<Bits>());
}

}  // namespace bk
