// Stands in for native/core/matmul/tensor_core.cuh: what the threads of a warp do together, by memory that all see.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/abi/launch_cuda.h"
#include "core/matmul/narrow_factors.cuh"
#include "core/platform.h"
#include "core/types/dtype.h"

inline float __shfl_xor_sync(unsigned mask, float value, int distance) {
    uint32_t word;
    memcpy(&word, &value, sizeof(word));
    word = __shfl_xor_sync(mask, word, distance);
    memcpy(&value, &word, sizeof(value));
    return value;
}

namespace bk {

// What copies may read.
struct Readable {
    const char *low, *high;
};
inline std::vector<Readable> readable;

struct Copy {
    void* to;
    const void* from;
    int bytes;
};
inline thread_local std::vector<Copy> open_group;
inline thread_local std::vector<std::vector<Copy>> copy_groups;

inline void require(bool holds, const char* what) {
    if (holds) return;
    puts(what);
    abort();
}

inline void start_copy_16(void* to, const void* from, int bytes) {
    const char* first = static_cast<const char*>(from);
    require(reinterpret_cast<uintptr_t>(to) % 16 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0, "a copy is misaligned");
    bool inside = bytes == 0;
    for (const Readable& r : readable) inside = inside || (first >= r.low && first + bytes <= r.high);
    require(inside && bytes >= 0 && bytes <= 16, "a copy reads outside");
    open_group.push_back({to, from, bytes});
}

inline void end_copy_group() {
    copy_groups.push_back(open_group);
    open_group.clear();
}

// As late as may be, so that a kernel that waits for too few finds what was there before.
template <int kPending>
void wait_for_copies() {
    while (static_cast<int>(copy_groups.size()) > kPending) {
        for (const Copy& copy : copy_groups.front()) {
            memset(copy.to, 0, 16);
            if (copy.bytes > 0) memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
        }
        copy_groups.erase(copy_groups.begin());
    }
}

inline const char* lane_row[32][32];
inline uint32_t lane_words[32][32][6];

inline void load_matrices(uint32_t (&words)[4], const void* row) {
    const unsigned int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    require(reinterpret_cast<uintptr_t>(row) % 16 == 0, "a row of a matrix is misaligned");
    lane_row[warp][lane] = static_cast<const char*>(row);
    __syncwarp();
    for (unsigned int i = 0; i < 4; ++i) memcpy(&words[i], lane_row[warp][8 * i + lane / 4] + 4 * (lane % 4), 4);
    __syncwarp();
}

inline void load_matrices_turned(uint32_t (&words)[4], const void* row) {
    const unsigned int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    require(reinterpret_cast<uintptr_t>(row) % 16 == 0, "a row of a matrix is misaligned");
    lane_row[warp][lane] = static_cast<const char*>(row);
    __syncwarp();
    for (unsigned int i = 0; i < 4; ++i) {
        uint16_t pair[2];
        for (unsigned int half = 0; half < 2; ++half)
            memcpy(&pair[half], lane_row[warp][8 * i + 2 * (lane % 4) + half] + 2 * (lane / 4), 2);
        memcpy(&words[i], pair, 4);
    }
    __syncwarp();
}

inline uint32_t round_to_tf32(uint32_t bits) {
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}

// 16 x 8 sums of products, each of 32 bytes of a row of A and a column of B.
template <class T>
struct TensorStep {
    using Sum =
        std::conditional_t<std::is_integral_v<T>, int32_t, std::conditional_t<std::is_same_v<T, double>, double, float>>;

    static void run(Sum (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        const unsigned int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        uint32_t (*words)[6] = lane_words[warp];
        memcpy(words[lane], a, sizeof(a));
        memcpy(words[lane] + 4, b, sizeof(b));
        __syncwarp();
        constexpr unsigned int kTerms = 32 / sizeof(T), kWords = sizeof(T) / 4;
        for (unsigned int v = 0; v < 4; ++v) {
            const unsigned int row = lane / 4 + v / 2 * 8, column = lane % 4 * 2 + v % 2;
            T x[kTerms], y[kTerms];
            char *to_x = reinterpret_cast<char*>(x), *to_y = reinterpret_cast<char*>(y);
            if constexpr (kWords == 2) {
                for (unsigned int t = 0; t < 4; ++t) {
                    memcpy(to_x + 8 * t, &words[row % 8 * 4 + t][row / 8 * 2], 8);
                    memcpy(to_y + 8 * t, &words[column * 4 + t][4], 8);
                }
            } else {
                for (unsigned int t = 0; t < 8; ++t) {
                    memcpy(to_x + 4 * t, &words[row % 8 * 4 + t % 4][row / 8 + t / 4 * 2], 4);
                    memcpy(to_y + 4 * t, &words[column * 4 + t % 4][4 + t / 4], 4);
                }
            }
            for (unsigned int t = 0; t < kTerms; ++t) d[v] += static_cast<Sum>(widen(x[t])) * static_cast<Sum>(widen(y[t]));
        }
        __syncwarp();
    }
};

template <>
struct TensorStep<e4m3> : StepOfHalves<TensorStep<f16>, e4m3> {};
template <>
struct TensorStep<e5m2> : StepOfHalves<TensorStep<f16>, e5m2> {};
template <>
struct TensorStep<s4x2> : StepOfBytes<TensorStep<int8_t>, s4x2> {};
template <>
struct TensorStep<u4x2> : StepOfBytes<TensorStep<uint8_t>, u4x2> {};
template <>
struct TensorStep<b1x8> : StepOfBytes<TensorStep<int8_t>, b1x8> {};

}  // namespace bk
