// SPDX-License-Identifier: Apache-2.0
// Short vectors that one instruction loads or stores.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

template <class T, int N>
struct alignas(sizeof(T) * N) Vec {
    T lane[N];
};

// Widest access that every supported GPU has, in bytes and in elements of T.
constexpr int kVectorBytes = 16;
template <class T>
constexpr int kVectorLanes = kVectorBytes / static_cast<int>(sizeof(T));

inline bool is_aligned(const void* pointer, size_t bytes) { return reinterpret_cast<uintptr_t>(pointer) % bytes == 0; }

template <int N, class T>
BK_HD Vec<T, N> load(const T* pointer) {
    return *reinterpret_cast<const Vec<T, N>*>(pointer);
}

template <int N, class T>
BK_HD void store(T* pointer, const Vec<T, N>& value) {
    *reinterpret_cast<Vec<T, N>*>(pointer) = value;
}

// widen() of one lane. On a GPU bf16 lanes are extracted from their 32-bit word, one instruction each.
template <class T, int N>
BK_HD auto widen_lane(const Vec<T, N>& cell, int lane) {
#if BK_ON_GPU
    if constexpr (std::is_same_v<T, bf16> && N > 1) {
        uint32_t word;
        memcpy(&word, &cell.lane[lane & ~1], sizeof(word));
        return bit_cast<float>(lane & 1 ? word & 0xffff0000u : word << 16);
    }
#endif
    return widen(cell.lane[lane]);
}

template <int Bytes>
struct WordOf;
#if BK_CUDA
template <>
struct WordOf<16> {
    using type = uint4;
};
template <>
struct WordOf<8> {
    using type = uint2;
};
template <>
struct WordOf<4> {
    using type = unsigned int;
};
template <>
struct WordOf<2> {
    using type = unsigned short;
};
template <>
struct WordOf<1> {
    using type = unsigned char;
};

// load() if `there`, else zeros; by words, which predicated loads put in zeroed registers.
template <int N, class T>
BK_DEVICE Vec<T, N> load_if(bool there, const T* pointer) {
    constexpr int kBytes = sizeof(Vec<T, N>), kWord = kBytes < kVectorBytes ? kBytes : kVectorBytes;
    using Word = typename WordOf<kWord>::type;
    struct Words {
        Word word[kBytes / kWord];
    } words{};
    if (there) {
#pragma unroll
        for (int i = 0; i < kBytes / kWord; ++i) words.word[i] = reinterpret_cast<const Word*>(pointer)[i];
    }
    return bit_cast<Vec<T, N>>(words);
}

// Streaming accesses, evicted first from the caches (ld.global.cs, st.global.cs).
template <int N, class T>
BK_DEVICE Vec<T, N> load_once(const T* pointer) {
    using Word = typename WordOf<sizeof(Vec<T, N>)>::type;
    return bit_cast<Vec<T, N>>(__ldcs(reinterpret_cast<const Word*>(pointer)));
}

template <int N, class T>
BK_DEVICE void store_once(T* pointer, const Vec<T, N>& value) {
    using Word = typename WordOf<sizeof(Vec<T, N>)>::type;
    __stcs(reinterpret_cast<Word*>(pointer), bit_cast<Word>(value));
}
#endif

}  // namespace bk
