// Rows of a dense y most of whose elements are a piece of a row of x: pads and their gradients, triangles. A block has
// neighbours in y. What its rows have of x is found once for a row; a thread then takes vectors of 16 bytes, which it looks up
// by the number of their row.
#pragma once

#include <cstdint>

#include "core/math/fastdiv.h"
#include "core/platform.h"
#include "core/pointwise/neighbours.cuh"
#include "core/types/vec.h"

namespace bk {

constexpr int kShiftedThreads = 256;
constexpr int kShiftedUnroll = 4;  // vectors of a thread that are in flight together
constexpr int kShiftedVectors = kShiftedThreads * kShiftedUnroll;
constexpr int kShiftedVectorsOfRow = 2;  // that a row has at least

struct ShiftedRows {
    FastDiv<uint32_t> extent;
    uint32_t begin = 0, end = 0;  // the elements of a row that are a piece of x's, where the row has one
    Reach reach;                  // of x
    bool any = false;             // whether rows are copied so
};

// The elements of a row that are a piece of x: number `along` is number start + along of x where begin <= along < end.
struct ShiftedRow {
    int64_t start;
    uint32_t begin, end;
};

// Of a block, in shared memory.
struct BlockRows {
    ShiftedRow row[kShiftedVectors / kShiftedVectorsOfRow + 2];

    // The block's first element is number `skipped` of its row; row_of(number), rows being counted from that one.
    template <class RowOf>
    BK_DEVICE void find(const ShiftedRows& rows, uint32_t skipped, uint32_t elements, const RowOf& row_of) {
        const uint32_t last = rows.extent(skipped + elements - 1).quotient;
        for (uint32_t number = threadIdx.x; number <= last; number += kShiftedThreads) row[number] = row_of(number);
        __syncthreads();
    }
};

// Stores the vectors of the block's `elements` at y that are neighbours in x; other(number, row, along) takes each one else,
// which begins with the element `along` of the row.
template <class Bits, class Other>
BK_DEVICE void copy_shifted(const ShiftedRows& rows, const BlockRows& found, uint32_t skipped, uint32_t elements, const Bits* x,
                            Bits* y, const Other& other) {
    constexpr uint32_t N = kVectorLanes<Bits>;
    const Bits* from[kShiftedUnroll];
    AroundVector around[kShiftedUnroll];
#pragma unroll
    for (int u = 0; u < kShiftedUnroll; ++u) {
        const uint32_t number = threadIdx.x + u * kShiftedThreads;
        from[u] = nullptr;
        if (number * N >= elements) continue;
        const DivMod<uint32_t> at = rows.extent(skipped + number * N);
        const ShiftedRow row = found.row[at.quotient];
        if (at.remainder >= row.begin && at.remainder + N <= row.end && number * N + N <= elements)
            from[u] = x + (row.start + at.remainder);
        if (from[u] != nullptr && !rows.reach.has_around(from[u])) from[u] = nullptr;
        if (from[u] == nullptr) other(number, row, at.remainder);
    }
#pragma unroll
    for (int u = 0; u < kShiftedUnroll; ++u)
        if (from[u] != nullptr) around[u].load_from(from[u]);
#pragma unroll
    for (int u = 0; u < kShiftedUnroll; ++u)
        if (from[u] != nullptr) store<N>(y + (threadIdx.x + u * kShiftedThreads) * N, around[u].elements<Bits>());
}

}  // namespace bk
