// SPDX-License-Identifier: Apache-2.0
// The rules of attention/flash/scores.h applied to accumulators of mma.sync: one rule at a time, over all elements that a
// lane holds, so that a kernel branches once a rule and the loads of a rule are in flight together.
//
// A lane's element (n, v) of a 16 x 8 kTiles product is at row lane / 4 + v / 2 * 8 and column 8 n + lane % 4 * 2 + v % 2.
// Coordinates say which query, head and key it is: `i(n, v)`, `h(n, v)`, `j(n, v)`.
#pragma once

#include <cstdint>
#include <type_traits>

#include "attention/flash/scores.h"
#include "core/math/limits.h"
#include "core/math/math_half.h"

namespace bk::sm80 {

constexpr float kLog2e = 1.44269504f, kLn2 = 0.69314718f;

// Rows are queries, whose heads may differ; columns are keys.
struct RowsAreQueries {
    int b, query[2], head[2], key;  // key: that of element (0, 0)

    BK_DEVICE int i(int, int v) const { return query[v / 2]; }
    BK_DEVICE int h(int, int v) const { return head[v / 2]; }
    BK_DEVICE int j(int n, int v) const { return key + 8 * n + v % 2; }
};

// Rows are keys, columns are queries of one head.
struct RowsAreKeys {
    int b, query, head, key;  // of element (0, 0)

    BK_DEVICE int i(int n, int v) const { return query + 8 * n + v % 2; }
    BK_DEVICE int h(int, int) const { return head; }
    BK_DEVICE int j(int, int v) const { return key + v / 2 * 8; }
};

template <int kTiles, class F>
BK_DEVICE void each_element(float (&x)[kTiles][4], const F& f) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int v = 0; v < 4; ++v) x[n][v] = f(n, v, x[n][v]);
}

// Whether the rules are those of the plain kernels: a scale and a band.
inline bool is_plain(const ScoreRules& rules) {
    return rules.scale > 0 && rules.scale < kInfinity<float> && rules.softcap == 0 && rules.slopes == nullptr &&
           rules.bias.values == Values::kNone && rules.mask.values == Values::kNone && rules.blocks.blocks == nullptr &&
           rules.dropout.probability == 0;
}

// tanh(x ln(2) / 2), to 2^-22 absolutely: what the error of a score hangs on.
BK_DEVICE float tanh_of_half(float x) { return fmaf(-2.0f, math::half::reciprocal(1.0f + math::half::exp2(x)), 1.0f); }

// Scores in units of log2 from products q.k; `gain`, if wanted, becomes d score / d (scale q.k).
template <class T, bool kHasGain, int kTiles, class At>
BK_DEVICE void apply_score_rules(const ScoreRules& rules, int last_i, int last_j, const At& at, float (&x)[kTiles][4],
                                 float (&gain)[kHasGain ? kTiles : 1][4]) {
    if (rules.softcap == 0) {
        each_element(x, [&](int, int, float dot) { return dot * (rules.scale * kLog2e); });
        if constexpr (kHasGain) each_element(gain, [](int, int, float) { return 1.0f; });
    } else {
        const float cap = rules.softcap, inner = rules.scale / cap * (2 * kLog2e);
        each_element(x, [&](int, int, float dot) { return tanh_of_half(dot * inner); });
        if constexpr (kHasGain) each_element(gain, [&](int n, int v, float) { return 1.0f - x[n][v] * x[n][v]; });
        each_element(x, [&](int, int, float ratio) { return ratio * (cap * kLog2e); });
    }
    if (rules.slopes != nullptr)
        each_element(x, [&](int n, int v, float score) {
            const float slope = rules.slopes[at.b * rules.slopes_step + at.h(n, v)] * kLog2e;
            return score + slope * static_cast<float>(at.j(n, v) - at.i(n, v));
        });
    // Queries and keys behind the sequence's last ones read those instead.
    const auto i_of = [&](int n, int v) { return static_cast<int64_t>(min(at.i(n, v), last_i)); };
    const auto j_of = [&](int n, int v) { return static_cast<int64_t>(min(at.j(n, v), last_j)); };
    if (rules.bias.values != Values::kNone)
        each_element(x, [&](int n, int v, float score) {
            return score + value_at<T, float>(rules.bias, at.b, at.h(n, v), i_of(n, v), j_of(n, v)) * kLog2e;
        });
    if (rules.mask.values != Values::kNone) {
        const ScoresView& m = rules.mask;
        each_element(x, [&](int n, int v, float score) {
            const int64_t offset = at.b * m.batch + at.h(n, v) * m.head + i_of(n, v) * m.row + j_of(n, v) * m.column;
            return static_cast<const uint8_t*>(m.data)[offset] == 0 ? -kInfinity<float> : score;
        });
    }
    if (rules.blocks.blocks != nullptr) {
        const BlockMask& m = rules.blocks;
        const uint32_t size = static_cast<uint32_t>(m.size);
        each_element(x, [&](int n, int v, float score) {
            const uint32_t row = static_cast<uint32_t>(i_of(n, v)) / size, column = static_cast<uint32_t>(j_of(n, v)) / size;
            const int64_t offset = at.b * m.batch + at.h(n, v) * m.head + row * m.row + column;
            return m.blocks[offset] == 0 ? -kInfinity<float> : score;
        });
    }
}

// Calls f(n, v, factor) with the dropout factor of each element. If rows are queries, elements (n, 0) and (n, 1) are of one
// block of random words, whose index is even.
template <int kTiles, class At, class F>
BK_DEVICE void each_dropout_factor(const Dropout& dropout, uint64_t seed, const At& at, const F& f) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int v = 0; v < 4; v += std::is_same_v<At, RowsAreQueries> ? 2 : 1) {
            const PhiloxBlock block = dropout_block(seed, at.b, at.h(n, v), at.i(n, v), at.j(n, v));
            const bool is_upper = (at.j(n, v) & 2) != 0, is_odd = (at.j(n, v) & 1) != 0;
            const uint32_t even = is_upper ? block.word[2] : block.word[0], odd = is_upper ? block.word[3] : block.word[1];
            if constexpr (std::is_same_v<At, RowsAreQueries>) {
                f(n, v, dropout_factor_of(dropout, even));
                f(n, v + 1, dropout_factor_of(dropout, odd));
            } else {
                f(n, v, dropout_factor_of(dropout, is_odd ? odd : even));
            }
        }
}

template <int kTiles, class At>
BK_DEVICE void apply_dropout(const Dropout& dropout, uint64_t seed, const At& at, float (&x)[kTiles][4]) {
    each_dropout_factor<kTiles>(dropout, seed, at, [&](int n, int v, float factor) { x[n][v] *= factor; });
}

// Whether the block mask hides all scores of queries [i_first, i_last] and keys [j_first, j_last]; the same for all threads.
BK_DEVICE bool hides_tile(const BlockMask& m, int64_t b, int64_t h, int i_first, int i_last, int j_first, int j_last) {
    const int size = static_cast<int>(m.size);
    if (m.blocks == nullptr || size < 16) return false;
    const uint8_t* const blocks = m.blocks + b * m.batch + h * m.head;
    uint32_t any = 0;
    for (int row = i_first / size; row <= i_last / size; ++row)
        for (int column = j_first / size; column <= j_last / size; ++column) any |= blocks[row * m.row + column];
    return any == 0;
}

}  // namespace bk::sm80
