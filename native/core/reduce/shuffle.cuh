// Structs between the threads of a warp.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/platform.h"

namespace bk {

template <class Acc>
BK_DEVICE Acc shuffle_xor(const Acc& mine, int distance) {
    constexpr int kWords = (sizeof(Acc) + 3) / 4;
    uint32_t word[kWords] = {};
    memcpy(word, &mine, sizeof(Acc));
#pragma unroll
    for (int i = 0; i < kWords; ++i) word[i] = __shfl_xor_sync(0xffffffffu, word[i], distance);
    Acc other;
    memcpy(&other, word, sizeof(Acc));
    return other;
}

template <class Acc>
BK_DEVICE Acc shuffle_from(const Acc& mine, int lane) {
    constexpr int kWords = (sizeof(Acc) + 3) / 4;
    uint32_t word[kWords] = {};
    memcpy(word, &mine, sizeof(Acc));
#pragma unroll
    for (int i = 0; i < kWords; ++i) word[i] = __shfl_sync(0xffffffffu, word[i], lane);
    Acc other;
    memcpy(&other, word, sizeof(Acc));
    return other;
}

template <class Acc>
BK_DEVICE Acc shuffle_up(const Acc& mine, int distance) {
    constexpr int kWords = (sizeof(Acc) + 3) / 4;
    uint32_t word[kWords] = {};
    memcpy(word, &mine, sizeof(Acc));
#pragma unroll
    for (int i = 0; i < kWords; ++i) word[i] = __shfl_up_sync(0xffffffffu, word[i], distance);
    Acc other;
    memcpy(&other, word, sizeof(Acc));
    return other;
}

}  // namespace bk
