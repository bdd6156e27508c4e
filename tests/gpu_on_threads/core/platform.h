// Stands in for native/core/platform.h: CUDA kernels as functions that the threads of a CPU run, a block after another.
#pragma once

#include <pthread.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#define BK_CUDA 1
#define BK_ON_GPU 0
#define BK_HD inline __attribute__((always_inline))
#define BK_DEVICE inline
#define BK_COLD __attribute__((noinline))
#define BK_RESTRICT __restrict__

#define __global__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__
#define BK_LAUNCH_SHARED(type, name) static type name[49152 / sizeof(type)]

struct uint2 {
    unsigned int x, y;
};
struct uint3 {
    unsigned int x, y, z;
};
struct alignas(16) uint4 {
    unsigned int x, y, z, w;
};
struct dim3 {
    unsigned int x, y, z;
    constexpr explicit dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1) : x(x_), y(y_), z(z_) {}
};

inline thread_local uint3 threadIdx, blockIdx;
inline dim3 gridDim, blockDim;
inline pthread_barrier_t block_barrier;

inline void __syncthreads() { pthread_barrier_wait(&block_barrier); }

// The warps of a block. Every thread of one takes part in what it exchanges.
struct WarpOnThreads {
    pthread_barrier_t barrier;
    unsigned long long word[32];
};
inline WarpOnThreads warps_of_block[32];

// read(what all threads of the warp gave).
template <class T, class Read>
auto exchange_in_warp(T mine, const Read& read) {
    WarpOnThreads& warp = warps_of_block[threadIdx.x / 32];
    warp.word[threadIdx.x % 32] = static_cast<unsigned long long>(mine);
    pthread_barrier_wait(&warp.barrier);
    const auto result = read(warp.word);
    pthread_barrier_wait(&warp.barrier);
    return result;
}

inline uint32_t __shfl_xor_sync(unsigned, uint32_t mine, int distance) {
    return exchange_in_warp(mine, [&](const unsigned long long* word) {
        return static_cast<uint32_t>(word[(threadIdx.x % 32) ^ static_cast<unsigned>(distance)]);
    });
}

inline int __any_sync(unsigned, int mine) {
    return exchange_in_warp(mine != 0, [&](const unsigned long long* word) {
        int any = 0;
        for (unsigned i = 0; i < 32 && (threadIdx.x / 32) * 32 + i < blockDim.x; ++i) any |= static_cast<int>(word[i]);
        return any;
    });
}

inline int __syncthreads_or(int mine) {
    static int any[2];
    static thread_local unsigned turn = 0;
    int& place = any[turn++ & 1];
    if (threadIdx.x == 0) place = 0;
    __syncthreads();
    if (mine) __atomic_store_n(&place, 1, __ATOMIC_SEQ_CST);
    __syncthreads();
    const int result = __atomic_load_n(&place, __ATOMIC_SEQ_CST);
    __syncthreads();
    return result;
}

template <class T>
T __ldcs(const T* p) {
    return *p;
}
template <class T>
void __stcs(T* p, T value) {
    *p = value;
}

inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }

float erfinvf(float);
double erfinv(double);
