// SPDX-License-Identifier: Apache-2.0
// Sorting networks in AVX-512 registers, of up to 16 vectors of u32 or u64: a bitonic sort (Batcher 1968) whose element e is
// lane e / rows of row e % rows, so that the first steps compare whole rows; at the end the bits of the index that are lanes
// and rows are exchanged. The idea of sorting columns first is that of Bramas (arXiv:1704.08579) and of vqsort
// (arXiv:2205.05982).
#pragma once

// GCC 12 takes the undefined vectors of its own intrinsics for mistakes.
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>
#include <utility>

namespace bk {

#define BK_SORT_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi2,popcnt"
#define BK_IN_AVX512 inline __attribute__((always_inline, target(BK_SORT_TARGET)))

// Vectors of words.
template <class Word>
struct Lanes;

template <>
struct Lanes<uint32_t> {
    static constexpr int kBits = 4, kLanes = 16;
    using Mask = __mmask16;
    static BK_IN_AVX512 __m512i all(uint32_t word) { return _mm512_set1_epi32(static_cast<int>(word)); }
    static BK_IN_AVX512 __m512i load(const uint32_t* from) { return _mm512_loadu_si512(from); }
    static BK_IN_AVX512 __m512i load(const uint32_t* from, Mask mask, __m512i other) {
        return _mm512_mask_loadu_epi32(other, mask, from);
    }
    static BK_IN_AVX512 void store(uint32_t* to, __m512i v) { _mm512_storeu_si512(to, v); }
    static BK_IN_AVX512 void store(uint32_t* to, Mask mask, __m512i v) { _mm512_mask_storeu_epi32(to, mask, v); }
    static BK_IN_AVX512 __m512i low(__m512i a, __m512i b) { return _mm512_min_epu32(a, b); }
    static BK_IN_AVX512 __m512i high(__m512i a, __m512i b) { return _mm512_max_epu32(a, b); }
    // Maxima in the lanes of the mask, minima in the others.
    static BK_IN_AVX512 __m512i ordered(Mask mask, __m512i a, __m512i b) {
        return _mm512_mask_max_epu32(_mm512_min_epu32(a, b), mask, a, b);
    }
    static BK_IN_AVX512 __m512i permute(__m512i index, __m512i a) { return _mm512_permutexvar_epi32(index, a); }
    static BK_IN_AVX512 __m512i permute(__m512i index, __m512i a, __m512i b) { return _mm512_permutex2var_epi32(a, index, b); }
    static BK_IN_AVX512 __m512i sum(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }
    static BK_IN_AVX512 __m512i compress(Mask mask, __m512i a) { return _mm512_maskz_compress_epi32(mask, a); }
    static BK_IN_AVX512 Mask less(__m512i a, __m512i b) { return _mm512_cmplt_epu32_mask(a, b); }
    static BK_IN_AVX512 Mask at_most(__m512i a, __m512i b) { return _mm512_cmple_epu32_mask(a, b); }
};

template <>
struct Lanes<uint64_t> {
    static constexpr int kBits = 3, kLanes = 8;
    using Mask = __mmask8;
    static BK_IN_AVX512 __m512i all(uint64_t word) { return _mm512_set1_epi64(static_cast<long long>(word)); }
    static BK_IN_AVX512 __m512i load(const uint64_t* from) { return _mm512_loadu_si512(from); }
    static BK_IN_AVX512 __m512i load(const uint64_t* from, Mask mask, __m512i other) {
        return _mm512_mask_loadu_epi64(other, mask, from);
    }
    static BK_IN_AVX512 void store(uint64_t* to, __m512i v) { _mm512_storeu_si512(to, v); }
    static BK_IN_AVX512 void store(uint64_t* to, Mask mask, __m512i v) { _mm512_mask_storeu_epi64(to, mask, v); }
    static BK_IN_AVX512 __m512i low(__m512i a, __m512i b) { return _mm512_min_epu64(a, b); }
    static BK_IN_AVX512 __m512i high(__m512i a, __m512i b) { return _mm512_max_epu64(a, b); }
    static BK_IN_AVX512 __m512i ordered(Mask mask, __m512i a, __m512i b) {
        return _mm512_mask_max_epu64(_mm512_min_epu64(a, b), mask, a, b);
    }
    static BK_IN_AVX512 __m512i permute(__m512i index, __m512i a) { return _mm512_permutexvar_epi64(index, a); }
    static BK_IN_AVX512 __m512i permute(__m512i index, __m512i a, __m512i b) { return _mm512_permutex2var_epi64(a, index, b); }
    static BK_IN_AVX512 __m512i sum(__m512i a, __m512i b) { return _mm512_add_epi64(a, b); }
    static BK_IN_AVX512 __m512i compress(Mask mask, __m512i a) { return _mm512_maskz_compress_epi64(mask, a); }
    static BK_IN_AVX512 Mask less(__m512i a, __m512i b) { return _mm512_cmplt_epu64_mask(a, b); }
    static BK_IN_AVX512 Mask at_most(__m512i a, __m512i b) { return _mm512_cmple_epu64_mask(a, b); }
};

// Lane numbers that f gives, as a vector of words.
template <class Word>
struct LaneNumbers {
    alignas(64) Word lane[Lanes<Word>::kLanes];
};

template <class Word>
constexpr LaneNumbers<Word> lanes_xor(int bits) {
    LaneNumbers<Word> numbers{};
    for (int i = 0; i < Lanes<Word>::kLanes; ++i) numbers.lane[i] = static_cast<Word>(i ^ bits);
    return numbers;
}

template <class Word>
constexpr typename Lanes<Word>::Mask lanes_with(int bit) {
    unsigned mask = 0;
    for (int i = 0; i < Lanes<Word>::kLanes; ++i) mask |= (static_cast<unsigned>(i) >> bit & 1u) << i;
    return static_cast<typename Lanes<Word>::Mask>(mask);
}

// Selects from rows a and b: lanes without a bit of a, then the same lanes of b, or those with it.
template <class Word>
constexpr LaneNumbers<Word> lanes_of_two(int bit, bool is_upper) {
    LaneNumbers<Word> numbers{};
    for (int i = 0; i < Lanes<Word>::kLanes; ++i) {
        const int cleared = i & ~(1 << bit), from = is_upper ? cleared | 1 << bit : cleared;
        numbers.lane[i] = static_cast<Word>((i >> bit & 1) != 0 ? from + Lanes<Word>::kLanes : from);
    }
    return numbers;
}

// Lane numbers rotated so that lane i reads the one whose high `bits` are the low ones of i.
template <class Word>
constexpr LaneNumbers<Word> lanes_rotated(int bits) {
    LaneNumbers<Word> numbers{};
    constexpr int all = Lanes<Word>::kBits;
    for (int i = 0; i < Lanes<Word>::kLanes; ++i)
        numbers.lane[i] = static_cast<Word>(bits >= all ? i : ((i & ((1 << bits) - 1)) << (all - bits)) | i >> bits);
    return numbers;
}

// 2^kRowBits rows of vectors.
template <class Word, int kRowBits>
struct SortNetwork {
    using L = Lanes<Word>;
    static constexpr int kRows = 1 << kRowBits, kCapacity = kRows * L::kLanes;
    using Rows = std::make_integer_sequence<int, kRows>;

    __m512i v[kRows];

    // Sorts `count` <= kCapacity words.
    static BK_IN_AVX512 void sort(Word* words, int count) {
        SortNetwork network;
        network.load(words, count, Rows{});
        network.template merge<0>();
        network.to_row_order();
        network.store(words, count, Rows{});
    }

private:
    static BK_IN_AVX512 __m512i constant(const LaneNumbers<Word>& numbers) { return _mm512_load_si512(numbers.lane); }
    static BK_IN_AVX512 typename L::Mask valid(int count, int row) {
        const int left = count - row * L::kLanes;
        return static_cast<typename L::Mask>(left >= L::kLanes ? ~0u : left <= 0 ? 0u : (1u << left) - 1u);
    }
    template <int... r>
    BK_IN_AVX512 void load(const Word* words, int count, std::integer_sequence<int, r...>) {
        ((v[r] = L::load(words + r * L::kLanes, valid(count, r), L::all(static_cast<Word>(~Word{0})))), ...);
    }
    // Row r holds elements from position(r) kLanes on.
    static constexpr int position(int row) {
        constexpr int low = kRowBits < L::kBits ? kRowBits : L::kBits;
        return (row & ((1 << low) - 1)) << (kRowBits - low) | row >> low;
    }
    template <int... r>
    BK_IN_AVX512 void store(Word* words, int count, std::integer_sequence<int, r...>) {
        (L::store(words + position(r) * L::kLanes, valid(count, position(r)), v[r]), ...);
    }

    // Sorts runs of 2^(kBit + 1) elements, of which each half is sorted; then longer ones.
    template <int kBit>
    BK_IN_AVX512 void merge() {
        if constexpr (kBit < kRowBits + L::kBits) {
            reflect<kBit>(Rows{});
            exchange_below<kBit>();
            merge<kBit + 1>();
        }
    }
    template <int kBit>
    BK_IN_AVX512 void exchange_below() {
        if constexpr (kBit > 0) {
            exchange<kBit - 1>(Rows{});
            exchange_below<kBit - 1>();
        }
    }

    BK_IN_AVX512 void order_rows(int r, int s) {
        const __m512i low = L::low(v[r], v[s]);
        v[s] = L::high(v[r], v[s]);
        v[r] = low;
    }
    // Compares an element with the one whose index has all bits up to kBit flipped.
    template <int kBit, int... r>
    BK_IN_AVX512 void reflect(std::integer_sequence<int, r...>) {
        (reflect_row<kBit, r>(), ...);
    }
    template <int kBit, int r>
    BK_IN_AVX512 void reflect_row() {
        if constexpr (kBit < kRowBits) {
            if constexpr ((r >> kBit & 1) == 0) order_rows(r, r ^ ((2 << kBit) - 1));
        } else {
            constexpr int lane_bit = kBit - kRowBits, s = kRows - 1 - r;
            static constexpr LaneNumbers<Word> flipped = lanes_xor<Word>((2 << lane_bit) - 1);
            if constexpr (r <= s) {
                const __m512i of_s = L::permute(constant(flipped), v[s]), of_r = L::permute(constant(flipped), v[r]);
                v[r] = L::ordered(lanes_with<Word>(lane_bit), v[r], of_s);
                if constexpr (r < s) v[s] = L::ordered(lanes_with<Word>(lane_bit), v[s], of_r);
            }
        }
    }
    // Compares an element with the one whose index has this bit flipped.
    template <int kBit, int... r>
    BK_IN_AVX512 void exchange(std::integer_sequence<int, r...>) {
        (exchange_row<kBit, r>(), ...);
    }
    template <int kBit, int r>
    BK_IN_AVX512 void exchange_row() {
        if constexpr (kBit < kRowBits) {
            if constexpr ((r >> kBit & 1) == 0) order_rows(r, r ^ (1 << kBit));
        } else {
            constexpr int lane_bit = kBit - kRowBits;
            static constexpr LaneNumbers<Word> flipped = lanes_xor<Word>(1 << lane_bit);
            v[r] = L::ordered(lanes_with<Word>(lane_bit), v[r], L::permute(constant(flipped), v[r]));
        }
    }

    // Exchanges row bit i with lane bit kBits - min(kBits, kRowBits) + i, then rotates lanes.
    BK_IN_AVX512 void to_row_order() {
        swap_bits<0>();
        if constexpr (kRowBits > 0 && kRowBits < L::kBits) rotate(Rows{});
    }
    template <int kBit>
    BK_IN_AVX512 void swap_bits() {
        if constexpr (kBit < kRowBits && kBit < L::kBits) {
            swap_bit<kBit>(Rows{});
            swap_bits<kBit + 1>();
        }
    }
    template <int kBit, int... r>
    BK_IN_AVX512 void swap_bit(std::integer_sequence<int, r...>) {
        (swap_rows<kBit, r>(), ...);
    }
    template <int kBit, int r>
    BK_IN_AVX512 void swap_rows() {
        constexpr int lane_bit = kBit + (kRowBits < L::kBits ? L::kBits - kRowBits : 0);
        static constexpr LaneNumbers<Word> lower = lanes_of_two<Word>(lane_bit, false),
                                           upper = lanes_of_two<Word>(lane_bit, true);
        if constexpr ((r >> kBit & 1) == 0) {
            constexpr int s = r | 1 << kBit;
            const __m512i low = L::permute(constant(lower), v[r], v[s]);
            v[s] = L::permute(constant(upper), v[r], v[s]);
            v[r] = low;
        }
    }
    template <int... r>
    BK_IN_AVX512 void rotate(std::integer_sequence<int, r...>) {
        static constexpr LaneNumbers<Word> rotated = lanes_rotated<Word>(kRowBits);
        ((v[r] = L::permute(constant(rotated), v[r])), ...);
    }
};

}  // namespace bk
