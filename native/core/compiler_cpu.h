// SPDX-License-Identifier: Apache-2.0
// Attributes and pragmas that GCC and clang spell differently: target instruction sets, and vectorised loops.
#pragma once

// Processors without AVX2 (before 2013) do not justify GCC's time to vectorise for them. `flatten` inlines calls: at any
// depth with GCC, direct calls only with clang. That suffices: with clang 14, f32 loops take 0.7 to 1.1 of GCC's time, tan
// 1.3.
#if defined(__clang__)
#define BK_FOR_BASELINE __attribute__((flatten))
#define BK_FOR_AVX2 __attribute__((flatten, target("avx2,fma,f16c,bmi2")))
#define BK_FOR_AVX512 \
    __attribute__((flatten, target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi2"), min_vector_width(512)))
#else
#define BK_FOR_BASELINE __attribute__((flatten, optimize("no-tree-vectorize")))
#define BK_FOR_AVX2 __attribute__((flatten, target("avx2,fma,f16c,bmi2")))
#define BK_FOR_AVX512 \
    __attribute__((flatten, target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi2,prefer-vector-width=512")))
#endif

// BK_VECTOR_LOOP precedes a loop without dependences between iterations. clang warns if it cannot vectorise one
// (-Wpass-failed): f64 loops that call the C library, which has vector variants for GCC only, and loops that branch.
// BK_CHUNK_LOOP has a constant length of more than 16 elements and may be unrolled into vectors that stay in registers
// between loops; GCC would scalarise a shorter one.
#if defined(__clang__)
#define BK_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#define BK_CHUNK_LOOP BK_VECTOR_LOOP
#else
#define BK_VECTOR_LOOP _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#define BK_CHUNK_LOOP _Pragma("GCC ivdep")
#endif

// BK_OPAQUE(index) hides a variable's value, so that loads by it stay scalar: one a cycle, where gathers of AVX-512 and AVX2
// take two or three for each element.
#define BK_OPAQUE(index) asm("" : "+r"(index))

// BK_FUSED on a function and BK_FUSE_PRODUCTS at the start of its block let x * y + z contract to an FMA. GCC needs the
// first, clang the second.
#if defined(__clang__)
#define BK_FUSED
#define BK_FUSE_PRODUCTS _Pragma("clang fp contract(fast)")
#else
#define BK_FUSED __attribute__((optimize("fp-contract=fast")))
#define BK_FUSE_PRODUCTS
#endif

// BK_KEEPS_COPIES keeps short copy loops, which GCC would replace by slow string instructions.
#if defined(__clang__)
#define BK_KEEPS_COPIES
#else
#define BK_KEEPS_COPIES __attribute__((optimize("no-tree-loop-distribute-patterns")))
#endif

// Functions that also use the dot-product instructions of AVX-512: BF16 and VNNI.
#if defined(__clang__)
#define BK_FOR_AVX512_DOT \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni"), min_vector_width(512)))
#else
#define BK_FOR_AVX512_DOT \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,prefer-vector-width=512")))
#endif

// Shuffles the lanes of two vectors by constant indices; those of the second follow the first's. `Mask` is an integer
// vector of the same lane width.
#if defined(__clang__)
#define BK_SHUFFLE(Mask, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define BK_SHUFFLE(Mask, a, b, ...) __builtin_shuffle(a, b, Mask{__VA_ARGS__})
#endif
