// Short vectors that one instruction loads or stores.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

template <class T, int N>
struct alignas(sizeof(T) * N) Vec {
    T lane[N];
};

// Elements of T in the widest access of every GPU we build for.
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

// Data that is touched once: first to leave the caches (ld.global.cs, st.global.cs).
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
