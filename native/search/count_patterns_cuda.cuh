// SPDX-License-Identifier: Apache-2.0
// Histograms of many 16-bit floats on a GPU, with bins of equal width: bit patterns are counted in shared memory, and patterns
// become bins at the end, so that an element costs no arithmetic of floats.
//
// Patterns of one sign are in the order of their magnitudes. Those up to `least` are in the bin of zero and those from `most`
// on in that of infinity, so that a clamp leaves few slots: 1,470 for 100 bins of bf16 in [-4, 4]. Both halves of a word are
// clamped at once; lanes share 2^k copies of the slots.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/types/vec.h"
#include "search/bins.h"
#include "search/count.h"

namespace bk {

struct CountTable {
    void* counts;
    int32_t num_bins, copy_bits;
    bool is_wide;  // u64, else u32

    BK_DEVICE void add(int64_t bin, uint32_t count) const {
        if (is_wide)
            atomicAdd(static_cast<unsigned long long*>(counts) + bin, static_cast<unsigned long long>(count));
        else
            atomicAdd(static_cast<uint32_t*>(counts) + bin, count);
    }
};

// Bins of equal width of 16-bit floats.
template <class Bins>
constexpr bool kCountsPatterns = false;
template <class T>
constexpr bool kCountsPatterns<UniformBins<T>> = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

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

// Slots of the bit patterns of T, for each sign; the bounds and the pattern of slot 0 stand in both halves of a word.
template <class T>
struct PatternSlots {
    uint32_t least[2], most[2], origin[2];
    int32_t count, positive;  // slots; those of positive numbers come first

    static PatternSlots make(const UniformBins<T>& bins) {
        constexpr uint32_t kInfinity = KeyTraits<T>::kLargest;
        PatternSlots slots{};
        for (uint32_t sign = 0; sign < 2; ++sign) {
            const auto rank = [&](uint32_t magnitude) {
                const T x{static_cast<uint16_t>(sign << 15 | magnitude)};
                const float value = widen(x);
                return value < bins.low ? -1 : value > bins.high ? bins.num_bins : static_cast<int32_t>(bins.exact(x, nullptr));
            };
            uint32_t least = 0, most = kInfinity;
            for (uint32_t beyond = kInfinity; least < beyond;) {
                const uint32_t middle = (least + beyond + 1) / 2;
                (rank(middle) == rank(0) ? least : beyond) = rank(middle) == rank(0) ? middle : middle - 1;
            }
            for (uint32_t below = least; below < most;) {
                const uint32_t middle = (below + most) / 2;
                (rank(middle) == rank(kInfinity) ? most : below) = rank(middle) == rank(kInfinity) ? middle : middle + 1;
            }
            slots.least[sign] = (sign << 15 | least) * 0x10001u;
            slots.most[sign] = (sign << 15 | most) * 0x10001u;
            slots.origin[sign] = ((sign << 15 | least) - static_cast<uint32_t>(slots.count)) * 0x10001u;
            slots.count += static_cast<int32_t>(most - least) + 1;
            if (sign == 0) slots.positive = slots.count;
        }
        return slots;
    }

    // The slots of both halves.
    BK_DEVICE uint32_t of(uint32_t word) const {
        const uint32_t signs = signs_of_halves(word);
        const auto chosen = [&](const uint32_t (&of_sign)[2]) { return (signs & of_sign[1]) | (~signs & of_sign[0]); };
        return clamp_halves(word, chosen(least), chosen(most)) - chosen(origin);
    }
    BK_DEVICE T pattern(int32_t slot) const {
        return T{static_cast<uint16_t>(static_cast<uint32_t>(slot) + (origin[slot < positive ? 0 : 1] & 0xffffu))};
    }
};

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
                const uint32_t both = slots.of(word);
                atomicAdd(own + (both & 0xffffu) * static_cast<uint32_t>(count), 1u);
                atomicAdd(own + (both >> 16) * static_cast<uint32_t>(count), 1u);
            }
        }
    }
    const int64_t single = blockIdx.x > 0 ? 0 : n - vectors * kLanes;  // the head, then the tail
    for (int64_t i = thread; i < single; i += kPatternThreads)
        atomicAdd(own + (slots.of(x[i < head ? i : i + vectors * kLanes].bits) & 0xffffu) * static_cast<uint32_t>(count), 1u);
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
