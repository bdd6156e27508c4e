// SPDX-License-Identifier: Apache-2.0
// Complex numbers of two f32 (c32) or two f64 (c64), real part first; kernels only move their bytes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/types/dtype.h"

namespace bk {

struct c32 {
    uint64_t bits;
};

struct alignas(16) c64 {
    uint64_t half[2];
};

// A 16-byte element accessed as a whole.
struct alignas(16) Word16 {
    uint64_t half[2];
};

template <>
struct BitsOfSize<16> {
    using type = Word16;
};

// Whether x has a bit of the mask.
template <class Bits>
BK_HD bool has_bit(const Bits& x, const Bits& mask) {
    if constexpr (std::is_integral_v<Bits>)
        return (x & mask) != 0;
    else
        return ((x.half[0] & mask.half[0]) | (x.half[1] & mask.half[1])) != 0;
}

// Kernels for rows of any length treat a 16-byte element as two 8-byte words, which saves an instantiation.
template <class T>
using word_t = typename BitsOfSize<(sizeof(T) < 8 ? sizeof(T) : 8)>::type;
template <class T>
constexpr int64_t kWords = sizeof(T) / sizeof(word_t<T>);

template <class T>
auto words_of(T* pointer) {
    using Word = word_t<std::remove_const_t<T>>;
    return reinterpret_cast<std::conditional_t<std::is_const_v<T>, const Word, Word>*>(pointer);
}

}  // namespace bk
