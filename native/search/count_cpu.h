// SPDX-License-Identifier: Apache-2.0
// Histograms on the CPU. Bins of a buffer of elements are computed by vectors, uncertain ones then one by one. A thread counts
// in a table on its stack, in four copies if there are few bins, so that runs of a key do not wait for each other, and adds
// it to the output. Many bins are counted in the output by one thread: other threads would need tables of their own.
#pragma once

#include <algorithm>
#include <cstdint>

#include "search/count.h"
#include "search/pattern_slots.h"
#include "search/searchsorted_cpu.h"

namespace bk {

constexpr int64_t kBinBuffer = 512;
// 16 KiB of the stack, or 8 KiB beside staged splitters.
template <class Bins>
constexpr int64_t kTableCounts = Bins::kStaged > 0 ? 2048 : 4096;

// visit(bin) for each of x[begin, end), in order.
template <class Bins, class Visit>
BK_HD void visit_bins(const Bins& bins, const typename Bins::Element* x, int64_t begin, int64_t end, const void* staged,
                      const Visit& visit) {
    if constexpr (Bins::kIsExact) {
        for (int64_t i = begin; i < end; ++i) visit(i, bins.guess(x[i]));
    } else if constexpr (Bins::kStaged > 0) {
        using Bits = typename Bins::Element;
        const auto& edges = bins.edges;
        const int32_t first_step = edges.first_step();
        Bits key[kSearchGroup];
        int32_t found[kSearchGroup];
        for (int64_t first = begin; first < end; first += kSearchGroup) {
            const int count = static_cast<int>(std::min<int64_t>(kSearchGroup, end - first));
            for (int k = 0; k < kSearchGroup; ++k) key[k] = k < count ? edges.order(x[first + k]) : Bits{0};
            search_group<true>(static_cast<const Bits*>(staged), edges.splitters, first_step, key, found);
            for (int k = 0; k < count; ++k) visit(first + k, bins.bin_at(key[k], edges.refine(key[k], found[k])));
        }
    } else {
        uint32_t guessed[kBinBuffer];
        for (int64_t first = begin; first < end; first += kBinBuffer) {
            const int64_t length = std::min(kBinBuffer, end - first);
            BK_VECTOR_LOOP
            for (int64_t k = 0; k < length; ++k) guessed[k] = bins.guess(x[first + k]);
            for (int64_t k = 0; k < length; ++k)
                visit(first + k, guessed[k] == kUncertainBin ? bins.exact(x[first + k], staged) : guessed[k]);
        }
    }
}

// body(staged) with the splitters of EdgeBins on the stack.
template <class Bins, class Body>
BK_HD void with_staged(const Bins& bins, const Body& body) {
    if constexpr (Bins::kStaged > 0) {
        typename Bins::Element staged[static_cast<size_t>(Bins::kStaged) / sizeof(typename Bins::Element)];
        for (int32_t i = 0; i < bins.edges.splitters; ++i) staged[i] = bins.edges.key(i * bins.edges.stride);
        body(static_cast<const void*>(staged));
    } else {
        body(static_cast<const void*>(nullptr));
    }
}

template <int kCopies, class Bins, class Count>
void count_few_bins(const Bins& bins, const typename Bins::Element* x, int64_t n, int64_t num_bins, Count* counts) {
    parallel_ranges(n, 32768, [&](int64_t begin, int64_t end) {
        with_staged(bins, [&](const void* staged) {
            constexpr int64_t kMost = int64_t{1} << 31;  // of elements that a table of u32 counts
            for (int64_t first = begin; first < end; first += kMost) {
                uint32_t table[kTableCounts<Bins>] = {};
                visit_bins(bins, x, first, std::min(first + kMost, end), staged, [&](int64_t i, uint32_t bin) {
                    if (bin != kNoBin) ++table[static_cast<int64_t>(bin) * kCopies + i % kCopies];
                });
                for (int64_t b = 0; b < num_bins; ++b) {
                    uint32_t sum = 0;
                    for (int c = 0; c < kCopies; ++c) sum += table[b * kCopies + c];
                    if (sum > 0) __atomic_fetch_add(counts + b, static_cast<Count>(sum), __ATOMIC_RELAXED);
                }
            }
        });
    });
}

constexpr int64_t kManyCpuPatterns = 1 << 16;  // elements; fewer are not worth the slots
constexpr int32_t kMostSlots = 6144;           // 24 KiB of the stack

// Elements of bf16 are mostly beside an edge that is rounded to bf16, where bins are computed one by one.
template <int kCopies, class T, class Count>
void count_patterns(const UniformBins<T>& bins, const PatternSlots<T>& shared_slots, const T* x, int64_t n, Count* counts) {
    parallel_ranges(n, 32768, [&](int64_t begin, int64_t end) {
        const PatternSlots<T> slots = shared_slots;  // not among what the buffer may overlap
        constexpr int64_t kMost = int64_t{1} << 31;  // of elements that a table of u32 counts
        for (int64_t first = begin; first < end; first += kMost) {
            uint32_t table[kMostSlots] = {}, slot[kBinBuffer];
            const int64_t last = std::min(first + kMost, end);
            for (int64_t from = first; from < last; from += kBinBuffer) {
                const int64_t length = std::min(kBinBuffer, last - from);
                BK_VECTOR_LOOP
                for (int64_t k = 0; k < length; ++k) slot[k] = slots.of(x[from + k].bits);
                for (int64_t k = 0; k < length; ++k) ++table[slot[k] * kCopies + static_cast<uint32_t>(k) % kCopies];
            }
            for (int32_t s = 0; s < slots.count; ++s) {
                uint32_t sum = 0;
                for (int c = 0; c < kCopies; ++c) sum += table[s * kCopies + c];
                const uint32_t bin = sum > 0 ? bins.exact(slots.pattern(s), nullptr) : kNoBin;
                if (bin != kNoBin) __atomic_fetch_add(counts + bin, static_cast<Count>(sum), __ATOMIC_RELAXED);
            }
        }
    });
}

template <class Bins, class Count>
Status count_bins(const Launch& launch, const Bins& bins, const typename Bins::Element* x, int64_t n, int64_t num_bins,
                  Count* counts) {
    using Unsigned = std::make_unsigned_t<Count>;
    BK_TRY(clear_counts(launch, num_bins, counts));
    Unsigned* const sums = reinterpret_cast<Unsigned*>(counts);
    if constexpr (kCountsPatterns<Bins>) {
        if (n >= kManyCpuPatterns) {
            const auto slots = PatternSlots<typename Bins::Element>::make(bins);
            if (slots.count * 4 <= kMostSlots) return count_patterns<4>(bins, slots, x, n, sums), Status::kOk;
            if (slots.count <= kMostSlots) return count_patterns<1>(bins, slots, x, n, sums), Status::kOk;
        }
    }
    if (num_bins * 4 <= kTableCounts<Bins>) {
        count_few_bins<4>(bins, x, n, num_bins, sums);
    } else if (num_bins <= kTableCounts<Bins>) {
        count_few_bins<1>(bins, x, n, num_bins, sums);
    } else {
        dispatch_range(
            [&](int64_t begin, int64_t end) {
                with_staged(bins, [&](const void* staged) {
                    visit_bins(bins, x, begin, end, staged, [&](int64_t, uint32_t bin) {
                        if (bin != kNoBin) ++sums[bin];
                    });
                });
            },
            0, n);
    }
    return Status::kOk;
}

template <class Bins>
Status find_bins(const Launch&, const Bins& bins, const typename Bins::Element* x, int64_t n, int32_t* output) {
    parallel_ranges(n, 4096, [&](int64_t begin, int64_t end) {
        with_staged(bins, [&](const void* staged) {
            visit_bins(bins, x, begin, end, staged, [&](int64_t i, uint32_t bin) { output[i] = static_cast<int32_t>(bin); });
        });
    });
    return Status::kOk;
}

}  // namespace bk
