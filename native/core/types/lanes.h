// SPDX-License-Identifier: Apache-2.0
// Adjacent elements that a thread takes together, N at most: on a GPU a vector in registers, always whole; on the CPU a span of
// memory that may be shorter, in loops that compilers vectorise.
#pragma once

#include <cstdint>

#include "core/types/dtype.h"
#include "core/types/vec.h"
#if !BK_CUDA
#include "core/compiler_cpu.h"
#endif

namespace bk {

#if BK_CUDA
template <class T>
constexpr int kLanesOfThread = kVectorLanes<T>;

template <int N>
BK_HD constexpr int lane_count(int64_t) {
    return N;
}
template <int N, class T>
BK_HD Vec<T, N> load_lanes(const T* from) {
    return load<N>(from);
}
template <int N, class Body>
BK_HD void each_lane(int, const Body& body) {
    BK_UNROLL
    for (int v = 0; v < N; ++v) body(v);
}
// to[v] = value(v).
template <int N, class T, class Value>
BK_HD void store_lanes(T* to, int, const Value& value) {
    Vec<T, N> result;
    BK_UNROLL
    for (int v = 0; v < N; ++v) result.lane[v] = value(v);
    store(to, result);
}
#else
template <class T>
constexpr int kLanesOfThread = 256;

// Lanes of `left` elements.
template <int N>
BK_HD int lane_count(int64_t left) {
    return left < N ? static_cast<int>(left) : N;
}
template <int N, class T>
BK_HD const T* load_lanes(const T* from) {
    return from;
}
template <class T>
BK_HD auto widen_lane(const T* span, int lane) {
    return widen(span[lane]);
}
template <int N, class Body>
BK_HD void each_lane(int count, const Body& body) {
    BK_VECTOR_LOOP
    for (int v = 0; v < count; ++v) body(v);
}
// to[v] = value(v).
template <int N, class T, class Value>
BK_HD void store_lanes(T* to, int count, const Value& value) {
    BK_VECTOR_LOOP
    for (int v = 0; v < count; ++v) to[v] = value(v);
}
#endif

// The sum of N numbers, by halves.
template <int N, class C>
BK_HD C sum_of_lanes(C (&lane)[N]) {
    static_assert((N & (N - 1)) == 0, "a power of two");
    BK_UNROLL
    for (int half = N / 2; half > 0; half /= 2) {
        BK_UNROLL
        for (int v = 0; v < half; ++v) lane[v] += lane[v + half];
    }
    return lane[0];
}

}  // namespace bk
