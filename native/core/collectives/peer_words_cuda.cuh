// SPDX-License-Identifier: Apache-2.0
// Relaxed accesses of system scope: PTX makes each element of a vector an atomic access of its own. The functions are of
// kernels alone.
#pragma once

#include <cstdint>

#include "core/collectives/peer_words.h"

namespace bk {

BK_HD WordPair load_words([[maybe_unused]] const WordPair* from) {
    WordPair pair{};
#if BK_ON_GPU
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(pair.word[0]), "=l"(pair.word[1])
                 : "l"(from)
                 : "memory");
#endif
    return pair;
}

BK_HD void store_words([[maybe_unused]] WordPair* to, [[maybe_unused]] WordPair pair) {
#if BK_ON_GPU
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(pair.word[0]), "l"(pair.word[1]) : "memory");
#endif
}

BK_HD int32_t load_status([[maybe_unused]] const int32_t* from) {
    int32_t value = 0;
#if BK_ON_GPU
    asm volatile("ld.relaxed.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
#endif
    return value;
}

BK_HD void store_status([[maybe_unused]] int32_t* to, [[maybe_unused]] int32_t value) {
#if BK_ON_GPU
    asm volatile("st.relaxed.sys.global.s32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
#endif
}

BK_HD int64_t nanoseconds() {
    int64_t now = 0;
#if BK_ON_GPU
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
#endif
    return now;
}

BK_HD void pause_briefly() {
#if BK_ON_GPU
    __nanosleep(100);
#endif
}

}  // namespace bk
