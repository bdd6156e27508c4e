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

// The code book in the team's scratch.
BK_HD const float* share_book(const Team& team, codec::CodeBook book) {
    float* const values = static_cast<float*>(team.scratch);
    for (int i = team.rank; i < codec::kBookCodes; i += team.size) values[i] = codec::code_book_value(book, i);
    team.sync();
    return values;
}

constexpr int64_t kFourBitTile = 4096;  // columns of a team that dequantises a pair of rows

// Row pairs to numbers.
template <class T>
struct RowPairsJob {
    FourBitWeights w;
    int64_t tiles;
    bool is_aligned;  // operands and rows, to vectors
    T* out;

    BK_HD void operator()(const Team& team, int64_t item) const {
        constexpr int kColumns = kDecodedLanes<T>;
        const float* const book = share_book(team, w.book);
        const int64_t pair = item / tiles, begin = item % tiles * kFourBitTile;
        const int64_t end = begin + kFourBitTile < w.k ? begin + kFourBitTile : w.k;
        for (int64_t c = begin + team.rank * kColumns; c < end; c += team.size * kColumns) {
            uint8_t bytes[kColumns];
            load_bytes(bytes, w.codes + pair * w.k + c, end - c, is_aligned);
            for (int half = 0; half < 2; ++half) {
                const int64_t row = 2 * pair + half;
                int64_t block = w.block_of(row, c), left = w.block - c % w.block;
                float scale = w.maxima.of(block), values[kColumns];
                for (int i = 0; i < kColumns; ++i) {
                    if (left == 0 && c + i < end) {
                        scale = w.maxima.of(++block);
                        left = w.block;
                    }
                    --left;
                    values[i] = math::product(book[bytes[i] >> 4 * half & 15], scale);
                }
                store_rounded(out + row * w.k + c, values, end - c, is_aligned);
            }
        }
    }
};

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
