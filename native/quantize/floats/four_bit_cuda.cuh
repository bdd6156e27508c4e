// SPDX-License-Identifier: Apache-2.0
// Products with weights of four bits and a code book on a GPU: at most eight vectors a launch.
#pragma once

#include <cstdint>

#include "quantize/floats/few_rows.h"
#include "quantize/floats/four_bit.h"

namespace bk::floats {

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

// Products with kVectors vectors: a team computes a row, or a pair of rows, and a thread takes 16 bytes of codes at a time.
// Products of a block's codes are added before its magnitude multiplies them, where it is the same for all codes of a step.
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
Status four_bit_gemv(const Launch& launch, const FourBitWeights& w, int64_t vectors, const T* y, T* out, const T* bias) {
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

template <FourBitLayout kLayout, class T>
Status four_bit_product(const Launch& launch, const FourBitWeights& w, int64_t vectors, const T* y, T* out, const T* bias) {
    const int64_t steps = w.block / 64;
    if (w.block % 64 == 0 && (steps & (steps - 1)) == 0) {
        FewRows p{vectors, w.n, w.k, w.codes, y, bias, out, kFloatDtype<T>};
        p.layout = kLayout == FourBitLayout::kRowPairs ? FewRowsLayout::kRowPairs : FewRowsLayout::kColumns;
        p.maxima = w.maxima;
        while (int64_t{64} << p.block_shift < w.block) ++p.block_shift;
        set_book(p, w.book);
        if (takes_few_rows(p)) return few_rows_product(launch, p);
    }
    constexpr int64_t kMost = 8;
    for (int64_t first = 0; first < vectors; first += kMost) {
        const int64_t count = vectors - first < kMost ? vectors - first : kMost;
        const T* const from = y + first * w.k;
        T* const to = out + first * w.n;
        BK_TRY(count <= 1   ? (four_bit_gemv<1, kLayout>(launch, w, count, from, to, bias))
               : count <= 2 ? (four_bit_gemv<2, kLayout>(launch, w, count, from, to, bias))
               : count <= 4 ? (four_bit_gemv<4, kLayout>(launch, w, count, from, to, bias))
                            : (four_bit_gemv<kMost, kLayout>(launch, w, count, from, to, bias)));
    }
    return Status::kOk;
}

}  // namespace bk::floats
