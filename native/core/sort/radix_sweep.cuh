// SPDX-License-Identifier: Apache-2.0
// Rows of any length: a radix sort over the device, least significant digit first, that reads and writes the elements
// once a pass (Adinets and Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs", 2022).
//
// One kernel counts the digits of all passes for each row. In a pass, tiles take tickets, rank their digits, publish the
// counts, and find those of earlier tiles by decoupled look-back; then they scatter through shared memory. Tiles are of
// one row, so rows need not be equal parts of the work. A published word is a phase, which grows from pass to pass, above
// a count of 56 bits, so it needs neither a fence nor to be cleared between passes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/workspace.h"
#include "core/platform.h"
#include "core/sort/rank_digits.cuh"
#include "core/sort/sort_operands.cuh"

namespace bk {

constexpr int kSweepThreads = 256, kSweepItems = 16, kSweepTile = kSweepThreads * kSweepItems;
constexpr int kCountedItems = 64;  // of a thread of the counting kernel
static_assert(kSweepThreads == kDigits, "each thread looks one digit up");

// No indices are wanted.
struct NoIndex {};

template <class Index>
constexpr int64_t kIndexBytes = std::is_same_v<Index, NoIndex> ? 0 : static_cast<int64_t>(sizeof(Index));

// The workspace of a sweep.
struct SweepBuffers {
    void* elements[2];
    void* indices[2];
    uint64_t* counts;     // [row][pass][digit]
    uint64_t* published;  // [tile][digit]
    uint32_t* tickets;    // [pass]
    uint64_t cleared;     // bytes from counts on
};

template <class Bits>
struct SweepShape {
    static constexpr int kPasses = static_cast<int>(sizeof(Bits));
    int64_t rows, length, tiles;  // tiles of a row

    explicit SweepShape(const SortProblem& problem)
        : rows(problem.rows.numel()), length(problem.length), tiles(ceil_div<int64_t>(problem.length, kSweepTile)) {}

    SweepBuffers carve(Carver* carver, int64_t index_bytes) const {
        SweepBuffers buffers{};
        buffers.counts = carver->take<uint64_t>(rows * kPasses * kDigits);
        buffers.published = carver->take<uint64_t>(rows * tiles * kDigits);
        buffers.tickets = carver->take<uint32_t>(kPasses);
        buffers.cleared = carver->bytes();
        for (int i = 0; i < (kPasses > 2 ? 2 : 1); ++i) {
            buffers.elements[i] = carver->take<Bits>(rows * length);
            buffers.indices[i] = carver->take<char>(rows * length * index_bytes);
        }
        return buffers;
    }
};

template <class Bits>
__global__ void __launch_bounds__(kSweepThreads)
    count_digits_kernel(SortOperands operands, KeyOrder<Bits> order, uint64_t* counts, int64_t parts) {
    constexpr int kPasses = SweepShape<Bits>::kPasses;
    __shared__ uint32_t counters[kPasses][kDigits];
    for (int pass = 0; pass < kPasses; ++pass) counters[pass][threadIdx.x] = 0;
    __syncthreads();
    const int64_t number = blockIdx.x / parts, first = blockIdx.x % parts * kSweepThreads * kCountedItems;
    const SortRow row = sort_row(operands, number);
    const Bits* const x = static_cast<const Bits*>(operands.pointer.x);
    const int64_t last = min(operands.length, first + kSweepThreads * kCountedItems);
#pragma unroll 4
    for (int64_t i = first + threadIdx.x; i < last; i += kSweepThreads) {
        const Bits key = order(x[row.at(operands, kSortX, i)]);
#pragma unroll
        for (int pass = 0; pass < kPasses; ++pass) atomicAdd(&counters[pass][digit_of(key, pass * kDigitBits)], 1u);
    }
    __syncthreads();
    for (int pass = 0; pass < kPasses; ++pass) {
        const uint32_t count = counters[pass][threadIdx.x];
        unsigned long long* const total =
            reinterpret_cast<unsigned long long*>(counts + (number * kPasses + pass) * kDigits + threadIdx.x);
        if (count != 0) atomicAdd(total, static_cast<unsigned long long>(count));
    }
}

// One pass. The first one reads the operands, the last one writes them; the others have dense rows of the buffers.
template <class Bits>
struct SweepPass {
    const Bits* elements;
    Bits* sorted_elements;
    const void* indices;
    void* sorted_indices;
    const uint64_t* counts;
    uint64_t* published;
    uint32_t* ticket;
    int64_t tiles;
    int pass;
    bool is_first, is_last;  // makes the indices; writes the operands
    bool is_dense;           // reads a buffer
};

// Elements of x as dense rows.
template <class Bits>
__global__ void __launch_bounds__(kSweepThreads) copy_sort_rows_kernel(SortOperands operands, Bits* to, int64_t parts) {
    const int64_t number = blockIdx.x / parts, i = blockIdx.x % parts * kSweepThreads + threadIdx.x;
    if (i < operands.length)
        to[number * operands.length + i] =
            static_cast<const Bits*>(operands.pointer.x)[sort_row(operands, number).at(operands, kSortX, i)];
}

// The exclusive prefix sum over the threads of the block.
BK_DEVICE uint64_t sum_before(uint64_t own, uint64_t* of_warps) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    uint64_t sum = own;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const uint64_t below = __shfl_up_sync(0xffffffffu, sum, distance);
        if (lane >= distance) sum += below;
    }
    if (lane == 31) of_warps[warp] = sum;
    __syncthreads();
    sum -= own;
    for (int w = 0; w < warp; ++w) sum += of_warps[w];
    return sum;
}

// The elements of this digit in earlier tiles of the row; publishes `count`, and the sum with it.
BK_DEVICE uint64_t look_back(uint64_t* published, int64_t row_tiles_before, int pass, uint64_t count) {
    constexpr int kPhaseShift = 56;
    const uint64_t has_count = static_cast<uint64_t>(2 * pass + 1), has_sum = has_count + 1;
    constexpr uint64_t kCount = (uint64_t{1} << kPhaseShift) - 1;
    volatile uint64_t* const own = published;
    if (row_tiles_before > 0) *own = has_count << kPhaseShift | count;
    uint64_t before = 0;
    for (int64_t k = 1; k <= row_tiles_before; ++k) {
        const volatile uint64_t* const other = published - k * kDigits;
        uint64_t word;
        do word = *other;
        while (word >> kPhaseShift < has_count);
        before += word & kCount;
        if (word >> kPhaseShift == has_sum) break;
    }
    *own = has_sum << kPhaseShift | (before + count);
    return before;
}

template <class Index, class Bits>
__global__ void __launch_bounds__(kSweepThreads)
    radix_sweep_kernel(SortOperands operands, KeyOrder<Bits> order, SweepPass<Bits> p) {
    constexpr bool kHasIndex = !std::is_same_v<Index, NoIndex>;
    constexpr int kWarps = kSweepThreads / 32;
    constexpr int64_t kWidest = sizeof(Bits) > kIndexBytes<Index> ? sizeof(Bits) : kIndexBytes<Index>;
    __shared__ uint4 exchange[kSweepTile * kWidest / 16];
    __shared__ uint32_t counters[kWarps][kDigits], starts[kDigits];
    __shared__ uint64_t bases[kDigits], of_warps[kWarps];
    __shared__ uint32_t ticket;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int shift = p.pass * kDigitBits;

    if (thread == 0) ticket = atomicAdd(p.ticket, 1u);
    for (int w = 0; w < kWarps; ++w) counters[w][thread] = 0;
    __syncthreads();
    const int64_t number = ticket / p.tiles, tile = ticket % p.tiles, first = tile * kSweepTile;
    const int valid = static_cast<int>(min(int64_t{kSweepTile}, operands.length - first));
    const SortRow row = sort_row(operands, number);
    const int own = warp * 32 * kSweepItems + lane;

    const int64_t from = p.is_dense ? number * operands.length + first : row.at(operands, kSortX, first);
    const int64_t from_step = p.is_dense ? 1 : operands.step[kSortX];
    Bits element[kSweepItems];
#pragma unroll
    for (int k = 0; k < kSweepItems; ++k)
        element[k] = own + 32 * k < valid ? p.elements[from + (own + 32 * k) * from_step] : Bits{0};
    uint16_t rank[kSweepItems];
#pragma unroll
    for (int k = 0; k < kSweepItems; ++k)
        rank[k] = static_cast<uint16_t>(rank_digit(counters[warp], digit_of(order(element[k]), shift), own + 32 * k < valid));
    __syncthreads();

    // Thread d looks digit d up.
    uint32_t count = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
        const uint32_t of_warp = counters[w][thread];
        counters[w][thread] = count;
        count += of_warp;
    }
    const uint64_t in_row = p.counts[(number * SweepShape<Bits>::kPasses + p.pass) * kDigits + thread];
    // One sum for both: counts of a row are below 2^47, those of a tile below 2^16.
    const uint64_t smaller = sum_before(in_row << 16 | count, of_warps);
    const uint32_t start = static_cast<uint32_t>(smaller & 0xffff);
    starts[thread] = start;
    bases[thread] =
        (smaller >> 16) + look_back(p.published + (number * p.tiles + tile) * kDigits + thread, tile, p.pass, count) - start;
    __syncthreads();

    Bits* const elements = reinterpret_cast<Bits*>(exchange);
#pragma unroll
    for (int k = 0; k < kSweepItems; ++k) {
        const uint32_t digit = digit_of(order(element[k]), shift);
        rank[k] = static_cast<uint16_t>(rank[k] + starts[digit] + counters[warp][digit]);
        if (own + 32 * k < valid) elements[rank[k]] = element[k];
    }
    __syncthreads();
    using Position = std::conditional_t<std::is_same_v<Index, uint32_t>, uint32_t, uint64_t>;
    Position to[kSweepItems];
#pragma unroll
    for (int k = 0; k < kSweepItems; ++k) {
        const int at = thread + kSweepThreads * k;
        if (at >= valid) continue;
        const Bits sorted = elements[at];
        to[k] = static_cast<Position>(bases[digit_of(order(sorted), shift)] + static_cast<uint64_t>(at));
        if (p.is_last) {
            if (p.sorted_elements != nullptr)
                p.sorted_elements[row.at(operands, kSortValues, static_cast<int64_t>(to[k]))] = sorted;
        } else {
            p.sorted_elements[number * operands.length + static_cast<int64_t>(to[k])] = sorted;
        }
    }
    if constexpr (kHasIndex) {
        Index* const indices = reinterpret_cast<Index*>(exchange);
        const Index* const given = static_cast<const Index*>(p.indices) + number * operands.length + first;
        Index index[kSweepItems];
#pragma unroll
        for (int k = 0; k < kSweepItems; ++k) {
            if (own + 32 * k >= valid) continue;
            index[k] = p.is_first ? static_cast<Index>(row.payload(operands, first + own + 32 * k)) : given[own + 32 * k];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kSweepItems; ++k)
            if (own + 32 * k < valid) indices[rank[k]] = index[k];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kSweepItems; ++k) {
            const int at = thread + kSweepThreads * k;
            if (at >= valid) continue;
            if (p.is_last)
                row.store_index(operands, static_cast<int64_t>(to[k]), indices[at]);
            else
                static_cast<Index*>(p.sorted_indices)[number * operands.length + static_cast<int64_t>(to[k])] = indices[at];
        }
    }
}

template <class Index, class Bits>
Status run_sweeps(const Launch& launch, const SortOperands& operands, const SortProblem& problem, const SweepBuffers& buffers) {
    constexpr int kPasses = SweepShape<Bits>::kPasses;
    const SweepShape<Bits> shape(problem);
    const KeyOrder<Bits> order = problem.order<Bits>();
    const Bits* const x = static_cast<const Bits*>(operands.pointer.x);
    const int64_t parts = ceil_div<int64_t>(shape.length, kSweepThreads * kCountedItems);
    BK_TRY(launch_kernel(launch, {dim3(static_cast<unsigned>(shape.rows * parts)), dim3(kSweepThreads)},
                         count_digits_kernel<Bits>, operands, order, buffers.counts, parts));
    const Grid grid{dim3(static_cast<unsigned>(shape.rows * shape.tiles)), dim3(kSweepThreads)};
    // A single pass that writes what it reads goes by a copy.
    const bool copies = kPasses == 1 && operands.pointer.values == operands.pointer.x;
    if (copies) {
        const int64_t blocks = ceil_div<int64_t>(shape.length, kSweepThreads);
        BK_TRY(launch_kernel(launch, {dim3(static_cast<unsigned>(shape.rows * blocks)), dim3(kSweepThreads)},
                             copy_sort_rows_kernel<Bits>, operands, buffers.elements[0], blocks));
    }
    for (int pass = 0; pass < kPasses; ++pass) {
        const bool is_first = pass == 0, is_last = pass + 1 == kPasses;
        const int to = pass % 2, from = is_first ? 0 : 1 - to;
        const SweepPass<Bits> p{is_first && !copies ? x : static_cast<const Bits*>(buffers.elements[from]),
                                static_cast<Bits*>(is_last ? operands.pointer.values : buffers.elements[to]),
                                is_first ? nullptr : buffers.indices[from],
                                is_last ? nullptr : buffers.indices[to],
                                buffers.counts,
                                buffers.published,
                                buffers.tickets + pass,
                                shape.tiles,
                                pass,
                                is_first,
                                is_last,
                                !is_first || copies};
        BK_TRY(launch_kernel(launch, grid, radix_sweep_kernel<Index, Bits>, operands, order, p));
    }
    return Status::kOk;
}

}  // namespace bk
