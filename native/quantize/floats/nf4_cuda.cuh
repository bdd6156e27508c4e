// SPDX-License-Identifier: Apache-2.0
// Pairs of rows whose vectors are aligned and of one block each, on a GPU: a kernel of its own, whose code is a sixth of
// what arbitrary columns need. A thread reads all its codes and magnitudes before it waits for the code book.
#pragma once

#include <cstdint>

#include "quantize/floats/nf4.h"

namespace bk::floats {

template <class T>
struct RowPairsVectors {
    static constexpr int kColumns = kVectorLanes<T>, kWords = kColumns / 4;  // of a step, and their words of codes
    static constexpr int kSteps = static_cast<int>(kFourBitTile) / (kMaxTeamThreads * kColumns);  // of a thread
    uint32_t k, tiles, row_blocks;
    FastDiv<uint32_t> by_block;
    codec::CodeBook book;
    const uint8_t* codes;
    const float* maxima;
    T* out;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const uint32_t pair = static_cast<uint32_t>(item) / tiles, tile = static_cast<uint32_t>(item) - pair * tiles;
        const uint32_t begin = tile * static_cast<uint32_t>(kFourBitTile);
        const uint32_t own = begin + static_cast<uint32_t>(team.rank * kColumns);
        const uint32_t step = static_cast<uint32_t>(team.size * kColumns);
        const uint8_t* const from = codes + int64_t{pair} * k;
        const float* const largest = maxima + int64_t{pair} * 2 * row_blocks;
        Vec<uint32_t, kWords> words[kSteps] = {};
        float scales[kSteps][2] = {};
        BK_UNROLL
        for (int s = 0; s < kSteps; ++s) {
            const uint32_t c = own + s * step;
            if (c >= k) continue;
            words[s] = load<kWords>(reinterpret_cast<const uint32_t*>(from + c));
            const uint32_t block = by_block(c).quotient;
            scales[s][0] = largest[block], scales[s][1] = largest[row_blocks + block];
        }
        const float* const values = share_book(team, book);
        T* const to = out + int64_t{pair} * 2 * k;
        BK_UNROLL
        for (int s = 0; s < kSteps; ++s) {
            const uint32_t c = own + s * step;
            if (c >= k) continue;
            store_row<0>(to + c, values, words[s], scales[s][0]);
            store_row<1>(to + k + c, values, words[s], scales[s][1]);
        }
    }

private:
    template <int kHalf>
    BK_HD static void store_row(T* to, const float* values, const Vec<uint32_t, kWords>& words, float scale) {
        Vec<T, kColumns> vector;
        BK_UNROLL
        for (int i = 0; i < kColumns; ++i) {
            const uint32_t word = words.lane[i / 4];
            const int shift = 8 * (i % 4) + 4 * kHalf;
            const uint32_t at = (shift == 0 ? word << 2 : word >> (shift - 2)) & 60u;  // of a float, in bytes
            const float value = *reinterpret_cast<const float*>(reinterpret_cast<const char*>(values) + at);
            vector.lane[i] = narrow<T>(math::product(value, scale));
        }
        store(to, vector);
    }
};

// Tiles of kFourBitTile columns, or one of all k for teams of fewer threads, are kSteps steps of a team at most.
template <class T>
Status run_row_pairs(const Launch& launch, int64_t items, int64_t bytes, const RowPairsJob<T>& job) {
    if (!job.is_aligned || !job.has_one_block) return run_teams(launch, items, bytes, job, true);
    const RowPairsVectors<T> vectors{static_cast<uint32_t>(job.w.k),
                                     static_cast<uint32_t>(job.tiles),
                                     static_cast<uint32_t>(job.row_blocks),
                                     job.by_block,
                                     job.w.book,
                                     job.w.codes,
                                     job.w.maxima.values,
                                     job.out};
    return run_teams(launch, items, bytes, vectors, true);
}

}  // namespace bk::floats
