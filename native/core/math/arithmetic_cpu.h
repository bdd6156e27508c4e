// SPDX-License-Identifier: Apache-2.0
// Building blocks of the CPU math functions: IEEE 754 operations, fused multiply-adds and branch-free selects, so that
// loops vectorise and results have the same bits at every vector width. CPUs without fma instructions (before 2013)
// call the C library's fma: slow, but exact.
#pragma once

#include <cstdint>

#include "core/types/dtype.h"

namespace bk::math::cpu {

#if BK_ON_GPU
BK_HD float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
BK_HD double fma(double a, double b, double c) { return __fma_rn(a, b, c); }
#else
BK_HD float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
BK_HD double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#endif

// c0 + x (c1 + x (c2 + ...))
template <class C>
BK_HD C series(C, C c0) {
    return c0;
}

template <class C, class... Rest>
BK_HD C series(C x, C c0, C c1, Rest... rest) {
    return fma(x, series(x, c1, rest...), c0);
}

// a if the condition holds, else b, by masks: GCC would branch on repeated conditions.
BK_HD float pick(bool condition, float a, float b) {
    const uint32_t mask = static_cast<uint32_t>(-static_cast<int32_t>(condition));
    return bit_cast<float>((bit_cast<uint32_t>(a) & mask) | (bit_cast<uint32_t>(b) & ~mask));
}

BK_HD double pick(bool condition, double a, double b) {
    const uint64_t mask = static_cast<uint64_t>(-static_cast<int64_t>(condition));
    return bit_cast<double>((bit_cast<uint64_t>(a) & mask) | (bit_cast<uint64_t>(b) & ~mask));
}

// x clamped to bounds; NaN passes.
template <class C>
BK_HD C bounded(C x, C least, C most) {
    return pick(x > most, most, pick(x < least, least, x));
}

BK_HD float size_of(float x) { return __builtin_fabsf(x); }
BK_HD double size_of(double x) { return __builtin_fabs(x); }
BK_HD float with_sign(float x, float sign) { return __builtin_copysignf(x, sign); }

// 2^n with -126 <= n <= 127.
BK_HD float power_of_two(int32_t n) { return bit_cast<float>(static_cast<uint32_t>(n + 127) << 23); }

}  // namespace bk::math::cpu
