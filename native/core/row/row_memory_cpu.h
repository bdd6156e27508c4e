// SPDX-License-Identifier: Apache-2.0
// Strided gather and scatter of row elements, and software prefetch, on the CPU.
#pragma once

#include <cstdint>

#include "core/compiler_cpu.h"
#include "core/platform.h"

namespace bk {

// Strided copies; vector code would not pay for its compile time.
template <class T>
BK_COLD void gather_run(T* to, const T* from, int64_t step, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}
template <class T>
BK_COLD void scatter_run(T* to, const T* from, int64_t step, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i * step] = from[i];
}

// Prefetches the cache lines of `count` elements, to be read or written. Always inlined: GCC drops calls that only
// prefetch.
template <int kWrites, class T>
__attribute__((always_inline)) inline void prefetch_chunk(const T* x, int count) {
    for (int i = 0; i < count; i += 64 / static_cast<int>(sizeof(T))) __builtin_prefetch(x + i, kWrites);
}

}  // namespace bk
