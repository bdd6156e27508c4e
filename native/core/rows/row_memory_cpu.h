// How rows on the CPU are brought from memory and back.
#pragma once

#include <cstdint>

#include "core/compiler_cpu.h"
#include "core/platform.h"

namespace bk {

// Elements that lie apart: no loop of vectors is worth its time to compile.
template <class T>
BK_COLD void gather_run(T* to, const T* from, int64_t step, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}
template <class T>
BK_COLD void scatter_run(T* to, const T* from, int64_t step, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i * step] = from[i];
}

// The lines of `count` elements, to be read or written. Inlined at once, for GCC takes a call that does no more than this for
// one without effect.
template <int kWrites, class T>
__attribute__((always_inline)) inline void ask_for_chunk(const T* x, int count) {
    for (int i = 0; i < count; i += 64 / static_cast<int>(sizeof(T))) __builtin_prefetch(x + i, kWrites);
}

}  // namespace bk
