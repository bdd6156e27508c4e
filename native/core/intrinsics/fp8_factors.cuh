// SPDX-License-Identifier: Apache-2.0
// mma.sync of two 8-bit formats, in the fragments of core/intrinsics/tensor_core.cuh: of sm_89 and newer, else of f16, to
// which both are widened exactly.
#pragma once

#include <cstdint>

#include "core/intrinsics/tensor_core.cuh"
#include "core/types/fp8_factors.h"

namespace bk {

#if BK_ON_GPU && __CUDA_ARCH__ >= 890
#define BK_MMA(element, types)                                                                   \
    template <>                                                                                  \
    struct Mma<element> {                                                                        \
        using Sum = float;                                                                       \
        static BK_DEVICE void run(Sum (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) { \
            asm volatile("mma.sync.aligned.m16n8k32.row.col." types                              \
                         " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"      \
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                        \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));    \
        }                                                                                        \
    };

BK_MMA(e5m2_by_e4m3, "f32.e5m2.e4m3.f32")
BK_MMA(e4m3_by_e5m2, "f32.e4m3.e5m2.f32")
#undef BK_MMA
#else
template <class A, class B>
struct FactorsMma {
    using Sum = float;
    static BK_DEVICE void run(Sum (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const uint32_t a_words[4] = {fp8_to_f16x2<A>(a[2 * i], 0), fp8_to_f16x2<A>(a[2 * i + 1], 0),
                                         fp8_to_f16x2<A>(a[2 * i], 1), fp8_to_f16x2<A>(a[2 * i + 1], 1)};
            const uint32_t b_words[2] = {fp8_to_f16x2<B>(b[i], 0), fp8_to_f16x2<B>(b[i], 1)};
            Mma<f16>::run(d, a_words, b_words);
        }
    }
};
template <>
struct Mma<e5m2_by_e4m3> : FactorsMma<e5m2, e4m3> {};
template <>
struct Mma<e4m3_by_e5m2> : FactorsMma<e4m3, e5m2> {};
#endif

}  // namespace bk
