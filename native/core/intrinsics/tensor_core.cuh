// SPDX-License-Identifier: Apache-2.0
// mma.sync and ldmatrix wrappers. sm_80 and newer.
//
// Each mma multiplies 16 rows of A by 8 columns of B over 32 bytes along k: 16 elements of 16 bits, 8 of TF32, 32 of 8
// bits, 64 of 4, 256 of 1, 4 of f64. With g = lane / 4 and t = lane % 4 the fragments of a lane are, in 32-bit words
// along k,
//   A   words t and t + 4 of rows g and g + 8: (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4);
//   B   words t and t + 4 of column g;
//   D   columns 2t and 2t + 1 of rows g and g + 8.
// f64 fragments hold double t of rows g and g + 8, and of column g.
#pragma once

#include <cstdint>

#include "core/intrinsics/async_copy.cuh"
#include "core/intrinsics/narrow_operands.cuh"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

// Loads four 8 x 8 matrices of 16-bit elements; lanes 8i to 8i + 7 point to the rows of matrix i. A lane gets word t of
// row g of each.
BK_DEVICE void ldmatrix_x4(uint32_t (&words)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// Loads four 8 x 8 matrices transposed: a lane gets elements 2t and 2t + 1 of column g of each.
BK_DEVICE void ldmatrix_x4_trans(uint32_t (&words)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// Rounds f32 to TF32, to nearest, ties away from zero.
BK_DEVICE uint32_t round_to_tf32(uint32_t bits) {
    uint32_t result;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(__uint_as_float(bits)));
    return result;
}

// Unsigned bytes of A by signed ones of B.
struct u8_by_s8 {};

// mma of element type T: d += a b, with accumulators of type Sum.
template <class T>
struct Mma;

#define BK_MMA(name, sum, constraint, shape, types)                                                               \
    template <>                                                                                                   \
    struct Mma<name> {                                                                                            \
        using Sum = sum;                                                                                          \
        static BK_DEVICE void run(Sum (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {                  \
            asm volatile("mma.sync.aligned." shape ".row.col." types                                              \
                         " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "                                        \
                         "{%0, %1, %2, %3};"                                                                      \
                         : "+" constraint(d[0]), "+" constraint(d[1]), "+" constraint(d[2]), "+" constraint(d[3]) \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                     \
        }                                                                                                         \
    };

BK_MMA(f16, float, "f", "m16n8k16", "f32.f16.f16.f32")
BK_MMA(bf16, float, "f", "m16n8k16", "f32.bf16.bf16.f32")
BK_MMA(float, float, "f", "m16n8k8", "f32.tf32.tf32.f32")
BK_MMA(int8_t, int32_t, "r", "m16n8k32", "s32.s8.s8.s32")
BK_MMA(uint8_t, int32_t, "r", "m16n8k32", "s32.u8.u8.s32")
BK_MMA(u8_by_s8, int32_t, "r", "m16n8k32", "s32.u8.s8.s32")
#if BK_ON_GPU && __CUDA_ARCH__ >= 890
BK_MMA(e4m3, float, "f", "m16n8k32", "f32.e4m3.e4m3.f32")
BK_MMA(e5m2, float, "f", "m16n8k32", "f32.e5m2.e5m2.f32")
#else
template <>
struct Mma<e4m3> : Fp8Mma<Mma<f16>, e4m3> {};
template <>
struct Mma<e5m2> : Fp8Mma<Mma<f16>, e5m2> {};
#endif
#undef BK_MMA

template <>
struct Mma<s4x2> : WidenedMma<Mma<int8_t>, s4x2> {};
template <>
struct Mma<u4x2> : WidenedMma<Mma<uint8_t>, u4x2> {};
template <>
struct Mma<b1x8> : WidenedMma<Mma<int8_t>, b1x8> {};

template <>
struct Mma<double> {
    using Sum = double;
    static BK_DEVICE void run(Sum (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        const double column = __hiloint2double(static_cast<int>(b[1]), static_cast<int>(b[0]));
        for (int half = 0; half < 2; ++half) {
            const double row = __hiloint2double(static_cast<int>(a[2 * half + 1]), static_cast<int>(a[2 * half]));
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                         : "+d"(d[2 * half]), "+d"(d[2 * half + 1])
                         : "d"(row), "d"(column));
        }
    }
};

}  // namespace bk
