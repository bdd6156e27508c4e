// SPDX-License-Identifier: Apache-2.0
// Splits each head's rows into kReduceSplits partial sums over the threads; they are added in split order, so that
// results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <cstring>

#include "attention/alibi_backward.h"
#include "core/reduce/reduce.h"

namespace bk {

template <class T>
size_t alibi_backward_workspace(const ScoreShape&) {
    return 0;
}

// Copies a row of dy to da and returns the sum of dy[j] * (j - i).
template <class T>
BK_HD compute_t<T> alibi_backward_row(const T* dy, T* da, int32_t i, int32_t k_len) {
    using C = compute_t<T>;
    constexpr int kLanes = 32;
    C lane[kLanes] = {};
    int64_t j = 0;
    for (; j + kLanes <= k_len; j += kLanes) {
        const int32_t distance = static_cast<int32_t>(j - i);  // 32 bits, which vectors can convert
        for (int l = 0; l < kLanes; ++l) lane[l] += widen(dy[j + l]) * static_cast<C>(distance + l);
    }
    for (; j < k_len; ++j) lane[j % kLanes] += widen(dy[j]) * static_cast<C>(j - i);
    for (int width = kLanes / 2; width > 0; width /= 2)
        for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
    if (da != nullptr && da != dy) memcpy(da, dy, sizeof(T) * static_cast<size_t>(k_len));
    return lane[0];
}

template <class T>
Status alibi_backward(const Launch&, const ScoreShape& s, const T* dy, T* da, T* dslope) {
    const int64_t plane = int64_t{s.q_len} * s.k_len;
    if (dslope == nullptr) {
        const int64_t total = s.count();
        if (da != dy)
            parallel_ranges(total, grain_for(2 * sizeof(T)), [&](int64_t begin, int64_t end) {
                memcpy(da + begin, dy + begin, sizeof(T) * static_cast<size_t>(end - begin));
            });
        return Status::kOk;
    }
    // The number of partials is constant, so that results do not depend on the number of threads.
    const int64_t rows = int64_t{s.batch} * s.q_len;
    for (int32_t first = 0; first < s.heads; ++first) {
        double partial[kReduceSplits] = {};
        parallel_ranges(kReduceSplits, ceil_div<int64_t>(kReduceSplits, thread_count()), [&](int64_t begin, int64_t end) {
            for (int64_t split = begin; split < end; ++split) {
                double sum = 0;
                for (int64_t r = rows * split / kReduceSplits; r < rows * (split + 1) / kReduceSplits; ++r) {
                    const int64_t b = r / s.q_len;
                    const int32_t i = static_cast<int32_t>(r % s.q_len);
                    const int64_t at = (b * s.heads + first) * plane + int64_t{i} * s.k_len;
                    sum += alibi_backward_row(dy + at, da == nullptr ? nullptr : da + at, i, s.k_len);
                }
                partial[split] = sum;
            }
        });
        double total = 0;
        for (const double p : partial) total += p;
        dslope[first] = narrow<T>(static_cast<compute_t<T>>(total));
    }
    return Status::kOk;
}

}  // namespace bk
