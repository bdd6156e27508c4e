// SPDX-License-Identifier: Apache-2.0
// The target of this compilation. Nothing outside native/core asks which one it is.
#pragma once

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define BK_CUDA 1
#define BK_HD __host__ __device__ __forceinline__
#define BK_DEVICE __device__ __forceinline__
#define BK_DEVICE_COLD __device__ __noinline__ inline
// Dynamic shared memory, whose size the launch gives.
#define BK_LAUNCH_SHARED(type, name) extern __shared__ type name[]
#else
#define BK_CUDA 0
#define BK_HD inline __attribute__((always_inline))
#endif

// True inside code that runs on the GPU, where the CUDA intrinsics are.
#if defined(__CUDA_ARCH__)
#define BK_ON_GPU 1
#else
#define BK_ON_GPU 0
#endif

// True inside code that the threads of a kernel run, on a GPU or, in tests, on fibers of a CPU, which have its barriers.
#define BK_IN_KERNEL BK_ON_GPU

// Precedes a loop of few iterations over GPU registers.
#if BK_ON_GPU
#define BK_UNROLL _Pragma("unroll")
#else
#define BK_UNROLL
#endif

// Host code that thousands of entry points share: one copy of it is enough.
#define BK_COLD __attribute__((noinline))

// Follows the parameters of a lambda in vector code on the CPU. Without it GCC compiles some apart, for the baseline.
#if BK_CUDA
#define BK_INLINED
#else
#define BK_INLINED __attribute__((always_inline))
#endif

#define BK_RESTRICT __restrict__
