// SPDX-License-Identifier: Apache-2.0
// 2:4 sparse GEMM on the CPU: rows of weights are expanded as panels are packed or, for skinny x, as they are
// multiplied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gemm/cpu/matmul_decode_cpu.h"
#include "gemm/sparse24.h"

namespace bk {

// Expands a vector of values to 2 kLanes K elements of kSize bytes.
template <size_t kSize, int kLanes>
struct ExpandLanes {
    using Bits = std::conditional_t<kSize == 2, uint16_t, uint32_t>;
    using Words = std::conditional_t<kLanes == 32, uint64_t, std::conditional_t<kLanes == 16, uint32_t, uint16_t>>;
    typedef Bits Lanes __attribute__((vector_size(kLanes * kSize)));
    typedef std::make_signed_t<Bits> Mask __attribute__((vector_size(kLanes * kSize)));
    static constexpr auto kOrder = std::make_index_sequence<kLanes>();

    // Word of the eight K elements of each lane. The index bits of a lane's group are in its lower byte, those of the
    // second group in the upper.
    template <size_t... kAt>
    static BK_HD Lanes words(const uint16_t* metadata, std::index_sequence<kAt...>) {
        Words words;
        std::memcpy(&words, metadata, sizeof(words));
        if constexpr (kLanes == 8) return Lanes{} + words;
        if constexpr (kSize == 4) return (Lanes{} + static_cast<Bits>(words)) >> Lanes{static_cast<Bits>(kAt / 8 * 16)...};
        typedef Words Wide __attribute__((vector_size(kLanes * kSize)));
        const Lanes all = reinterpret_cast<Lanes>(Wide{} + words);
        return BK_SHUFFLE(Mask, all, all, (static_cast<int>(kAt) / 8)...);
    }
    template <size_t... kAt>
    static constexpr BK_HD Lanes all_bits(std::index_sequence<kAt...>) {
        return Lanes{static_cast<Bits>(3 << kAt % 8 / 4 * 8)...};
    }
    template <size_t... kAt>
    static constexpr BK_HD Lanes own_bits(std::index_sequence<kAt...>) {
        return Lanes{static_cast<Bits>(kAt % 4 << kAt % 8 / 4 * 8)...};
    }
    // Value kNumber of each lane's group, from the lower or upper half of the values.
    template <int kNumber, int kHalf, size_t... kAt>
    static BK_HD Lanes values(Lanes all, std::index_sequence<kAt...>) {
        return BK_SHUFFLE(Mask, all, all, (static_cast<int>(kAt) / 4 * 2 + kNumber + kHalf * (kLanes / 2))...);
    }

    template <int kHalf>
    static BK_HD void spread(Lanes values_of, const uint16_t* metadata, char* to) {
        constexpr Lanes kAll = all_bits(kOrder), kOwn = own_bits(kOrder);
        const Lanes word = words(metadata + kHalf * (kLanes / 8), kOrder);
        const Lanes at_first = reinterpret_cast<Lanes>((word & kAll) == kOwn),
                    at_second = reinterpret_cast<Lanes>((word >> 2 & kAll) == kOwn);
        const Lanes spread =
            (at_second & values<1, kHalf>(values_of, kOrder)) | (~at_second & at_first & values<0, kHalf>(values_of, kOrder));
        std::memcpy(to + kHalf * static_cast<int>(sizeof(spread)), &spread, sizeof(spread));
    }
    static BK_HD void spread(const void* from, const uint16_t* metadata, void* to) {
        Lanes values_of;
        std::memcpy(&values_of, from, sizeof(values_of));
        spread<0>(values_of, metadata, static_cast<char*>(to));
        spread<1>(values_of, metadata, static_cast<char*>(to));
    }
};

// Expands `k_count` K elements, a multiple of 8.
template <int kBytes, class T>
BK_HD void expand_span(const T* values, const uint16_t* metadata, int64_t k_count, T* to) {
    constexpr int kLanes = std::max<int>(kBytes / static_cast<int>(sizeof(T)), 8);
    int64_t x = 0;
    for (; x + 2 * kLanes <= k_count; x += 2 * kLanes)
        ExpandLanes<sizeof(T), kLanes>::spread(values + x / 2, metadata + x / 8, to + x);
    for (; x < k_count; x += 8) {
        T eight[8];
        expand_groups(values + x / 2, metadata[x / 8], eight);
        std::memcpy(to + x, eight, sizeof(eight));
    }
}

template <class T, Packing kUnits, int kBytes = 16>
struct Sparse24Reads {
    static constexpr Packing kPacking = kUnits;
    using Unit = typename PackedUnit<kUnits>::Unit;
    using Of = Units<T, kUnits>;
    const Sparse24<T>& p;
    int64_t m, n, k;  // extents of the GEMM: rows of x, rows of weights

    BK_HD void read_row(int64_t i, int64_t first, int64_t depth, Unit* to) const {
        Of::convert_k_major(p.x + i * k + first, depth, to);
    }
    BK_HD void read_column(int64_t j, int64_t first, int64_t depth, Unit* to) const {
        T expanded[64];
        expand_span<kBytes>(p.values + j * (k / 2) + first / 2, p.metadata + j * (k / 8) + first / 8, depth, expanded);
        Of::convert_k_major(expanded, depth, to);
    }
    BK_HD void store(int64_t i, int64_t j, int64_t columns, const float* sums) const {
        for (int64_t c = 0; c < columns; ++c) p.y[i * n + j + c] = narrow<T>(sums[c]);
    }
    ScratchRows scratch_rows() const { return ScratchRows::of(p.y, n, n); }
};

// Skinny x: each row of weights is expanded once and multiplied by all rows of x.
template <class T>
struct Sparse24Skinny {
    static constexpr int64_t kExpandedK = 512 / sizeof(T), kBufferK = 128;  // K elements expanded, and converted, at once
    using Of = Units<T, Packing::kF32>;
    const Sparse24<T>& p;

    template <int kBytes>
    BK_HD void multiply(int32_t min_abs, int64_t begin, int64_t end) const {
        alignas(64) float buffers[2][kSkinny][kBufferK];
        alignas(64) T expanded[kSkinny][kExpandedK];
        for (int64_t j = begin; j < end; j += kSkinny) {
            const int64_t count = std::min<int64_t>(end - j, kSkinny);
            SkinnyLaneSums<float> lane_sums{};
            for (int64_t k = 0; k < p.k; k += kExpandedK) {
                const int64_t depth = std::min(p.k - k, kExpandedK);
                for (int64_t l = 0; l < count; ++l)
                    expand_span<kBytes>(p.values + ((j + l) * p.k + k) / 2, p.metadata + ((j + l) * p.k + k) / 8, depth,
                                        expanded[l]);
                if (dot_expanded(min_abs, k, depth, count, expanded, lane_sums)) continue;
                for (int64_t first = 0; first < depth; first += kBufferK)
                    dot_widened(k, first, std::min(depth - first, kBufferK), count, expanded, buffers, lane_sums);
            }
            float sums[kSkinny][kSkinny];
            lane_sums.finish(p.n, count, sums[0], kSkinny);
            for (int64_t i = 0; i < p.n; ++i)
                for (int64_t l = 0; l < count; ++l) p.y[i * p.m + j + l] = narrow<T>(sums[i][l]);
        }
    }

    // Multiplies expanded bf16 rows by rows of x without conversion, if dot-product instructions allow it.
    BK_HD bool dot_expanded(int32_t min_abs, int64_t k, int64_t depth, int64_t count, const T (&expanded)[kSkinny][kExpandedK],
                            SkinnyLaneSums<float>& lane_sums) const {
        if constexpr (std::is_same_v<T, bf16>) {
            if (min_abs == 0 || depth % kPairBlock != 0) return false;
            const uint16_t *small[kSkinny], *large[kSkinny];
            for (int64_t l = 0; l < kSkinny; ++l) {
                small[l] = reinterpret_cast<const uint16_t*>(p.x + std::min(l, p.n - 1) * p.k + k);
                large[l] = reinterpret_cast<const uint16_t*>(expanded[std::min(l, count - 1)]);
            }
            return dot_bf16_avx512(static_cast<int>(p.n), large, small, min_abs, depth, lane_sums);
        }
        return false;
    }

    BK_HD void dot_widened(int64_t k, int64_t first, int64_t depth, int64_t count, const T (&expanded)[kSkinny][kExpandedK],
                           float (&buffers)[2][kSkinny][kBufferK], SkinnyLaneSums<float>& lane_sums) const {
        const int64_t padded = ceil_div<int64_t>(depth, kSkinnyLanes) * kSkinnyLanes;
        const float *small[kSkinny], *large[kSkinny];
        for (int64_t l = 0; l < kSkinny; ++l) {  // rows behind the last repeat it
            small[l] = l < p.n ? widened(p.x + l * p.k + k + first, depth, padded, buffers[0][l]) : small[p.n - 1];
            large[l] = l < count ? widened(expanded[l] + first, depth, padded, buffers[1][l]) : large[count - 1];
        }
        dot_rows(static_cast<int>(p.n), large, small, padded, lane_sums);
    }

    // Converts and zero-pads K elements, in `buffer` unless no conversion is needed.
    static BK_HD const float* widened(const T* from, int64_t k_count, int64_t padded, float* buffer) {
        if constexpr (std::is_same_v<T, float>)
            if (k_count == padded) return from;
        Of::convert_k_major(from, k_count, buffer);
        for (int64_t k = k_count; k < padded; ++k) buffer[k] = 0;
        return buffer;
    }

    void run() const {
        constexpr int64_t kRowsOfTask = 8 * kSkinny;
        int32_t min_abs = 0;
        if constexpr (std::is_same_v<T, bf16>) min_abs = min_abs_skinny(p.x, p.k * 2, static_cast<int>(p.n), p.k);
        parallel_chunks(ceil_div<int64_t>(p.m, kRowsOfTask), grain_for(kRowsOfTask * (p.k + 1)),
                        [&](int64_t begin, int64_t end) {
                            const int64_t first = begin * kRowsOfTask, last = std::min(end * kRowsOfTask, p.m);
#if BK_ISA_DISPATCH
                            if (vector_bytes() == 64) return run_unfused<64>([&] { multiply<64>(min_abs, first, last); });
                            if (vector_bytes() == 32) return run_unfused<32>([&] { multiply<32>(min_abs, first, last); });
#endif
                            run_unfused<16>([&] { multiply<16>(min_abs, first, last); });
                        });
    }
};

template <class T>
bool sparse24_uses_dot() {
    return std::is_same_v<T, bf16> && has_dot_products();
}

template <class T>
size_t sparse24_workspace(int64_t n, int64_t m, int64_t k) {
#if BK_ISA_DISPATCH
    if (sparse24_uses_dot<T>()) return blocked_workspace(microkernel<Packing::kBf16Pairs>(), n, m, k);
#endif
    return blocked_workspace(microkernel<Packing::kF32>(), n, m, k);
}

template <class T>
Status sparse24_product(const Launch& launch, const Sparse24<T>& p) {
    if (p.n <= kSkinny) {
        Sparse24Skinny<T>{p}.run();
        return Status::kOk;
    }
#if BK_ISA_DISPATCH
    if constexpr (std::is_same_v<T, bf16>)
        if (sparse24_uses_dot<T>()) {
            using Reads = Sparse24Reads<T, Packing::kBf16Pairs, 64>;
            return ReadBlocks<Reads, 64>::multiply(launch, Reads{p, p.n, p.m, p.k});
        }
#endif
    return multiply_read(launch, Sparse24Reads<T, Packing::kF32>{p, p.n, p.m, p.k});
}

template <class T>
Status sparse24_inflate(const Launch&, int64_t m, int64_t k, const T* values, const uint16_t* metadata, T* dense) {
    parallel_chunks(m * (k / 8), grain_for(8), [&](int64_t begin, int64_t end) {
        dispatch_range(
            [=](int64_t first, int64_t last) {
                expand_span<16>(values + 4 * first, metadata + first, 8 * (last - first), dense + 8 * first);
            },
            begin, end);
    });
    return Status::kOk;
}

}  // namespace bk
