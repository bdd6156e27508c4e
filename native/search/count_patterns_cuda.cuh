// SPDX-License-Identifier: Apache-2.0
// Histograms of many 16-bit floats on a GPU, with bins of equal width: bit patterns are counted in shared memory, and patterns
// become bins at the end (search/pattern_slots.h). Both halves of a word are clamped at once; lanes share 2^k copies of the
// slots.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/types/vec.h"
#include "search/count.h"
#include "search/pattern_slots.h"

namespace bk {

struct CountTable {
    void* counts;
    int32_t num_bins, copy_bits;
    bool is_wide;   // u64, else u32
    bool is_whole;  // the blocks are those of one cluster, which stores all counts; else blocks add to cleared ones

    BK_DEVICE void set(int64_t bin, uint32_t count) const {
        if (is_wide)
            static_cast<uint64_t*>(counts)[bin] = count;
        else
            static_cast<uint32_t*>(counts)[bin] = count;
    }
    BK_DEVICE void add(int64_t bin, uint32_t count) const {
        if (is_wide)
            atomicAdd(static_cast<unsigned long long*>(counts) + bin, static_cast<unsigned long long>(count));
        else
            atomicAdd(static_cast<uint32_t*>(counts) + bin, count);
    }
};

// 0xffff in each half whose upper bit is set.
BK_DEVICE uint32_t signs_of_halves(uint32_t word) {
#if BK_ON_GPU
    uint32_t signs;
    asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(signs) : "r"(word));
    return signs;
#else
    return (word >> 15 & 0x10001u) * 0xffffu;
#endif
}

BK_DEVICE uint32_t clamp_halves(uint32_t word, uint32_t least, uint32_t most) {
#if BK_ON_GPU
    return __vminu2(__vmaxu2(word, least), most);
#else
    uint32_t clamped = 0;
    for (int shift = 0; shift < 32; shift += 16) {
        const uint32_t half = word >> shift & 0xffffu, low = least >> shift & 0xffffu, high = most >> shift & 0xffffu;
        clamped |= (half < low ? low : half > high ? high : half) << shift;
    }
    return clamped;
#endif
}

// Both halves of a word with +0 for -0: the sum with +0 rounds to it, and NaN stays NaN.
template <class T>
BK_DEVICE uint32_t with_positive_zeros(uint32_t word) {
#if BK_ON_GPU
    uint32_t sum;
    if constexpr (std::is_same_v<T, bf16>)
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(word), "r"(0x3f803f80u), "r"(0u));
    else
        asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(word), "r"(0x3c003c00u), "r"(0u));
    return sum;
#else
    const uint32_t low = word & 0xffffu, high = word >> 16;
    return (low == 0x8000u ? 0u : low) | (high == 0x8000u ? 0u : high) << 16;
#endif
}

// The slots of both halves of a word.
template <class T>
BK_DEVICE uint32_t slots_of_halves(const PatternSlots<T>& slots, uint32_t loaded) {
    const uint32_t word = with_positive_zeros<T>(loaded);
    const uint32_t signs = signs_of_halves(word);
    const auto chosen = [&](const uint32_t (&of_sign)[2]) { return (signs & of_sign[1]) | (~signs & of_sign[0]); };
    return clamp_halves(word, chosen(slots.least), chosen(slots.most)) - chosen(slots.origin);
}

constexpr int kPatternThreads = 512;
constexpr int64_t kPatternBytes = 100 << 10;         // of shared memory, so that an SM has two blocks
constexpr int64_t kManyPatterns = int64_t{1} << 22;  // elements; fewer are not worth the slots of each block
constexpr int32_t kSharedPatternBins = 2048;

template <class T>
__global__ void __launch_bounds__(kPatternThreads)
    count_patterns_kernel(const __grid_constant__ UniformBins<T> bins, const __grid_constant__ PatternSlots<T> slots,
                          const T* x, int64_t n, int64_t head, CountTable table) {
    constexpr int kLanes = kVectorLanes<T>, kWords = kLanes / 2, kUnroll = 2;
    BK_LAUNCH_SHARED(uint4, shared_words);
    uint32_t* const sums = reinterpret_cast<uint32_t*>(shared_words);
    const bool has_sums = table.num_bins <= kSharedPatternBins;
    uint32_t* const copies = sums + (has_sums ? table.num_bins : 0);
    const int thread = static_cast<int>(threadIdx.x), count = 1 << table.copy_bits;
    for (int i = thread; i < (copies - sums) + (slots.count << table.copy_bits); i += kPatternThreads) sums[i] = 0;
    __syncthreads();
    uint32_t* const own = copies + (thread & (count - 1));
    const int64_t vectors = (n - head) / kLanes, step = int64_t{gridDim.x} * kPatternThreads;
    for (int64_t v = int64_t{blockIdx.x} * kPatternThreads + thread; v < vectors; v += kUnroll * step) {
        Vec<T, kLanes> loaded[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
            if (v + u * step < vectors) loaded[u] = load_once<kLanes>(x + head + (v + u * step) * kLanes);
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            if (v + u * step >= vectors) break;
#pragma unroll
            for (int w = 0; w < kWords; ++w) {
                const uint32_t word = loaded[u].lane[2 * w].bits | static_cast<uint32_t>(loaded[u].lane[2 * w + 1].bits) << 16;
                const uint32_t both = slots_of_halves(slots, word);
                atomicAdd(own + (both & 0xffffu) * static_cast<uint32_t>(count), 1u);
                atomicAdd(own + (both >> 16) * static_cast<uint32_t>(count), 1u);
            }
        }
    }
    const int64_t single = blockIdx.x > 0 ? 0 : n - vectors * kLanes;  // the head, then the tail
    for (int64_t i = thread; i < single; i += kPatternThreads)
        atomicAdd(own + slots.of(x[i < head ? i : i + vectors * kLanes].bits) * static_cast<uint32_t>(count), 1u);
    __syncthreads();
    for (int slot = thread; slot < slots.count; slot += kPatternThreads) {
        uint32_t sum = 0;
        for (int c = 0; c < count; ++c) sum += copies[(slot << table.copy_bits) + ((c + slot) & (count - 1))];
        if (sum == 0) continue;
        const uint32_t bin = bins.exact(slots.pattern(slot), nullptr);
        if (bin == kNoBin) continue;
        if (has_sums)
            atomicAdd(sums + bin, sum);
        else
            table.add(bin, sum);
    }
    if (!has_sums) return;
    __syncthreads();
    for (int bin = thread; bin < table.num_bins; bin += kPatternThreads)
        if (sums[bin] > 0) table.add(bin, sums[bin]);
}

// Counts by patterns where that is faster; else *is_done is false, and nothing is launched.
template <class T>
Status count_patterns(const Launch& launch, const UniformBins<T>& bins, const T* x, int64_t n, int64_t head, CountTable table,
                      bool* is_done) {
    *is_done = false;
    if (n < kManyPatterns) return Status::kOk;
    const auto slots = PatternSlots<T>::make(bins);
    const int64_t most = std::min<int64_t>(kPatternBytes, max_shared_bytes(device_arch()) - (1 << 10)) / 4;
    const int64_t sums = table.num_bins <= kSharedPatternBins ? table.num_bins : 0;
    if (slots.count + sums > most) return Status::kOk;
    table.copy_bits = 0;
    while (table.copy_bits < 5 && sums + (int64_t{slots.count} << (table.copy_bits + 1)) <= most) ++table.copy_bits;
    const int64_t words = sums + (int64_t{slots.count} << table.copy_bits);
    const int64_t blocks = std::max<int64_t>(std::max<int64_t>(device_sms(), 1) * 2, ceil_div<int64_t>(n, int64_t{1} << 30));
    *is_done = true;
    return launch_kernel(launch,
                         Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPatternThreads), 1, static_cast<unsigned>(4 * words)},
                         count_patterns_kernel<T>, bins, slots, x, n, head, table);
}

}  // namespace bk
