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
#define BK_DEVICE_COLD inline
#define BK_COLD __attribute__((noinline))
#define BK_RESTRICT __restrict__

#define __global__ inline
#define __device__
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

// Lanes of a warp meet twice: after each has said what it has, and after each has heard another.
inline pthread_barrier_t warp_barrier[32];
inline uint32_t lane_word[32][32];

inline uint32_t exchange(uint32_t word, int from) {
    const unsigned int warp = threadIdx.x / 32;
    lane_word[warp][threadIdx.x % 32] = word;
    pthread_barrier_wait(&warp_barrier[warp]);
    const uint32_t heard = lane_word[warp][from];
    pthread_barrier_wait(&warp_barrier[warp]);
    return heard;
}

inline uint32_t __shfl_up_sync(unsigned, uint32_t word, int distance, int width) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    return exchange(word, lane % width >= distance ? lane - distance : lane);
}

inline uint32_t __shfl_sync(unsigned, uint32_t word, int from, int width) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    return exchange(word, lane / width * width + from % width);
}

inline uint32_t __shfl_xor_sync(unsigned, uint32_t word, int distance) {
    return exchange(word, static_cast<int>(threadIdx.x % 32) ^ distance);
}

inline int __any_sync(unsigned, int mine) {
    uint32_t any = mine != 0;
    for (int distance = 1; distance < 32; distance *= 2) any |= __shfl_xor_sync(~0u, any, distance);
    return static_cast<int>(any);
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

// Blocks run one after another, so what one leaves the next finds.
inline void __syncwarp() { pthread_barrier_wait(&warp_barrier[threadIdx.x / 32]); }
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, unsigned bits) {
    return static_cast<uint32_t>((static_cast<uint64_t>(high) << 32 | low) >> (bits & 31));
}
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline uint32_t atomicAdd(uint32_t* p, uint32_t value) { return __atomic_fetch_add(p, value, __ATOMIC_RELAXED); }
inline int atomicMax(int* p, int value) {
    int seen = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (seen < value && !__atomic_compare_exchange_n(p, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return seen;
}
inline int __popc(unsigned int bits) { return __builtin_popcount(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits)); }

template <class T>
T __ldcs(const T* p) {
    return *p;
}
template <class T>
void __stcs(T* p, T value) {
    *p = value;
}

inline int min(int a, int b) { return b < a ? b : a; }
inline int64_t min(int64_t a, int64_t b) { return b < a ? b : a; }
inline uint32_t min(uint32_t a, uint32_t b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }

float erfinvf(float);
double erfinv(double);
