// SPDX-License-Identifier: Apache-2.0
// Weights of four bits with a code book and the largest magnitude of each block: decoding, and products with few vectors.
//
// Two layouts. Row pairs: byte [r, c] has column c of row 2 r in its low and of row 2 r + 1 in its high half, with blocks
// along each row. Columns, as bitsandbytes has it: the matrix is one flat array, byte i has element 2 i in its high and
// 2 i + 1 in its low half, and blocks may go on from one row to the next.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/codec/code_books.h"
#include "core/collectives/team.h"
#include "core/math/fastdiv.h"
#include "core/math/math.h"
#include "core/types/dtype.h"
#include "core/types/vec.h"
#include "quantize/floats/block_maxima.h"

namespace bk::floats {

enum class FourBitLayout { kRowPairs, kColumns };

struct FourBitWeights {
    FourBitLayout layout;
    codec::CodeBook book;
    int64_t n, k, block;
    const uint8_t* codes;
    BlockMaxima maxima;

    BK_HD int rows_of_a_unit() const { return layout == FourBitLayout::kRowPairs ? 2 : 1; }
    // Index of the block of an element.
    BK_HD int64_t block_of(int64_t row, int64_t column) const {
        if (layout == FourBitLayout::kRowPairs) return row * (k / block) + column / block;
        return (row * k + column) / block;
    }
};

// Bytes from `from` on, `count` of at most N; the rest are zeros.
template <int N>
BK_HD void load_bytes(uint8_t (&bytes)[N], const uint8_t* from, int64_t count, bool is_aligned_to_n) {
    if (is_aligned_to_n && count >= N) {
        const Vec<uint8_t, N> vector = load<N>(from);
        for (int i = 0; i < N; ++i) bytes[i] = vector.lane[i];
        return;
    }
    for (int i = 0; i < N; ++i) bytes[i] = i < count ? from[i] : uint8_t{0};
}

// `count` bytes, the first lowest. `is_aligned_to_8`: they lie behind a multiple of `count` from an address so aligned, or, of
// 2 or 4 bytes, are aligned to their number.
BK_HD uint64_t stream_part(const uint8_t* bytes, int count, bool is_aligned_to_8) {
    if (is_aligned_to_8 && count == 8) return load<1>(reinterpret_cast<const uint64_t*>(bytes)).lane[0];
    if (is_aligned_to_8 && count == 4) return load<1>(reinterpret_cast<const uint32_t*>(bytes)).lane[0];
    uint64_t part = 0;
    if (is_aligned_to_8 && count % 2 == 0) {
        const uint16_t* const halves = reinterpret_cast<const uint16_t*>(bytes);
        BK_UNROLL
        for (int i = 0; i < 3; ++i)
            if (2 * i < count) part |= static_cast<uint64_t>(halves[i]) << (16 * i);
        return part;
    }
    for (int i = 0; i < count; ++i) part |= static_cast<uint64_t>(bytes[i]) << (8 * i);
    return part;
}

// Bytes from `from` on, `count` of at most N, the first lowest.
template <int N>
BK_HD uint64_t load_part(const uint8_t* from, int64_t count, bool is_aligned_to_n) {
    if (count >= N) return stream_part(from, N, is_aligned_to_n);
    return stream_part(from, static_cast<int>(count), false);
}

// Stores `count` of at most N numbers, rounded to T.
template <class T, int N>
BK_HD void store_rounded(T* to, const float (&values)[N], int64_t count, bool is_vector_aligned) {
    constexpr int kLanes = kVectorLanes<T> < N ? kVectorLanes<T> : N;
    if (is_vector_aligned && count >= N) {
        for (int first = 0; first < N; first += kLanes) {
            Vec<T, kLanes> vector;
            for (int i = 0; i < kLanes; ++i) vector.lane[i] = narrow<T>(values[first + i]);
            store(to + first, vector);
        }
        return;
    }
    for (int i = 0; i < N; ++i)
        if (i < count) to[i] = narrow<T>(values[i]);
}

template <class T, int N>
BK_HD void load_widened(float (&values)[N], const T* from, int64_t count, bool is_vector_aligned) {
    constexpr int kLanes = kVectorLanes<T> < N ? kVectorLanes<T> : N;
    if (is_vector_aligned && count >= N) {
        for (int first = 0; first < N; first += kLanes) {
            const Vec<T, kLanes> vector = load<kLanes>(from + first);
            for (int i = 0; i < kLanes; ++i) values[first + i] = widen_lane(vector, i);
        }
        return;
    }
    for (int i = 0; i < N; ++i) values[i] = i < count ? widen(from[i]) : 0.0f;
}

// Elements of a step of dequantisation. On a GPU a thread's are one vector, so that a warp writes whole sectors at once.
template <class T>
constexpr int kDecodedLanes = BK_CUDA ? kVectorLanes<T> : 8;

// A value of a code book; on a GPU a chain of selections, since a table that is indexed would lie in local memory.
BK_HD float entry_of(codec::CodeBook book, int code) {
#if BK_ON_GPU
    float value = 0.0f;
    BK_UNROLL
    for (int i = 0; i < codec::kBookCodes; ++i) value = i == code ? codec::code_book_value(book, i) : value;
    return value;
#else
    return codec::code_book_value(book, code);
#endif
}

// The code book in the team's scratch.
BK_HD const float* share_book(const Team& team, codec::CodeBook book) {
    float* const values = static_cast<float*>(team.scratch);
    for (int i = team.rank; i < codec::kBookCodes; i += team.size) values[i] = entry_of(book, i);
    team.sync();
    return values;
}

constexpr int64_t kFourBitTile = 4096;  // columns of a team that dequantises a pair of rows

// Row pairs to numbers.
template <class T>
struct RowPairsJob {
    static constexpr int kColumns = kDecodedLanes<T>;  // of a step
    FourBitWeights w;
    int64_t tiles, row_blocks;
    FastDiv<uint32_t> by_block;
    bool has_one_block;  // for a step
    bool is_aligned;     // operands and rows, to vectors
    T* out;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t pair = static_cast<uint32_t>(item) / static_cast<uint32_t>(tiles);
        const int64_t begin = (item - pair * tiles) * kFourBitTile;
        const int64_t end = begin + kFourBitTile < w.k ? begin + kFourBitTile : w.k, step = int64_t{team.size} * kColumns;
        const float* const book = share_book(team, w.book);
        for (int64_t c = begin + int64_t{team.rank} * kColumns; c < end; c += step) {
            const uint64_t bytes = load_part<kColumns>(w.codes + pair * w.k + c, end - c, is_aligned);
            for (int half = 0; half < 2; ++half) decode(bytes >> (4 * half), book, 2 * pair + half, c, end);
        }
    }

private:
    BK_HD float scale_of(int64_t row, int64_t column) const {
        return w.maxima.of(row * row_blocks + by_block(static_cast<uint32_t>(column)).quotient);
    }
    // Columns from c on of a row, whose codes are the low halves of bytes.
    BK_HD void decode(uint64_t bytes, const float* book, int64_t row, int64_t c, int64_t end) const {
        float values[kColumns];
        BK_UNROLL
        for (int i = 0; i < kColumns; ++i) values[i] = book[static_cast<uint32_t>(bytes >> (8 * i)) & 15u];
        const float scale = scale_of(row, c);
        BK_UNROLL
        for (int i = 0; i < kColumns; ++i)
            values[i] = math::product(values[i], has_one_block || c + i >= end ? scale : scale_of(row, c + i));
        store_rounded(out + row * w.k + c, values, end - c, is_aligned);
    }
};

// Runs the job, on a GPU by whole vectors where it can.
template <class T>
Status run_row_pairs(const Launch& launch, int64_t items, int64_t bytes, const RowPairsJob<T>& job);

// out[m, r] = sum over c of w[r, c] y[m, c] + bias[r], where bias may be null, in f32 and in an order that depends on k alone.
template <FourBitLayout kLayout, class T>
Status four_bit_product(const Launch& launch, const FourBitWeights& w, int64_t vectors, const T* y, T* out,
                        const T* bias = nullptr);

}  // namespace bk::floats

#if BK_CUDA
#include "quantize/floats/four_bit_cuda.cuh"
#else
#include "quantize/floats/four_bit_cpu.h"
#endif
