// SPDX-License-Identifier: Apache-2.0
// Replaces native/core/scatter/atomics.cuh: fibers are not preempted, so plain additions are atomic.
#pragma once

#include "core/platform.h"
#include "core/types/dtype.h"
#include "core/types/vec.h"

namespace bk {

template <int N, class T, class C>
void atomic_add(T* pointer, const C (&value)[N]) {
    if (reinterpret_cast<uintptr_t>(pointer) % (N * sizeof(T)) != 0) fibers::die("an addition to memory is misaligned");
    for (int i = 0; i < N; ++i) pointer[i] = narrow<T>(widen(pointer[i]) + widen(narrow<T>(value[i])));
}

template <class T>
void atomic_add_in_pair(T* pointer, float value) {
    atomic_add<1>(pointer, {value});
}

}  // namespace bk
