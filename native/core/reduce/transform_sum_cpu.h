// SPDX-License-Identifier: Apache-2.0
// CPU transform and sum: the loop of the pointwise op computes blocks of terms, which are added pairwise. Threads
// share segments, whose number depends on numel alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/math/wide_range.h"
#include "core/reduce/transform_sum.h"

namespace bk {

constexpr int kTermBlock = 512;
constexpr int kMaxTermSegments = 256;

template <class T, class Fn, class... In>
size_t transform_sum_workspace(int64_t) {
    return 0;
}

// Pairwise sum of kTermBlock terms, which it overwrites.
template <class C>
C sum_block(C* terms) {
    dispatch_range(
        [&](int64_t, int64_t) {
            for (int width = kTermBlock / 2; width > 0; width /= 2) {
                BK_VECTOR_LOOP
                for (int i = 0; i < width; ++i) terms[i] += terms[i + width];
            }
        },
        0, 1);
    return terms[0];
}

// Sequential sum in f64, each term times the scale.
template <class C>
BK_COLD double sum_scaled(const C* terms, int64_t count, double scale) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(terms[i]) * scale;
    return sum;
}

// Operand 0 of the loop is the terms. A scale other than 1 serves sums that are out of range.
template <class C, int Operands>
BK_COLD double sum_segments(const DenseLoop& loop, int64_t numel, char* const* pointers, double scale) {
    double part[kMaxTermSegments];
    const int64_t wanted = std::min<int64_t>(kMaxTermSegments, ceil_div<int64_t>(numel, 16 * kTermBlock));
    const int64_t length = ceil_div<int64_t>(ceil_div(numel, wanted), kTermBlock) * kTermBlock,
                  segments = ceil_div(numel, length);
    split_ranges(segments, ceil_div<int64_t>(32768, length), [&](int64_t begin, int64_t end) {
        alignas(64) C terms[kTermBlock];
        int64_t step[Operands];
        std::fill_n(step, Operands, 1);
        for (int64_t s = begin; s < end; ++s) {
            part[s] = 0;
            for (int64_t first = s * length; first < std::min((s + 1) * length, numel); first += kTermBlock) {
                const int64_t count = std::min<int64_t>(kTermBlock, numel - first);
                char* now[Operands] = {reinterpret_cast<char*>(terms)};
                for (int k = 1; k < Operands; ++k) now[k] = pointers[k] + first * loop.size[k];
                compute_span(loop, Operands, first, count, now, step);
                std::fill(terms + count, terms + kTermBlock, C(0));
                part[s] += scale == 1 ? static_cast<double>(sum_block(terms)) : sum_scaled(terms, count, scale);
            }
        }
    });
    double sum = 0;
    for (int64_t s = 0; s < segments; ++s) sum += part[s];
    return sum;
}

template <class T, class Fn, class... In>
Status transform_sum(const Launch&, int64_t numel, const Fn& fn, int64_t divisor, const Inputs<In...>& in, T* out) {
    using C = compute_t<T>;
    constexpr int kOperands = 1 + sizeof...(In);
    constexpr std::index_sequence_for<C> outs{};
    constexpr std::index_sequence_for<In...> ins{};
    const Pack<C*> terms{};
    char* pointers[kOperands];
    const DenseLoop loop = erase(dense_loop(fn, terms, in.pointer, outs, ins), pointers, terms, in.pointer, outs, ins);
    double sum = sum_segments<C, kOperands>(loop, numel, pointers, 1), scale = 1;
    if (!is_finite(sum)) {
        scale = kScale<double>;
        sum = sum_segments<C, kOperands>(loop, numel, pointers, scale);
    }
    *out = narrow<T>(static_cast<C>(sum / static_cast<double>(divisor) / scale));
    return Status::kOk;
}

}  // namespace bk
