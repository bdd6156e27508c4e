// SPDX-License-Identifier: Apache-2.0
// Streaming loads that do not allocate in L1 (L1::no_allocate), for data that is read once.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/types/vec.h"

namespace bk {

BK_DEVICE uint4 load_bypass_l1(const uint4* pointer) {
#if BK_ON_GPU
    uint4 word;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(pointer)
                 : "memory");
    return word;
#else
    return *pointer;
#endif
}

// load_if() that bypasses L1 if the vector is a multiple of 16 bytes.
template <int N, class T>
BK_DEVICE Vec<T, N> load_if_bypass_l1(bool there, const T* pointer) {
    using Whole = Vec<T, N>;
    constexpr int kWords = sizeof(Whole) / sizeof(uint4);
    if constexpr (kWords * sizeof(uint4) != sizeof(Whole)) {
        return load_if<N>(there, pointer);
    } else {
        struct Words {
            uint4 word[kWords];
        } words{};
        if (there) {
#pragma unroll
            for (int i = 0; i < kWords; ++i) words.word[i] = load_bypass_l1(reinterpret_cast<const uint4*>(pointer) + i);
        }
        return bit_cast<Whole>(words);
    }
}

}  // namespace bk
