// SPDX-License-Identifier: Apache-2.0
// Warp shuffles of structs.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/platform.h"

namespace bk {

// Exchanges a struct word by word with shuffle(word).
template <class Acc, class Shuffle>
BK_DEVICE Acc shuffle_words(const Acc& mine, const Shuffle& shuffle) {
    constexpr int kWords = (sizeof(Acc) + 3) / 4;
    uint32_t word[kWords] = {};
    memcpy(word, &mine, sizeof(Acc));
#pragma unroll
    for (int i = 0; i < kWords; ++i) word[i] = shuffle(word[i]);
    Acc other;
    memcpy(&other, word, sizeof(Acc));
    return other;
}

template <class Acc>
BK_DEVICE Acc shuffle_xor(const Acc& mine, int distance) {
    return shuffle_words(mine, [&](uint32_t word) { return __shfl_xor_sync(0xffffffffu, word, distance); });
}

template <class Acc>
BK_DEVICE Acc shuffle_from(const Acc& mine, int lane) {
    return shuffle_words(mine, [&](uint32_t word) { return __shfl_sync(0xffffffffu, word, lane); });
}

template <class Acc>
BK_DEVICE Acc shuffle_up(const Acc& mine, int distance) {
    return shuffle_words(mine, [&](uint32_t word) { return __shfl_up_sync(0xffffffffu, word, distance); });
}

}  // namespace bk
