// Sparse weights on the CPU: rows of them are spread, the second value of a group over the first, as panels are packed or, for
// few rows of x, as they are multiplied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "gemm/matmul_read_cpu.h"
#include "gemm/sparse24.h"

namespace bk {

// Eight lanes of as many bytes as an element has, and the same bits in other forms.
template <size_t kSize>
struct EightLanes;
template <>
struct EightLanes<2> {
    typedef uint16_t Lanes __attribute__((vector_size(16)));
    typedef int16_t Mask __attribute__((vector_size(16)));
    typedef uint64_t Words __attribute__((vector_size(16)));

    static BK_HD Lanes lower(const uint64_t (&half)[1]) { return reinterpret_cast<Lanes>(Words{half[0], 0}); }
};
template <>
struct EightLanes<4> {
    typedef uint32_t Lanes __attribute__((vector_size(32)));
    typedef int32_t Mask __attribute__((vector_size(32)));
    typedef uint64_t Words __attribute__((vector_size(32)));

    static BK_HD Lanes lower(const uint64_t (&half)[2]) { return reinterpret_cast<Lanes>(Words{half[0], half[1], 0, 0}); }
};

// Eight terms at a time, of values and places from the same eight; `terms` is a multiple of 8. A lane of the word has the bits
// of its group's places, those of the second group in its upper byte.
template <class T>
BK_HD void spread_span(const T* values, const uint16_t* places, int64_t terms, T* to) {
    using Lanes = typename EightLanes<sizeof(T)>::Lanes;
    using Mask = typename EightLanes<sizeof(T)>::Mask;
    constexpr Lanes kFirstBits = {3, 3, 3, 3, 0x300, 0x300, 0x300, 0x300}, kFirst = {0, 1, 2, 3, 0, 0x100, 0x200, 0x300},
                    kSecondBits = kFirstBits << 2, kSecond = kFirst << 2;
    for (int64_t x = 0; x < terms; x += 8) {
        uint64_t half[sizeof(T) / 2];
        std::memcpy(half, values + x / 2, sizeof(half));
        const Lanes four = EightLanes<sizeof(T)>::lower(half), word = Lanes{} + places[x / 8];
        const Lanes firsts = BK_SHUFFLE(Mask, four, four, 0, 0, 0, 0, 2, 2, 2, 2),
                    seconds = BK_SHUFFLE(Mask, four, four, 1, 1, 1, 1, 3, 3, 3, 3);
        const Lanes at_first = reinterpret_cast<Lanes>((word & kFirstBits) == kFirst),
                    at_second = reinterpret_cast<Lanes>((word & kSecondBits) == kSecond);
        const Lanes eight = (at_second & seconds) | (~at_second & at_first & firsts);
        std::memcpy(to + x, &eight, sizeof(eight));
    }
}

template <class T, Packing kUnits>
struct Sparse24Reads {
    static constexpr Packing kPacking = kUnits;
    using Unit = typename PackedUnit<kUnits>::Unit;
    using Of = Units<T, kUnits>;
    const Sparse24<T>& p;
    int64_t m, n, k;  // of the product: rows of x, rows of weights

    BK_HD void read_row(int64_t i, int64_t first, int64_t depth, Unit* to) const { Of::along(p.x + i * k + first, depth, to); }
    BK_HD void read_column(int64_t j, int64_t first, int64_t depth, Unit* to) const {
        T terms[64];
        spread_span(p.values + j * (k / 2) + first / 2, p.places + j * (k / 8) + first / 8, depth, terms);
        Of::along(terms, depth, to);
    }
    BK_HD void store(int64_t i, int64_t j, int64_t columns, const float* sums) const {
        for (int64_t c = 0; c < columns; ++c) p.y[i * n + j + c] = narrow<T>(sums[c]);
    }
    SpareRows spare() const { return SpareRows::of(p.y, n, n); }
};

// Few rows of x: each row of weights is spread once, and multiplied by all of them.
template <class T>
struct Sparse24Thin {
    static constexpr int64_t kTerms = 128;
    using Of = Units<T, Packing::kF32>;
    const Sparse24<T>& p;

    BK_HD void multiply(int64_t begin, int64_t end) const {
        alignas(64) float rooms[2][kThin][kTerms];
        alignas(64) T terms[kTerms];
        for (int64_t j = begin; j < end; j += kThin) {
            const int64_t count = std::min<int64_t>(end - j, kThin);
            ThinParts<float> parts{};
            for (int64_t k = 0; k < p.k; k += kTerms) {
                const int64_t depth = std::min(p.k - k, kTerms), padded = ceil_div<int64_t>(depth, kThinLanes) * kThinLanes;
                const float *few[kThin], *many[kThin];
                for (int64_t l = 0; l < kThin; ++l) {  // lines behind the last repeat it
                    few[l] = rooms[0][std::min(l, p.n - 1)];
                    many[l] = rooms[1][std::min(l, count - 1)];
                    if (l < p.n) widen(p.x + l * p.k + k, depth, padded, rooms[0][l]);
                    if (l >= count) continue;
                    spread_span(p.values + ((j + l) * p.k + k) / 2, p.places + ((j + l) * p.k + k) / 8, depth, terms);
                    widen(terms, depth, padded, rooms[1][l]);
                }
                add_lines(static_cast<int>(p.n), many, few, padded, parts);
            }
            float sums[kThin][kThin];
            parts.finish(p.n, count, sums[0], kThin);
            for (int64_t i = 0; i < p.n; ++i)
                for (int64_t l = 0; l < count; ++l) p.y[i * p.m + j + l] = narrow<T>(sums[i][l]);
        }
    }

    static BK_HD void widen(const T* from, int64_t terms, int64_t padded, float* to) {
        Of::along(from, terms, to);
        for (int64_t k = terms; k < padded; ++k) to[k] = 0;
    }

    void run() const {
        constexpr int64_t kLines = 8 * kThin;
        parallel_chunks(ceil_div<int64_t>(p.m, kLines), grain_for(kLines * (p.k + 1)), [&](int64_t begin, int64_t end) {
            const int64_t first = begin * kLines, last = std::min(end * kLines, p.m);
#if BK_ISA_DISPATCH
            if (vector_bytes() == 64) return run_unfused<64>([&] { multiply(first, last); });
            if (vector_bytes() == 32) return run_unfused<32>([&] { multiply(first, last); });
#endif
            run_unfused<16>([&] { multiply(first, last); });
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
    if (sparse24_uses_dot<T>()) return blocked_workspace(block_kernel<Packing::kBf16Pairs>(), n, m, k);
#endif
    return blocked_workspace(block_kernel<Packing::kF32>(), n, m, k);
}

template <class T>
Status sparse24_product(const Launch& launch, const Sparse24<T>& p) {
    if (p.n <= kThin) {
        Sparse24Thin<T>{p}.run();
        return Status::kOk;
    }
#if BK_ISA_DISPATCH
    if constexpr (std::is_same_v<T, bf16>)
        if (sparse24_uses_dot<T>()) {
            const Sparse24Reads<T, Packing::kBf16Pairs> reads{p, p.n, p.m, p.k};
            return ReadBlocks<Sparse24Reads<T, Packing::kBf16Pairs>, 64>::multiply(launch, reads);
        }
#endif
    return multiply_read(launch, Sparse24Reads<T, Packing::kF32>{p, p.n, p.m, p.k});
}

template <class T>
Status sparse24_inflate(const Launch&, int64_t m, int64_t k, const T* values, const uint16_t* places, T* dense) {
    parallel_chunks(m * (k / 8), grain_for(8), [&](int64_t begin, int64_t end) {
        dispatch_range(
            [=](int64_t first, int64_t last) {
                spread_span(values + 4 * first, places + first, 8 * (last - first), dense + 8 * first);
            },
            begin, end);
    });
    return Status::kOk;
}

}  // namespace bk
