// SPDX-License-Identifier: Apache-2.0
// wgmma and the named barriers of warpgroups. sm_90a alone.
//
// A wgmma multiplies 64 rows of A by kColumns columns of B over 32 bytes along k. With w = t / 32, g = t % 32 / 4 and p
// = t % 4, thread t of the 128 accumulates, for each eight columns 8j, columns 2p and 2p + 1 of row 16w + g in d[4j]
// and d[4j + 1] and of row 16w + g + 8 in d[4j + 2] and d[4j + 3].
//
// Shared-memory operands have the 128-byte swizzle of TMA loads (PTX ISA, "Asynchronous warpgroup level matrix shared
// memory layout"). K-major: each row of A or column of B is 128 bytes along k. MN-major: blocks of 64 elements across
// k, 128 bytes for each k.
#pragma once

#include <cstdint>

#include "core/intrinsics/async_copy.cuh"
#include "core/platform.h"
#include "core/types/dtype.h"
#include "core/types/fp8_factors.h"

namespace bk {

constexpr int kSwizzleBytes = 128, kSwizzleRows = 8;

// Shared-memory matrix descriptor; `across` is the byte distance between blocks of 64 of an MN-major operand.
BK_DEVICE uint64_t smem_descriptor(uint32_t address, uint32_t across) {
    constexpr uint64_t kSwizzle128 = uint64_t(1) << 62;
    constexpr uint64_t kRowGroup = uint64_t(kSwizzleBytes * kSwizzleRows / 16) << 32;
    return kSwizzle128 | kRowGroup | static_cast<uint64_t>(across >> 4) << 16 | (address >> 4 & 0x3fff);
}

// Accumulator registers must not be touched between the fence and the wait, except by wgmma.
BK_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
BK_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most kPending committed batches are in flight.
template <int kPending>
BK_DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving accesses of accumulators across this point: it does not know that wgmma_wait() ends the
// writes of an earlier wgmma.
template <int kCount>
BK_DEVICE void keep_order(float (&registers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
// Keeps the order for A fragments, which a wgmma reads until wgmma_wait() ends it.
template <int kCount>
BK_DEVICE void keep_order(uint32_t (&registers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

// Synchronises the 128 threads of one consumer warpgroup.
BK_DEVICE void sync_warpgroup(int warpgroup) { asm volatile("bar.sync %0, 128;" ::"r"(warpgroup + 8) : "memory"); }

// Synchronises the consumer warpgroups, kThreads threads in all.
template <int kThreads>
BK_DEVICE void sync_consumers() {
    asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}

// Warpgroup order barrier (ping-pong): consumer warpgroups issue wgmma in turn. A barrier counts kThreads, those of the
// warpgroup that waits and of the one before it.
template <int kThreads>
BK_DEVICE void order_barrier_wait(int warpgroup) {
    asm volatile("bar.sync %0, %1;" ::"r"(warpgroup + 2), "n"(kThreads) : "memory");
}
template <int kThreads>
BK_DEVICE void order_barrier_arrive(int warpgroup) {
    asm volatile("bar.arrive %0, %1;" ::"r"(warpgroup + 2), "n"(kThreads) : "memory");
}

// setmaxnreg: the producer warps release registers, the consumer warpgroups acquire them.
template <int kCount>
BK_DEVICE void reg_alloc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
BK_DEVICE void reg_dealloc() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

// wgmma of element type E: d += a b, or d = a b if `is_adding` is 0.
template <class E, int kColumns>
struct Wgmma;

#define BK_REGISTERS_4(c, d, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define BK_REGISTERS_16(c, d, i) \
    BK_REGISTERS_4(c, d, i), BK_REGISTERS_4(c, d, i + 4), BK_REGISTERS_4(c, d, i + 8), BK_REGISTERS_4(c, d, i + 12)
#define BK_REGISTERS_32(c, d, i) BK_REGISTERS_16(c, d, i), BK_REGISTERS_16(c, d, i + 16)
#define BK_REGISTERS_40(c, d, i) BK_REGISTERS_32(c, d, i), BK_REGISTERS_4(c, d, i + 32), BK_REGISTERS_4(c, d, i + 36)
#define BK_REGISTERS_48(c, d, i) BK_REGISTERS_32(c, d, i), BK_REGISTERS_16(c, d, i + 32)
#define BK_REGISTERS_64(c, d, i) BK_REGISTERS_32(c, d, i), BK_REGISTERS_32(c, d, i + 32)
#define BK_REGISTERS_96(c, d, i) BK_REGISTERS_64(c, d, i), BK_REGISTERS_32(c, d, i + 64)
#define BK_REGISTERS_56(c, d, i) BK_REGISTERS_48(c, d, i), BK_REGISTERS_4(c, d, i + 48), BK_REGISTERS_4(c, d, i + 52)
#define BK_REGISTERS_88(c, d, i) \
    BK_REGISTERS_64(c, d, i), BK_REGISTERS_16(c, d, i + 64), BK_REGISTERS_4(c, d, i + 80), BK_REGISTERS_4(c, d, i + 84)
#define BK_REGISTERS_128(c, d, i) BK_REGISTERS_64(c, d, i), BK_REGISTERS_64(c, d, i + 64)
#define BK_OPERANDS_32                                                                 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
    "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define BK_OPERANDS_40 \
    BK_OPERANDS_32     \
    ", "               \
    "%32, %33, %34, %35, %36, %37, %38, %39"
#define BK_OPERANDS_48 \
    BK_OPERANDS_32     \
    ", "               \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define BK_OPERANDS_56 \
    BK_OPERANDS_48     \
    ", "               \
    "%48, %49, %50, %51, %52, %53, %54, %55"
#define BK_OPERANDS_64                                                                 \
    BK_OPERANDS_32                                                                     \
    ", "                                                                               \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define BK_OPERANDS_88                                                                 \
    BK_OPERANDS_64                                                                     \
    ", "                                                                               \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87"
#define BK_OPERANDS_96                                                                 \
    BK_OPERANDS_64                                                                     \
    ", "                                                                               \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define BK_OPERANDS_128                                                                    \
    BK_OPERANDS_96                                                                         \
    ", "                                                                                   \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "     \
    "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, " \
    "%124, %125, %126, %127"

#define BK_WGMMA_16_BIT(element, count, columns, shape, types, a, b, scale_d, trans_a, trans_b)                         \
    template <>                                                                                                         \
    struct Wgmma<element, columns> {                                                                                    \
        using Sum = float;                                                                                              \
        template <bool kAIsMnMajor, bool kBIsMnMajor>                                                                   \
        static BK_DEVICE void run(float (&d)[count], uint64_t a_at, uint64_t b_at, int is_adding) {                     \
            asm volatile("{ .reg .pred p; setp.ne.b32 p, " scale_d ", 0; wgmma.mma_async.sync.aligned." shape "." types \
                         " {" BK_OPERANDS_##count "}, " a ", " b ", p, 1, 1, " trans_a ", " trans_b "; }"               \
                         : BK_REGISTERS_##count("+f", d, 0)                                                             \
                         : "l"(a_at), "l"(b_at), "r"(is_adding), "n"(kAIsMnMajor), "n"(kBIsMnMajor)                     \
                         : "memory");                                                                                   \
        }                                                                                                               \
    };
BK_WGMMA_16_BIT(f16, 32, 64, "m64n64k16", "f32.f16.f16", "%32", "%33", "%34", "%35", "%36")
BK_WGMMA_16_BIT(f16, 40, 80, "m64n80k16", "f32.f16.f16", "%40", "%41", "%42", "%43", "%44")
BK_WGMMA_16_BIT(f16, 48, 96, "m64n96k16", "f32.f16.f16", "%48", "%49", "%50", "%51", "%52")
BK_WGMMA_16_BIT(f16, 56, 112, "m64n112k16", "f32.f16.f16", "%56", "%57", "%58", "%59", "%60")
BK_WGMMA_16_BIT(f16, 64, 128, "m64n128k16", "f32.f16.f16", "%64", "%65", "%66", "%67", "%68")
BK_WGMMA_16_BIT(f16, 88, 176, "m64n176k16", "f32.f16.f16", "%88", "%89", "%90", "%91", "%92")
BK_WGMMA_16_BIT(f16, 96, 192, "m64n192k16", "f32.f16.f16", "%96", "%97", "%98", "%99", "%100")
BK_WGMMA_16_BIT(f16, 128, 256, "m64n256k16", "f32.f16.f16", "%128", "%129", "%130", "%131", "%132")
BK_WGMMA_16_BIT(bf16, 32, 64, "m64n64k16", "f32.bf16.bf16", "%32", "%33", "%34", "%35", "%36")
BK_WGMMA_16_BIT(bf16, 40, 80, "m64n80k16", "f32.bf16.bf16", "%40", "%41", "%42", "%43", "%44")
BK_WGMMA_16_BIT(bf16, 48, 96, "m64n96k16", "f32.bf16.bf16", "%48", "%49", "%50", "%51", "%52")
BK_WGMMA_16_BIT(bf16, 56, 112, "m64n112k16", "f32.bf16.bf16", "%56", "%57", "%58", "%59", "%60")
BK_WGMMA_16_BIT(bf16, 64, 128, "m64n128k16", "f32.bf16.bf16", "%64", "%65", "%66", "%67", "%68")
BK_WGMMA_16_BIT(bf16, 88, 176, "m64n176k16", "f32.bf16.bf16", "%88", "%89", "%90", "%91", "%92")
BK_WGMMA_16_BIT(bf16, 96, 192, "m64n192k16", "f32.bf16.bf16", "%96", "%97", "%98", "%99", "%100")
BK_WGMMA_16_BIT(bf16, 128, 256, "m64n256k16", "f32.bf16.bf16", "%128", "%129", "%130", "%131", "%132")
#undef BK_WGMMA_16_BIT

// wgmma with A in registers: 64 rows, 16 for each warp, in the fragment layout of Mma.
template <class E, int kColumns>
struct WgmmaRs;

#define BK_WGMMA_RS(element, count, columns, shape, types, a0, a1, a2, a3, b, scale_d, trans_b)                         \
    template <>                                                                                                         \
    struct WgmmaRs<element, columns> {                                                                                  \
        template <bool kBIsMnMajor = false>                                                                             \
        static BK_DEVICE void run(float (&d)[count], const uint32_t (&a)[4], uint64_t b_at, int is_adding) {            \
            asm volatile("{ .reg .pred p; setp.ne.b32 p, " scale_d ", 0; wgmma.mma_async.sync.aligned." shape "." types \
                         " {" BK_OPERANDS_##count "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b ", p, 1, 1, " trans_b "; }" \
                         : BK_REGISTERS_##count("+f", d, 0)                                                             \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_at), "r"(is_adding), "n"(kBIsMnMajor)      \
                         : "memory");                                                                                   \
        }                                                                                                               \
    };
BK_WGMMA_RS(f16, 32, 64, "m64n64k16", "f32.f16.f16", "%32", "%33", "%34", "%35", "%36", "%37", "%38")
BK_WGMMA_RS(f16, 48, 96, "m64n96k16", "f32.f16.f16", "%48", "%49", "%50", "%51", "%52", "%53", "%54")
BK_WGMMA_RS(f16, 64, 128, "m64n128k16", "f32.f16.f16", "%64", "%65", "%66", "%67", "%68", "%69", "%70")
BK_WGMMA_RS(f16, 96, 192, "m64n192k16", "f32.f16.f16", "%96", "%97", "%98", "%99", "%100", "%101", "%102")
BK_WGMMA_RS(f16, 128, 256, "m64n256k16", "f32.f16.f16", "%128", "%129", "%130", "%131", "%132", "%133", "%134")
BK_WGMMA_RS(bf16, 32, 64, "m64n64k16", "f32.bf16.bf16", "%32", "%33", "%34", "%35", "%36", "%37", "%38")
BK_WGMMA_RS(bf16, 48, 96, "m64n96k16", "f32.bf16.bf16", "%48", "%49", "%50", "%51", "%52", "%53", "%54")
BK_WGMMA_RS(bf16, 64, 128, "m64n128k16", "f32.bf16.bf16", "%64", "%65", "%66", "%67", "%68", "%69", "%70")
BK_WGMMA_RS(bf16, 96, 192, "m64n192k16", "f32.bf16.bf16", "%96", "%97", "%98", "%99", "%100", "%101", "%102")
BK_WGMMA_RS(bf16, 128, 256, "m64n256k16", "f32.bf16.bf16", "%128", "%129", "%130", "%131", "%132", "%133", "%134")
#undef BK_WGMMA_RS

// Other than 16-bit operands must be K-major. f32 operands must already be rounded to TF32: the low bits are ignored.
#define BK_WGMMA_K_MAJOR(element, sum, constraint, count, columns, shape, types, a, b, scale_d, signs)                  \
    template <>                                                                                                         \
    struct Wgmma<element, columns> {                                                                                    \
        using Sum = sum;                                                                                                \
        template <bool kAIsMnMajor, bool kBIsMnMajor>                                                                   \
        static BK_DEVICE void run(Sum (&d)[count], uint64_t a_at, uint64_t b_at, int is_adding) {                       \
            static_assert(!kAIsMnMajor && !kBIsMnMajor, "no such step");                                                \
            asm volatile("{ .reg .pred p; setp.ne.b32 p, " scale_d ", 0; wgmma.mma_async.sync.aligned." shape "." types \
                         " {" BK_OPERANDS_##count "}, " a ", " b ", p" signs "; }"                                      \
                         : BK_REGISTERS_##count("+" constraint, d, 0)                                                   \
                         : "l"(a_at), "l"(b_at), "r"(is_adding)                                                         \
                         : "memory");                                                                                   \
        }                                                                                                               \
    };
BK_WGMMA_K_MAJOR(int8_t, int32_t, "r", 128, 256, "m64n256k32", "s32.s8.s8", "%128", "%129", "%130", "")
BK_WGMMA_K_MAJOR(uint8_t, int32_t, "r", 128, 256, "m64n256k32", "s32.u8.u8", "%128", "%129", "%130", "")
BK_WGMMA_K_MAJOR(float, float, "f", 128, 256, "m64n256k8", "f32.tf32.tf32", "%128", "%129", "%130", ", 1, 1")
BK_WGMMA_K_MAJOR(e4m3, float, "f", 64, 128, "m64n128k32", "f32.e4m3.e4m3", "%64", "%65", "%66", ", 1, 1")
BK_WGMMA_K_MAJOR(e5m2, float, "f", 64, 128, "m64n128k32", "f32.e5m2.e5m2", "%64", "%65", "%66", ", 1, 1")
BK_WGMMA_K_MAJOR(e5m2_by_e4m3, float, "f", 64, 128, "m64n128k32", "f32.e5m2.e4m3", "%64", "%65", "%66", ", 1, 1")
#undef BK_WGMMA_K_MAJOR

#undef BK_OPERANDS_128
#undef BK_OPERANDS_96
#undef BK_OPERANDS_88
#undef BK_OPERANDS_64
#undef BK_OPERANDS_56
#undef BK_OPERANDS_48
#undef BK_OPERANDS_40
#undef BK_OPERANDS_32
#undef BK_REGISTERS_128
#undef BK_REGISTERS_96
#undef BK_REGISTERS_88
#undef BK_REGISTERS_64
#undef BK_REGISTERS_56
#undef BK_REGISTERS_48
#undef BK_REGISTERS_40
#undef BK_REGISTERS_32
#undef BK_REGISTERS_16
#undef BK_REGISTERS_4

}  // namespace bk
