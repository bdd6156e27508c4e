// SPDX-License-Identifier: Apache-2.0
// The online softmax of the mma.sync kernels (Milakov and Gimelshein 2018), in base 2, and the states that partial results
// are merged by.
#pragma once

#include <cstdint>

#include "attention/sm80/rows.cuh"
#include "core/math/math_half.h"

namespace bk::sm80 {

// The maximum of a row's scores, in base 2, the sum of 2^(score - max), and what its output is multiplied by.
struct RowState {
    float max, sum;

    BK_DEVICE bool is_empty() const { return max == -kInfinity<float> && sum == 0; }
    BK_DEVICE float log2_sum() const { return max + log2f(sum); }

    // Adds one more key, whose value is 0; returns the factor of the output. Rows without a visible key stay so.
    BK_DEVICE float add_sink(float score) {
        if (is_empty()) return 1;
        const float next = fmaxf(max, score * 1.44269504f), factor = math::half::exp2(max - next);
        sum = sum * factor + math::half::exp2(score * 1.44269504f - next);
        max = next;
        return factor;
    }
};

// A row's output from sums of 2^(score - max) v.
struct RowResult {
    float first, second, log2_sum;
    bool is_empty;

    BK_DEVICE float of(float sum) const { return is_empty ? 0.0f : sum * first * second; }
};

// Rounds as a merge of one split does, so that splitting by a fixed size keeps bits.
BK_DEVICE RowResult finish_row(const RowState& state, const float* sinks, int h) {
    if (state.is_empty()) return {0, 0, 0, true};
    if (sinks == nullptr) return {1 / state.sum, 1, state.log2_sum(), false};
    RowState with_sink{state.log2_sum(), 1};
    const float factor = with_sink.add_sink(sinks[h]);
    return {1 / state.sum, factor / with_sink.sum, with_sink.log2_sum(), false};
}

// Partial results of rows whose keys are split: the output of each split, normalised, and log2 of its sum. Tile number
// `item` of all row tiles has memory for `rows` rows; a launch may begin at a later tile than the first.
struct Partials {
    float* output = nullptr;  // [item, row, split, d_v]
    float* log2_sum = nullptr;
    int splits = 1, rows = 0;
    int64_t first_item = 0;

    // The first split of a row of a tile.
    BK_HD int64_t index(int64_t item, int row) const { return ((item - first_item) * rows + row) * splits; }

    // Marks a split in which the first `count` rows of a tile see no key.
    BK_DEVICE void store_empty(int64_t item, int count, int split, int thread, int threads) const {
        for (int r = thread; r < count; r += threads) log2_sum[index(item, r) + split] = -kInfinity<float>;
    }
};

// The keys of a split, out of those that a tile sees.
BK_DEVICE Span split_of(const Span& all, int split, int splits, int split_keys) {
    if (splits == 1) return all;
    int begin, size = split_keys;
    if (split_keys > 0) {
        begin = split * size;
    } else {
        const int base = all.first / 64 * 64;
        size = ((all.end - base + splits - 1) / splits + 63) / 64 * 64;
        begin = base + split * size;
    }
    const int first = max(begin, all.first), end = min(begin + size, all.end);
    return {first, max(first, end)};
}

// Online softmax of one row: x becomes 2^(x unit - max), `state` is updated; returns the factor of older sums. The sum
// is that of the lane's own elements; `other` is the maximum of scores of the row that other warps have. Where the maximum
// stays the factor is 1 only up to the rounding of max unit; `is_exact` makes it 1, so that tiles in which a row sees no key
// leave its bits alone.
template <int kTiles>
BK_DEVICE float soften(float (&x)[kTiles][4], int half, float unit, RowState& state, float other = -kInfinity<float>,
                       bool is_exact = false) {
    float top = fmaxf(state.max, other);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) top = fmaxf(top, fmaxf(x[n][2 * half], x[n][2 * half + 1]));
    top = quad_max(top);
    const float base = top == -kInfinity<float> ? 0.0f : top * unit;
    float change = state.max * unit - base;
    if (is_exact && top == state.max) change = 0;
    const float factor = math::half::exp2(change);
    float sum = state.sum * factor;
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int v = 2 * half; v < 2 * half + 2; ++v) {
            x[n][v] = math::half::exp2(fmaf(x[n][v], unit, -base));
            sum += x[n][v];
        }
    state = {top, sum};
    return factor;
}

}  // namespace bk::sm80
