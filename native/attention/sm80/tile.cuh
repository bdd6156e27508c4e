// SPDX-License-Identifier: Apache-2.0
// Tiles of 16-bit elements in shared memory for the attention kernels of mma.sync, and their fragments.
//
// A tile has kWidth elements a row, in 16-byte vectors that are XOR-swizzled so that the eight rows of an ldmatrix matrix
// lie in different banks. Rows are zero-filled from their width on, and rows that are not there are zeros.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/intrinsics/tensor_core.cuh"
#include "core/types/vec.h"

namespace bk::sm80 {

constexpr int kVector = 8;  // elements of 16 bytes
constexpr unsigned kAllLanes = ~0u;

// Byte offset of a vector in a tile whose rows have kVectors vectors.
template <int kVectors>
BK_DEVICE int swizzled(int row, int vector) {
    static_assert(kVectors % 4 == 0, "rows of whole groups of four vectors");
    const int flipped = kVectors % 8 == 0 ? vector ^ (row & 7) : vector ^ (row >> 1 & 3);
    return (row * kVectors + flipped) * 16;
}

template <int kWidth>
BK_DEVICE int tile_offset(int row, int vector) {
    return swizzled<kWidth / kVector>(row, vector);
}

template <int kRows, int kWidth>
constexpr int kTileBytes = kRows * kWidth * 2;

// Rows of an operand are read 16 bytes at a time by cp.async if this is true, else element by element.
template <class T>
BK_HD bool has_aligned_rows(const T* data, int64_t batch, int64_t head, int64_t row) {
    const uint64_t bits = reinterpret_cast<uintptr_t>(data) | static_cast<uint64_t>(batch | head | row) * sizeof(T);
    return bits % 16 == 0;
}

// Eight elements of a row of `width`, from element `first` on, zeros from its end on.
template <class T>
BK_DEVICE void copy_vector(char* to, const T* row, int first, int width, bool by_copies, const T* any) {
    constexpr int kLanes = 16 / static_cast<int>(sizeof(T));
    const int left = row == nullptr ? 0 : min(max(width - first, 0), kLanes);
    if (by_copies) {
        start_copy_16(to, left > 0 ? row + first : any, left * static_cast<int>(sizeof(T)));
        return;
    }
    Vec<T, kLanes> vector{};
#pragma unroll
    for (int i = 0; i < kLanes; ++i)
        if (i < left) vector.lane[i] = row[first + i];
    store(reinterpret_cast<T*>(to), vector);
}

// Fills a tile of kRows rows by kThreads threads; row_of(r) is the address of a row, or null. `any` is an address that
// may be read.
template <int kRows, int kWidth, int kThreads, class T, class RowOf>
BK_DEVICE void fill_tile(char* tile, int thread, int width, bool by_copies, const T* any, const RowOf& row_of) {
    constexpr int kVectors = kWidth * static_cast<int>(sizeof(T)) / 16, kLanes = 16 / static_cast<int>(sizeof(T));
    constexpr int kCopies = kRows * kVectors / kThreads;
    static_assert(kRows * kVectors % kThreads == 0, "each thread copies equally often");
    if (by_copies) {
#pragma unroll 2
        for (int i = 0; i < kCopies; ++i) {
            const int index = thread + i * kThreads, row = index / kVectors, vector = index % kVectors;
            copy_vector(tile + swizzled<kVectors>(row, vector), row_of(row), vector * kLanes, width, true, any);
        }
    } else {
#pragma unroll 1
        for (int i = 0; i < kCopies; ++i) {
            const int index = thread + i * kThreads, row = index / kVectors, vector = index % kVectors;
            copy_vector(tile + swizzled<kVectors>(row, vector), row_of(row), vector * kLanes, width, false, any);
        }
    }
}

// Start of a lane's ldmatrix row of a 16 x 16 fragment: row lane % 16, vector lane / 16. All fragments of a tile are
// at offsets from it, so that few addresses stay in registers.
template <int kWidth>
BK_DEVICE int fragment_base(int row, int lane) {
    return tile_offset<kWidth>(row + lane % 16, lane / 16);
}

// Start of that row in the fragment 16 `rows` down and 16 `columns` to the right. XOR moves it within a group of swizzled
// vectors.
template <int kWidth>
BK_DEVICE int fragment_offset(int base, int rows, int columns) {
    constexpr int kGroup = kWidth / kVector % 8 == 0 ? 4 : 2;
    return (base ^ columns % kGroup * 32) + columns / kGroup * kGroup * 32 + rows * 16 * kWidth * 2;
}

// Operands B of two mmas from a fragment whose rows are their columns.
BK_DEVICE void load_b(uint32_t (&first)[2], uint32_t (&second)[2], const char* fragment) {
    uint32_t words[4];
    ldmatrix_x4(words, fragment);
    first[0] = words[0], first[1] = words[2];
    second[0] = words[1], second[1] = words[3];
}

// Operands B of two mmas from a fragment whose rows run along k.
BK_DEVICE void load_b_transposed(uint32_t (&first)[2], uint32_t (&second)[2], const char* fragment) {
    uint32_t words[4];
    ldmatrix_x4_trans(words, fragment);
    first[0] = words[0], first[1] = words[1];
    second[0] = words[2], second[1] = words[3];
}

// Two floats rounded to T, the first in the lower half.
template <class T>
BK_DEVICE uint32_t pack_pair(float low, float high) {
#if BK_ON_GPU
    uint32_t word;
    if constexpr (std::is_same_v<T, bf16>)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return static_cast<uint32_t>(narrow<T>(low).bits) | static_cast<uint32_t>(narrow<T>(high).bits) << 16;
#endif
}

// Accumulators of two adjacent 16 x 8 products, rounded to T, as the operand A of the next mma.
template <class T>
BK_DEVICE void pack_a(uint32_t (&a)[4], const float (&left)[4], const float (&right)[4]) {
    a[0] = pack_pair<T>(left[0], left[1]);
    a[1] = pack_pair<T>(left[2], left[3]);
    a[2] = pack_pair<T>(right[0], right[1]);
    a[3] = pack_pair<T>(right[2], right[3]);
}

template <int kTiles>
BK_DEVICE void clear(float (&sums)[kTiles][4]) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int v = 0; v < 4; ++v) sums[n][v] = 0;
}

// Sum and maximum of the four lanes that share the rows of an accumulator.
BK_DEVICE float quad_sum(float x) {
    x += __shfl_xor_sync(kAllLanes, x, 1);
    return x + __shfl_xor_sync(kAllLanes, x, 2);
}

BK_DEVICE float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
    return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}

// Stores two adjacent elements of a row of `width`.
template <class T>
BK_DEVICE void store_two(T* row, int column, int width, bool in_pairs, float first, float second) {
    if (in_pairs && column + 1 < width) {
        *reinterpret_cast<uint32_t*>(row + column) = pack_pair<T>(first, second);
        return;
    }
    if (column < width) row[column] = narrow<T>(first);
    if (column + 1 < width) row[column + 1] = narrow<T>(second);
}

}  // namespace bk::sm80
