// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>

#include "core/collectives/peer_words.h"

namespace bk {

inline WordPair load_words(const WordPair* from) {
    return {{__atomic_load_n(&from->word[0], __ATOMIC_RELAXED), __atomic_load_n(&from->word[1], __ATOMIC_RELAXED)}};
}

inline void store_words(WordPair* to, WordPair pair) {
    for (int i = 0; i < 2; ++i) __atomic_store_n(&to->word[i], pair.word[i], __ATOMIC_RELAXED);
}

inline int32_t load_status(const int32_t* from) { return __atomic_load_n(from, __ATOMIC_RELAXED); }
inline void store_status(int32_t* to, int32_t value) { __atomic_store_n(to, value, __ATOMIC_RELAXED); }

inline int64_t nanoseconds() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void pause_briefly() { sched_yield(); }

}  // namespace bk
