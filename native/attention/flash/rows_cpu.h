// SPDX-License-Identifier: Apache-2.0
// Rows, keys and outputs of fused attention on the CPU: what the cores of both directions read and write.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "attention/flash/problem.h"
#include "attention/flash/scores.h"
#include "core/abi/launch.h"

namespace bk::attention_cpu {

constexpr int64_t kLanes = 16;

// Sum of a[x] b[x] in kLanes partial sums.
template <class T>
BK_HD compute_t<T> dot(const T* BK_RESTRICT a, const T* BK_RESTRICT b, int64_t count) {
    using C = compute_t<T>;
    C sums[kLanes] = {};
    int64_t x = 0;
    for (; x + kLanes <= count; x += kLanes)
        for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += widen(a[x + lane]) * widen(b[x + lane]);
    for (int64_t lane = 0; x + lane < count; ++lane) sums[lane] += widen(a[x + lane]) * widen(b[x + lane]);
    for (int64_t half = kLanes / 2; half > 0; half /= 2)
        for (int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    return sums[0];
}

template <class T>
BK_HD void add_scaled(double* BK_RESTRICT to, const T* BK_RESTRICT from, int64_t count, double factor) {
    for (int64_t x = 0; x < count; ++x) to[x] += factor * static_cast<double>(widen(from[x]));
}

template <class T>
BK_HD void store_row(T* to, const double* from, int64_t count, double factor) {
    for (int64_t x = 0; x < count; ++x) to[x] = narrow<T>(static_cast<compute_t<T>>(from[x] * factor));
}

template <class T>
BK_HD void fill_row(T* to, int64_t count, compute_t<T> value) {
    for (int64_t x = 0; x < count; ++x) to[x] = narrow<T>(value);
}

constexpr double kLn2 = 0.69314718055994530942;

template <class T>
BK_HD void store_lse(const LseView& lse, int64_t b, int64_t h, int64_t row, compute_t<T> value) {
    if (lse.data == nullptr) return;
    const int64_t at = b * lse.batch + h * lse.head + row * lse.row;
    if (lse.is_element)
        static_cast<T*>(lse.data)[at] = narrow<T>(value);
    else
        static_cast<float*>(lse.data)[at] = static_cast<float>(value);
}

// The natural logarithm of a row's sum.
template <class T>
BK_HD compute_t<T> load_lse(const LseView& lse, int64_t b, int64_t h, int64_t row) {
    using C = compute_t<T>;
    const int64_t at = b * lse.batch + h * lse.head + row * lse.row;
    const C value =
        lse.is_element ? widen(static_cast<const T*>(lse.data)[at]) : static_cast<C>(static_cast<const float*>(lse.data)[at]);
    return lse.is_base2 ? value * static_cast<C>(kLn2) : value;
}

template <class T>
BK_HD void store_weight(const WeightsView& weights, int64_t at, compute_t<T> value) {
    if (weights.values == Values::kF32)
        static_cast<float*>(weights.data)[at] = static_cast<float>(value);
    else
        static_cast<T*>(weights.data)[at] = narrow<T>(value);
}

inline uint64_t seed_of(const Dropout& dropout) { return dropout.probability > 0 ? *dropout.seed : 0; }

// Runs body(row) for the rows of a packed tensor that no sequence owns: before the first, between the end of sequence b
// and the next one's begin, behind the last. `begin` and `length` of a sequence, `total` rows in all.
template <class SequenceRows, class Body>
void for_unowned_rows(int64_t batch, int64_t b, int64_t total, const SequenceRows& rows_of, const Body& body) {
    const auto [begin, length] = rows_of(b);
    if (b == 0)
        for (int64_t row = 0; row < begin; ++row) body(row);
    const int64_t end = b + 1 < batch ? rows_of(b + 1).first : total;
    for (int64_t row = begin + length; row < end; ++row) body(row);
}

}  // namespace bk::attention_cpu
