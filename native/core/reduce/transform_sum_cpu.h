// SPDX-License-Identifier: Apache-2.0
// CPU transform and sum: the loop of the pointwise op computes blocks of summands, which are added pairwise. Threads
// share segments, whose number depends on numel alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/math/wide_range.h"
#include "core/reduce/transform_sum.h"

namespace bk {

constexpr int kSumBlock = 512;
constexpr int kMaxSumSegments = 256;

template <class T, class Fn, class... In>
size_t transform_sum_workspace(int64_t) {
    return 0;
}

// Pairwise sum of kSumBlock summands, which it overwrites.
template <class C>
C sum_block(C* summands) {
    dispatch_range(
        [&](int64_t, int64_t) {
            for (int width = kSumBlock / 2; width > 0; width /= 2) {
                BK_VECTOR_LOOP
                for (int i = 0; i < width; ++i) summands[i] += summands[i + width];
            }
        },
        0, 1);
    return summands[0];
}

// Sequential sum in f64, each summand times the scale.
template <class C>
BK_COLD double sum_scaled(const C* summands, int64_t count, double scale) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(summands[i]) * scale;
    return sum;
}

// Operand 0 of the loop is the summands. A scale other than 1 serves sums that are out of range.
template <class C, int Operands>
BK_COLD double sum_segments(const DenseLoop& loop, int64_t numel, char* const* pointers, double scale) {
    double partial[kMaxSumSegments];
    const int64_t wanted = std::min<int64_t>(kMaxSumSegments, ceil_div<int64_t>(numel, 16 * kSumBlock));
    const int64_t length = ceil_div<int64_t>(ceil_div(numel, wanted), kSumBlock) * kSumBlock,
                  segments = ceil_div(numel, length);
    split_ranges(segments, ceil_div<int64_t>(32768, length), [&](int64_t begin, int64_t end) {
        alignas(64) C summands[kSumBlock];
        int64_t step[Operands];
        std::fill_n(step, Operands, 1);
        for (int64_t s = begin; s < end; ++s) {
            partial[s] = 0;
            for (int64_t first = s * length; first < std::min((s + 1) * length, numel); first += kSumBlock) {
                const int64_t count = std::min<int64_t>(kSumBlock, numel - first);
                char* now[Operands] = {reinterpret_cast<char*>(summands)};
                for (int k = 1; k < Operands; ++k) now[k] = pointers[k] + first * loop.size[k];
                compute_span(loop, Operands, first, count, now, step);
                std::fill(summands + count, summands + kSumBlock, C(0));
                partial[s] += scale == 1 ? static_cast<double>(sum_block(summands)) : sum_scaled(summands, count, scale);
            }
        }
    });
    double sum = 0;
    for (int64_t s = 0; s < segments; ++s) sum += partial[s];
    return sum;
}

template <class T, class Fn, class... In>
Status transform_sum(const Launch&, int64_t numel, const Fn& fn, int64_t divisor, const Inputs<In...>& in, T* out) {
    using C = compute_t<T>;
    constexpr int kOperands = 1 + sizeof...(In);
    constexpr std::index_sequence_for<C> outs{};
    constexpr std::index_sequence_for<In...> ins{};
    const Pack<C*> summands{};
    char* pointers[kOperands];
    const DenseLoop loop = erase(dense_loop(fn, summands, in.pointer, outs, ins), pointers, summands, in.pointer, outs, ins);
    double sum = sum_segments<C, kOperands>(loop, numel, pointers, 1), scale = 1;
    if (!is_finite(sum)) {
        scale = kScale<double>;
        sum = sum_segments<C, kOperands>(loop, numel, pointers, scale);
    }
    *out = narrow<T>(static_cast<C>(sum / static_cast<double>(divisor) / scale));
    return Status::kOk;
}

}  // namespace bk
