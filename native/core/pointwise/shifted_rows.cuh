// Rows of a dense y most of whose elements are a piece of a row of x: pads, and their gradients. A block has neighbours in y.
// Where the rows of x begin is found once for a row of the block; a thread then takes vectors of 16 bytes, which it looks up
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

// The element `along` of a row is one of x where begin <= along < begin + length: number along + start of the row there is
// of x, with a `start` for each row.
struct ShiftedRows {
    FastDiv<uint32_t> extent;
    uint32_t begin = 0, length = 0;
    uint32_t first_elements = 0;  // from `begin` on, with which a vector can begin whose elements all are of x
    Reach reach;                  // of x
    bool any = false;             // whether rows are copied so

    ShiftedRows() = default;
    ShiftedRows(int64_t elements_of_row, int64_t from, int64_t until, int lanes, const Reach& of_x)
        : extent(elements_of_row), reach(of_x) {
        if (until <= from) return;
        begin = static_cast<uint32_t>(from), length = static_cast<uint32_t>(until - from);
        if (until - from >= lanes) first_elements = static_cast<uint32_t>(until - from - lanes + 1);
    }
};

// Of the rows of a block, in shared memory.
struct RowStarts {
    static constexpr int64_t kNone = INT64_MIN;  // of a row that is no copy
    int64_t start[kShiftedVectors / kShiftedVectorsOfRow + 2];

    // The block's first element is number `skipped` of its row; start_of(row), rows being counted from that one.
    template <class StartOf>
    BK_DEVICE void find(const ShiftedRows& rows, uint32_t skipped, uint32_t elements, const StartOf& start_of) {
        const uint32_t last = rows.extent(skipped + elements - 1).quotient;
        for (uint32_t row = threadIdx.x; row <= last; row += kShiftedThreads) start[row] = start_of(row);
        __syncthreads();
    }
};

// Stores the vectors of the block's `elements` at y that are neighbours in x; other(number, start, along) takes each one else,
// which begins with the element `along` of a row with that start.
template <class Bits, class Other>
BK_DEVICE void copy_shifted(const ShiftedRows& rows, const RowStarts& starts, uint32_t skipped, uint32_t elements,
                            const Bits* x, Bits* y, const Other& other) {
    constexpr uint32_t N = kVectorLanes<Bits>;
    const Bits* from[kShiftedUnroll];
    AroundVector around[kShiftedUnroll];
#pragma unroll
    for (int u = 0; u < kShiftedUnroll; ++u) {
        const uint32_t number = threadIdx.x + u * kShiftedThreads;
        from[u] = nullptr;
        if (number * N >= elements) continue;
        const DivMod<uint32_t> at = rows.extent(skipped + number * N);
        const int64_t start = starts.start[at.quotient];
        if (start != RowStarts::kNone && at.remainder - rows.begin < rows.first_elements && number * N + N <= elements)
            from[u] = x + (start + at.remainder);
        if (from[u] != nullptr && !rows.reach.has_around(from[u])) from[u] = nullptr;
        if (from[u] == nullptr) other(number, start, at.remainder);
    }
#pragma unroll
    for (int u = 0; u < kShiftedUnroll; ++u)
        if (from[u] != nullptr) around[u].load_from(from[u]);
#pragma unroll
    for (int u = 0; u < kShiftedUnroll; ++u)
        if (from[u] != nullptr) store<N>(y + (threadIdx.x + u * kShiftedThreads) * N, around[u].elements<Bits>());
}

}  // namespace bk
