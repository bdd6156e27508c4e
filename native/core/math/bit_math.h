// SPDX-License-Identifier: Apache-2.0
// Bit counts: GPU instructions; on the CPU arithmetic that the compiler vectorises.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk::math {

// Number of bits set in an unsigned integer.
template <class U>
BK_HD int popcount(U x) {
#if BK_ON_GPU
    if constexpr (sizeof(U) == 8)
        return __popcll(x);
    else
        return __popc(x);
#else
    // SWAR sums of bits, pairs, nibbles, bytes. Shifts, since GCC recognises the multiplication form as scalar popcnt
    // and does not vectorise it.
    constexpr U kPairs = static_cast<U>(0x5555555555555555ull), kNibbles = static_cast<U>(0x3333333333333333ull),
                kBytes = static_cast<U>(0x0f0f0f0f0f0f0f0full);
    x = static_cast<U>(x - ((x >> 1) & kPairs));
    x = static_cast<U>((x & kNibbles) + ((x >> 2) & kNibbles));
    x = static_cast<U>((x + (x >> 4)) & kBytes);
    if constexpr (sizeof(U) >= 2) x = static_cast<U>(x + (x >> 8));
    if constexpr (sizeof(U) >= 4) x = static_cast<U>(x + (x >> 16));
    if constexpr (sizeof(U) >= 8) x = static_cast<U>(x + (x >> 32));
    return static_cast<int>(x & 0x7f);
#endif
}

// Returns the width for 0.
template <class U>
BK_HD int count_leading_zeros(U x) {
#if BK_ON_GPU
    if constexpr (sizeof(U) == 8)
        return __clzll(static_cast<long long>(x));
    else
        return __clz(static_cast<int>(x)) - (32 - 8 * static_cast<int>(sizeof(U)));
#else
    x = static_cast<U>(x | (x >> 1));  // every bit below the highest one set
    x = static_cast<U>(x | (x >> 2));
    x = static_cast<U>(x | (x >> 4));
    if constexpr (sizeof(U) >= 2) x = static_cast<U>(x | (x >> 8));
    if constexpr (sizeof(U) >= 4) x = static_cast<U>(x | (x >> 16));
    if constexpr (sizeof(U) >= 8) x = static_cast<U>(x | (x >> 32));
    return 8 * static_cast<int>(sizeof(U)) - popcount(x);
#endif
}

}  // namespace bk::math
