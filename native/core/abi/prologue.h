/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * baracuda: machine-learning kernels behind a C ABI.
 *
 * Written by tools/gen_abi.py from native/core/abi/prologue.h and the op tables native/<family>/<table>.abi: edit those.
 *
 * For every op and dtype there is
 *   baracuda_kernels_<op>_<dtype>_run             enqueues the op on `stream`;
 *   baracuda_kernels_<op>_<dtype>_can_implement   checks the scalars and host arrays that it takes, as _run does; data
 *                                                 pointers are ignored;
 *   baracuda_kernels_<op>_<dtype>_workspace_size  bytes of workspace that the op can use, where it can use one.
 *
 * Pointers   Device pointers, naturally aligned for their dtype; host pointers in the CPU library. `host` marks arrays
 *            that lie in host memory and are read before the call returns; at rank 0 they may be NULL. `ins` and `outs`
 *            mark such arrays of pointers, "n of" operands. An output that may be NULL, such as an unwanted gradient, is
 *            then not computed. No operand spans more than 2^47 bytes.
 * Shapes     Row-major and contiguous unless strides are passed. Strides count elements and have any sign. 0 broadcasts
 *            an input and, where the op says so, sums a gradient over that axis; other outputs take none along an axis of
 *            several elements. A stride times the extent of its axis, or times 1, is at most 2^47 bytes either way, of
 *            empty operands too. Of `[rows by stride, columns]` rows lie `stride` elements apart, in an output of several
 *            rows `columns` or more. A rank is 0 to 8, an axis in [0, rank), no extent negative; a number of elements
 *            beside a shape, as numel, is the product of its extents.
 * Pitches    A pitch (lda, ldb ...) counts elements from one row of a matrix to the next, at least as many as a row has. A
 *            matrix of one row has none: its pitch is ignored unless the op says otherwise. The pitch of a matrix that
 *            may be NULL may be 0 where that is NULL, or C with beta 0.
 * Checks     In this order: scalars and host arrays, whatever the extents, which is all that _can_implement looks at;
 *            then pointers: NULL, alignment, overlap; then the workspace.
 * Empty      Operands without elements are not looked at and may be NULL. Without an output element to write a call returns
 *            0. Where it has nothing to read, as in a gradient summed over an axis of extent 0, outputs become 0, and
 *            inputs are not looked at.
 * dtypes     f16: IEEE 754 binary16. bf16: upper half of binary32. Arithmetic on both is done in f32 and rounded once.
 *            fp8e4m3 (no infinities, at most 448), fp8e5m2 (at most 57344): a byte each, OCP 8-bit floating point.
 *            bool: a byte, set unless 0; results are 0 or 1. s4, u4: two 4-bit integers a byte, the first in its low
 *            half. c32, c64: two f32 or f64, the real part first, aligned to 8 or 16 bytes as one element.
 * NaN        Arithmetic that gives NaN gives any: its sign and payload are not defined, and may depend on the number of
 *            threads, the instructions and the chip. What is moved or selected keeps every bit.
 * Parameters Ops named `_param` take real parameters as f64, rounded once to the type of the arithmetic, and integers
 *            as i64. Ops of the same name without it take f32, or have the parameters' usual values.
 * Workspace  The caller's, of _workspace_size bytes or more, any alignment and content. Unless the op says otherwise NULL
 *            is allowed, and a shorter one counts as NULL, or is used as far as it goes: then the op promises no more than
 *            without one. Where the op needs it, or stores results in it, a shorter one is status 4.
 * Stream     A cudaStream_t of the current device; NULL is the per-thread default stream. The CPU library ignores it.
 * Guarantees No call allocates device memory, synchronises, prints, throws or keeps state, so every call can be captured
 *            in a CUDA graph. A call takes at most 32 KiB of stack, on each thread that it uses.
 * Overlap    An output shares no memory with another operand, input or output, but for the inputs that it "may be": then
 *            both have the same pointer, extents, strides or pitches, and elements of one size, and the output is not
 *            summed. All else is status 2 where the ranges tell,or where first or last elements coincide; views that
 *            interleave are not told apart.
 * Errors     Every function with an int32_t result returns a baracuda_status. After a failure nothing has been written
 *            (except status 5) and baracuda_kernels_last_error() names the argument.
 */
#ifndef BARACUDA_KERNELS_H
#define BARACUDA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define BARACUDA_API __attribute__((visibility("default")))
#else
#define BARACUDA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with every change that an existing caller could notice; additions leave it as it is. */
#define BARACUDA_ABI_VERSION 1

enum baracuda_status {
    BARACUDA_STATUS_OK = 0,
    BARACUDA_STATUS_MISALIGNED = 1,          /* an operand is not aligned for its dtype */
    BARACUDA_STATUS_INVALID_PROBLEM = 2,     /* negative extent, rank or axis out of range, NULL pointer */
    BARACUDA_STATUS_UNSUPPORTED = 3,         /* well formed, but nothing here computes it */
    BARACUDA_STATUS_WORKSPACE_TOO_SMALL = 4, /* workspace NULL or too short, where the op needs one */
    BARACUDA_STATUS_INTERNAL = 5             /* the launch failed */
};

/* Library. Strings are static, or valid until the calling thread's next failing call; never NULL. */
BARACUDA_API int32_t baracuda_kernels_abi_version(void);
/* 16 hexadecimal digits over all prototypes: equal hashes, equal ABI. */
BARACUDA_API const char* baracuda_kernels_abi_hash(void);
/* JSON object: backend ("cpu" or "cuda"), version, commit, compiler, archs (list of "sm_<number>"); of the CPU library on
   x86-64 isa, the instructions in use: "baseline", "avx2" or "avx512". It is the best that the processor has, or a lesser
   one that the environment variable BARACUDA_CPU_ISA names when the library is first used. Of the CUDA library vendors: for
   each of NVIDIA's libraries that an op may open, by its cuda.pathfinder name, its name, its sonames, the most wanted first,
   and the PyPI packages that hold it, for CUDA 13 and 12. Of a library that was built as a part of the whole, families and
   dtypes: the lists that it was restricted to. */
BARACUDA_API const char* baracuda_kernels_build_info(void);
/* "invalid problem" for 2; "unknown status" for a code that is none. */
BARACUDA_API const char* baracuda_kernels_status_name(int32_t status);
/* Text of the calling thread's last failure, "<op>: <argument> is <value>, must be ..."; empty before the first. */
BARACUDA_API const char* baracuda_kernels_last_error(void);
/* The exported functions in header order, these included; NULL outside [0, count). */
BARACUDA_API int64_t baracuda_kernels_symbol_count(void);
BARACUDA_API const char* baracuda_kernels_symbol_name(int64_t index);
