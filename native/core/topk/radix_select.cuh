// SPDX-License-Identifier: Apache-2.0
// Radix select by one block: the key of a given rank, by histograms of digits from the most significant one on.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/topk/row_selection.h"

namespace bk {

constexpr int kSelectDigit = 11, kSelectBins = 1 << kSelectDigit;

// Shared memory of a search.
struct RadixHistogram {
    uint32_t count[kSelectBins];
    int64_t total[kSelectBins];
    int64_t warp_total[32];
    int64_t below, in_bin;
    unsigned long long found;  // by find_rank
    int bin;
};

// The first bin at which the running total reaches `count`, by all threads of a block.
template <int kThreads>
BK_DEVICE void find_bin(RadixHistogram& shared, int bins, int64_t count) {
    constexpr int kEach = (kSelectBins + kThreads - 1) / kThreads;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    int64_t own = 0;
#pragma unroll
    for (int k = 0; k < kEach; ++k)
        if (thread * kEach + k < bins) own += shared.total[thread * kEach + k];
    int64_t through = own;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int64_t lower = __shfl_up_sync(0xffffffffu, through, distance);
        if (lane >= distance) through += lower;
    }
    if (lane == 31) shared.warp_total[warp] = through;
    __syncthreads();
    int64_t before = through - own;
    for (int w = 0; w < warp; ++w) before += shared.warp_total[w];
    if (before < count && before + own >= count) {
#pragma unroll 1
        for (int k = 0; k < kEach; ++k) {
            const int64_t in_bin = shared.total[thread * kEach + k];
            if (before + in_bin >= count) {
                shared.bin = thread * kEach + k;
                shared.below = before;
                shared.in_bin = in_bin;
                break;
            }
            before += in_bin;
        }
    }
    __syncthreads();
}

// The threshold of the first `count` of `length` elements, 1 <= count <= length; key_at(i) is the key of element i. A search
// for the elements as a set may stop before the last digit.
template <int kThreads, class Bits, class KeyAt>
BK_DEVICE RankThreshold<Bits> block_threshold(RadixHistogram& shared, const KeyAt& key_at, int64_t length, int64_t count,
                                              bool is_set) {
    constexpr int kBits = 8 * sizeof(Bits), kDigit = kBits < kSelectDigit ? kBits : kSelectDigit;
    constexpr int64_t kSpan = int64_t{1} << 31;  // counters have 32 bits
    const int thread = static_cast<int>(threadIdx.x);
    Bits prefix = 0, known = 0;
    int64_t below = 0;
    for (int high = kBits; high > 0;) {
        const int shift = high > kDigit ? high - kDigit : 0, bins = 1 << (high - shift);
        for (int bin = thread; bin < bins; bin += kThreads) shared.total[bin] = 0;
        for (int64_t first = 0; first < length; first += kSpan) {
            for (int bin = thread; bin < bins; bin += kThreads) shared.count[bin] = 0;
            __syncthreads();
            const int64_t end = length - first < kSpan ? length : first + kSpan;
            for (int64_t i = first + thread; i < end; i += kThreads) {
                const Bits key = key_at(i);
                if (((key ^ prefix) & known) == 0) atomicAdd(&shared.count[static_cast<int>(key >> shift) & (bins - 1)], 1u);
            }
            __syncthreads();
            for (int bin = thread; bin < bins; bin += kThreads) shared.total[bin] += shared.count[bin];
        }
        __syncthreads();
        find_bin<kThreads>(shared, bins, count - below);
        prefix = static_cast<Bits>(prefix | static_cast<Bits>(static_cast<Bits>(shared.bin) << shift));
        known = static_cast<Bits>(known | static_cast<Bits>(static_cast<Bits>(bins - 1) << shift));
        const int64_t in_bin = shared.in_bin;
        below += shared.below;
        high = shift;
        __syncthreads();
        if (is_set && in_bin == count - below) break;  // the whole bin is within
    }
    return {static_cast<Bits>(prefix | static_cast<Bits>(~known)), below, count - below};
}

}  // namespace bk
