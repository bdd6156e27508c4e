// SPDX-License-Identifier: Apache-2.0
// Replaces native/core/platform.h: CUDA kernels as functions that fibers run, block after block.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/fibers.h"

#define BK_CUDA 1
#define BK_ON_GPU 0
#define BK_IN_KERNEL 1
#define BK_UNROLL
#define BK_INLINED
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
// Blocks run one after another, so clusters exist only in programs that define BK_FIBER_CLUSTERS. Their kernels run
// twice: the second run reads what the other blocks published in the first.
#if defined(BK_FIBER_CLUSTERS)
#define __CUDA_ARCH_LIST__ 900
#else
#define __CUDA_ARCH_LIST__ 800
#endif
#define BK_LAUNCH_SHARED(type, name) static type name[fibers::kMaxShared / sizeof(type)]

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

inline uint3 threadIdx, blockIdx;
inline dim3 gridDim, blockDim;

inline void __syncthreads() { fibers::sync_block(); }
inline void __syncwarp(unsigned mask = ~0u) { fibers::sync_warp(mask, 0); }
inline void __threadfence() {}

// Word that `lane` of the calling warp exchanged last.
inline uint32_t lane_word(int lane) { return fibers::exchanged[fibers::current / 32 * 32 + static_cast<unsigned>(lane)]; }
inline int own_lane() { return static_cast<int>(fibers::current % 32); }

template <class T>
T from_lane(unsigned mask, const T& mine, int lane) {
    constexpr int kWords = (sizeof(T) + 3) / 4;
    uint32_t word[kWords] = {};
    memcpy(word, &mine, sizeof(T));
    for (uint32_t& w : word) {
        fibers::sync_warp(mask, w);
        if (!(mask >> lane & 1)) fibers::die("reads a lane that is not in the mask");
        w = lane_word(lane);
    }
    T other;
    memcpy(&other, word, sizeof(T));
    return other;
}

template <class T>
T __shfl_up_sync(unsigned mask, T mine, int distance, int width = 32) {
    const int lane = own_lane();
    return from_lane(mask, mine, lane % width >= distance ? lane - distance : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T mine, int distance, int width = 32) {
    const int lane = own_lane();
    return from_lane(mask, mine, lane % width + distance < width ? lane + distance : lane);
}
template <class T>
T __shfl_sync(unsigned mask, T mine, int from, int width = 32) {
    return from_lane(mask, mine, own_lane() / width * width + from % width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T mine, int distance) {
    return from_lane(mask, mine, own_lane() ^ distance);
}

inline unsigned __ballot_sync(unsigned mask, int mine) {
    fibers::sync_warp(mask, mine != 0);
    unsigned set = 0;
    for (int lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1 && fibers::current / 32 * 32 + lane < fibers::threads && lane_word(lane)) set |= 1u << lane;
    return set;
}
inline int __any_sync(unsigned mask, int mine) { return __ballot_sync(mask, mine) != 0; }
inline int __all_sync(unsigned mask, int mine) { return __ballot_sync(mask, !mine) == 0; }
template <class T>
unsigned __match_any_sync(unsigned mask, T mine) {
    unsigned equal = mask;
    for (size_t i = 0; i < sizeof(T); i += 4) {
        uint32_t word = 0;
        memcpy(&word, reinterpret_cast<const char*>(&mine) + i, sizeof(T) < 4 ? sizeof(T) : 4);
        fibers::sync_warp(mask, word);
        for (int lane = 0; lane < 32; ++lane)
            if (lane_word(lane) != word) equal &= ~(1u << lane);
    }
    return equal;
}

inline int __syncthreads_or(int mine) {
    static int any = 0;
    any |= mine != 0;
    __syncthreads();
    const int result = any;
    __syncthreads();
    any = 0;
    __syncthreads();
    return result;
}

// Fibers are not preempted, so plain reads and writes are atomic.
template <class T>
T atomicAdd(T* p, std::common_type_t<T> value) {
    const T old = *p;
    *p = static_cast<T>(old + value);
    return old;
}
template <class T>
T atomicMax(T* p, std::common_type_t<T> value) {
    const T old = *p;
    *p = old < value ? value : old;
    return old;
}
template <class T>
T atomicMin(T* p, std::common_type_t<T> value) {
    const T old = *p;
    *p = value < old ? value : old;
    return old;
}
template <class T>
T atomicExch(T* p, std::common_type_t<T> value) {
    const T old = *p;
    *p = value;
    return old;
}
template <class T>
T atomicCAS(T* p, std::common_type_t<T> expected, std::common_type_t<T> wanted) {
    const T old = *p;
    if (old == expected) *p = wanted;
    return old;
}

inline uint32_t atomicOr(uint32_t* p, uint32_t bits) {
    const uint32_t old = *p;
    *p |= bits;
    return old;
}

inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, unsigned bits) {
    return static_cast<uint32_t>((static_cast<uint64_t>(high) << 32 | low) >> (bits & 31));
}
inline int __popc(unsigned int bits) { return __builtin_popcount(bits); }
// Selects bytes of two words by the nibbles of `selector`.
inline unsigned int __byte_perm(unsigned int low, unsigned int high, unsigned int selector) {
    const unsigned long long bytes = static_cast<unsigned long long>(high) << 32 | low;
    unsigned int result = 0;
    for (int i = 0; i < 4; ++i) result |= static_cast<unsigned int>(bytes >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
    return result;
}
inline int __ffs(int bits) { return __builtin_ffs(bits); }
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
inline int64_t max(int64_t a, int64_t b) { return a < b ? b : a; }

float erfinvf(float);
double erfinv(double);
