// SPDX-License-Identifier: Apache-2.0
// What GCC and clang spell differently: functions compiled for an instruction set, and loops that become vector code.
#pragma once

// Vectorising for processors without AVX2, of before 2013, is not worth the time that it takes GCC. Whatever a `flatten`
// function calls becomes part of it: with GCC at any depth, with clang its direct calls, beyond which size decides. That was
// enough where it was measured: with clang 14 the loops of f32 take 0.7 to 1.1 of GCC's time, tan 1.3.
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

// Before a loop: no step reads what an earlier one wrote. clang warns of such a loop where it finds no vector code
// (-Wpass-failed): those of f64 that call the C library, which has vector variants for GCC alone, and those that branch.
// BK_CHUNK_LOOP has a constant length of more than 16 elements and may become as many vectors, so that what one loop leaves
// is still in registers in the next. GCC would make single elements of one that is shorter.
#if defined(__clang__)
#define BK_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#define BK_CHUNK_LOOP BK_VECTOR_LOOP
#else
#define BK_VECTOR_LOOP _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#define BK_CHUNK_LOOP _Pragma("GCC ivdep")
#endif

// Of a lambda in vector code: part of what calls it.
#define BK_INLINED __attribute__((always_inline))

// Of a function, and at the beginning of a block in it: x * y + z may be one operation with one rounding. GCC asks for the
// first, clang for the second.
#if defined(__clang__)
#define BK_FUSED
#define BK_FUSE_PRODUCTS _Pragma("clang fp contract(fast)")
#else
#define BK_FUSED __attribute__((optimize("fp-contract=fast")))
#define BK_FUSE_PRODUCTS
#endif

// BK_KEEPS_COPIES: short loops that copy stay loops, which GCC would make slow string instructions.
#if defined(__clang__)
#define BK_KEEPS_COPIES
#else
#define BK_KEEPS_COPIES __attribute__((optimize("no-tree-loop-distribute-patterns")))
#endif

// Of a function: the instructions of AVX-512 that sum products of neighbouring 16-bit floats and 8-bit integers as well.
#if defined(__clang__)
#define BK_FOR_AVX512_DOT \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni"), min_vector_width(512)))
#else
#define BK_FOR_AVX512_DOT \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,prefer-vector-width=512")))
#endif

// Lanes of two vectors in any order, constants that count those of the second behind the first's. `Mask` is a vector of
// integers as wide as theirs.
#if defined(__clang__)
#define BK_SHUFFLE(Mask, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define BK_SHUFFLE(Mask, a, b, ...) __builtin_shuffle(a, b, Mask{__VA_ARGS__})
#endif
