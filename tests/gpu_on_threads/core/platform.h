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
inline dim3 gridDim;
inline pthread_barrier_t block_barrier;

inline void __syncthreads() { pthread_barrier_wait(&block_barrier); }

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
