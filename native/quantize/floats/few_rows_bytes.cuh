// SPDX-License-Identifier: Apache-2.0
// Operands of the byte mma of few_rows_cuda.cuh.
#pragma once

#include <cstdint>

#include "core/intrinsics/narrow_operands.cuh"
#include "core/platform.h"

namespace bk::floats {

// Bytes of eight that four nibbles name; 0 for a nibble of 8 or more, as bytes are below 128.
BK_DEVICE uint32_t bytes_below_8(uint32_t low, uint32_t high, uint32_t nibbles) {
#if BK_ON_GPU
    uint32_t bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(nibbles));  // of 8 and more the sign, repeated
    return bytes;
#else
    uint32_t above = 0;
    for (int i = 0; i < 4; ++i) above |= (nibbles >> (4 * i + 3) & 1u) * (0xffu << (8 * i));
    return __byte_perm(low, high, nibbles) & ~above;
#endif
}

// Elements of x, f16 below 2^9 in magnitude, as integers: 127 / 512 of them in the last bits of 1536 + y.
constexpr float kFewByteUnit = 512.f / 127;
BK_DEVICE uint32_t few_bytes(uint32_t first, uint32_t second, uint32_t selector) {
    const auto integers = [](uint32_t pair) {
#if BK_ON_GPU
        uint32_t result;
        asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(pair), "r"(0x33f033f0u), "r"(0x66006600u));
        return result;
#else
        return map_f16x2(pair, pair, [](float y, float) { return y * (1 / kFewByteUnit) + 1536.f; });
#endif
    };
    return __byte_perm(integers(first), integers(second), selector);
}

}  // namespace bk::floats
