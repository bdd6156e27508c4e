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

namespace bk::floats {

enum class FourBitLayout { kRowPairs, kColumns };

// The largest magnitude of each block, in f32, or as codes of an 8-bit map, whose blocks of 256 have their own: then it
// is map[code] * outer + offset, each operation rounded.
struct BlockMaxima {
    static constexpr int64_t kOuterBlock = 256;
    const float* values;
    const uint8_t* codes;  // null unless the maxima are quantised, as `outer` and `offset`
    const float* map;
    const float* outer;
    const float* offset;

    BK_HD float of(int64_t block) const {
        if (codes == nullptr) return values[block];
        const float product = math::product(map[codes[block]], outer[block / kOuterBlock]);
#if BK_ON_GPU
        return __fadd_rn(product, offset[0]);
#else
        return product + offset[0];
#endif
    }
};

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
        constexpr int kColumns = 8;
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

// The sums of a unit's rows with kVectors vectors.
template <int kSums>
struct Sums {
    float sum[kSums];
    BK_HD Sums operator+(const Sums& other) const {
        Sums both;
        for (int i = 0; i < kSums; ++i) both.sum[i] = sum[i] + other.sum[i];
        return both;
    }
};

// out[m, r] = sum over c of w[r, c] y[m, c] for kVectors vectors: a team computes a row, or a pair of rows, in f32. A
// thread takes 16 bytes of codes at a time; the order of summation depends on k alone. Products of a block's codes are
// added before its magnitude multiplies them, where it is the same for all codes of a step.
template <class T, FourBitLayout kLayout, int kVectors>
struct FourBitGemvJob {
    static constexpr bool kPairs = kLayout == FourBitLayout::kRowPairs;
    static constexpr int kRows = kPairs ? 2 : 1, kBytes = 16, kStep = kPairs ? kBytes : 2 * kBytes, kPart = 8;
    static constexpr int kParts = kStep / kPart;  // of eight columns

    FourBitWeights w;
    bool has_aligned_codes, has_aligned_vectors, has_one_block;  // for a step
    int64_t vectors;                                             // at most kVectors
    const T* y;
    const T* bias;  // of the rows; null is zeros
    T* out;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const float* const book = share_book(team, w.book);
        Sums<kRows * kVectors> sums{};
        for (int64_t c = int64_t{team.rank} * kStep; c < w.k; c += int64_t{team.size} * kStep) add_step(sums, book, item, c);
        sums = team.sum(sums);
        for (int i = team.rank; i < kRows * kVectors; i += team.size) {
            const int64_t row = item * kRows + i / kVectors, m = i % kVectors;
            const float sum = bias == nullptr ? pick(sums, i) : pick(sums, i) + widen(bias[row]);
            if (m < vectors) out[m * w.n + row] = narrow<T>(sum);
        }
    }

private:
    BK_HD static float pick(const Sums<kRows * kVectors>& sums, int which) {
        float found = 0.0f;
        BK_UNROLL
        for (int i = 0; i < kRows * kVectors; ++i)
            if (i == which) found = sums.sum[i];
        return found;
    }

    BK_HD uint32_t code(const uint8_t (&bytes)[kBytes], int half, int column) const {
        if constexpr (kPairs) return bytes[column] >> 4 * half & 15u;
        return bytes[column / 2] >> (column % 2 == 0 ? 4 : 0) & 15u;
    }

    BK_HD void add_step(Sums<kRows * kVectors>& sums, const float* book, int64_t item, int64_t c) const {
        uint8_t bytes[kBytes];
        const int64_t count = w.k - c;
        load_step(bytes, item, c, count);
        float own[kRows * kVectors] = {};
        float scales[kRows];
        BK_UNROLL
        for (int half = 0; half < kRows; ++half) scales[half] = w.maxima.of(w.block_of(item * kRows + half, c));
        BK_UNROLL
        for (int part = 0; part < kParts; ++part) {
            const int64_t first = c + part * kPart;
            if (first >= w.k) break;
            float weights[kRows][kPart];
            BK_UNROLL
            for (int half = 0; half < kRows; ++half) BK_UNROLL
            for (int i = 0; i < kPart; ++i) weights[half][i] = book[code(bytes, half, part * kPart + i)];
            if (!has_one_block) scale_each(weights, item, first);
            BK_UNROLL
            for (int m = 0; m < kVectors; ++m) {
                if (m >= vectors) break;
                float x[kPart];
                load_widened(x, y + m * w.k + first, w.k - first, has_aligned_vectors);
                BK_UNROLL
                for (int half = 0; half < kRows; ++half) BK_UNROLL
                for (int i = 0; i < kPart; ++i) own[half * kVectors + m] += weights[half][i] * x[i];
            }
        }
        BK_UNROLL
        for (int i = 0; i < kRows * kVectors; ++i) sums.sum[i] += has_one_block ? own[i] * scales[i / kVectors] : own[i];
    }

    // Codes of absent columns do not matter: their vectors are zeros, and code books are finite.
    BK_HD void load_step(uint8_t (&bytes)[kBytes], int64_t item, int64_t c, int64_t count) const {
        if constexpr (kPairs) {
            load_bytes(bytes, w.codes + item * w.k + c, count, has_aligned_codes);
        } else {
            const int64_t first = item * w.k + c;
            if (first % 2 == 0) {
                load_bytes(bytes, w.codes + first / 2, (count + 1) / 2, has_aligned_codes);
                return;
            }
            for (int i = 0; i < kBytes; ++i) {  // an odd k: every second row begins in the middle of a byte
                const int64_t at = first / 2 + i, column = 2 * i;
                const uint32_t high = column < count ? w.codes[at] & 15u : 0u;
                const uint32_t low = column + 1 < count ? w.codes[at + 1] >> 4 : 0u;
                bytes[i] = static_cast<uint8_t>(high << 4 | low);
            }
        }
    }

    BK_HD void scale_each(float (&weights)[kRows][kPart], int64_t item, int64_t first) const {
        BK_UNROLL
        for (int half = 0; half < kRows; ++half) BK_UNROLL
        for (int i = 0; i < kPart; ++i)
            if (first + i < w.k) weights[half][i] *= w.maxima.of(w.block_of(item * kRows + half, first + i));
    }
};

// GEMV of at most kVectors vectors.
template <int kVectors, FourBitLayout kLayout, class T>
Status four_bit_gemv(const Launch& launch, const FourBitWeights& w, int64_t vectors, const T* y, T* out,
                     const T* bias = nullptr) {
    using Job = FourBitGemvJob<T, kLayout, kVectors>;
    const bool flat = kLayout == FourBitLayout::kColumns;
    const bool whole_rows = w.k % (flat ? 2 * Job::kBytes : Job::kBytes) == 0;
    const bool has_one_block = w.block % Job::kStep == 0 && (!flat || w.k % Job::kStep == 0);
    Job job{w,
            whole_rows && is_aligned(w.codes, Job::kBytes),
            w.k % kVectorLanes<T> == 0 && is_aligned(y, kVectorBytes),
            has_one_block,
            vectors,
            y,
            bias,
            out};
    const int64_t bytes = w.k / 2 * Job::kRows;
    return run_teams(launch, w.n / Job::kRows, bytes, job, true);
}

}  // namespace bk::floats
