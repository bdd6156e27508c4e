// SPDX-License-Identifier: Apache-2.0
// The rules of attention/flash/scores.h on a warpgroup's tile of scores in wgmma accumulators. Each rule is one pass over the
// tile whose addresses along a row are a constant times the column stride.
#pragma once

#include <cstdint>

#include "attention/flash/scores.h"
#include "core/platform.h"

namespace bk {

struct HeadIndex {
    int batch, head;
};

// Whether the tile passes serve these rules: a block of the block mask holds whole groups of 8 columns.
inline bool suits_score_tile(const ScoreRules& rules) {
    return rules.dropout.probability == 0 && (rules.blocks.blocks == nullptr || rules.blocks.size % 8 == 0);
}

inline bool has_general_rules(const ScoreRules& rules) {
    return rules.softcap != 0 || rules.slopes != nullptr || rules.bias.values != Values::kNone ||
           rules.mask.values != Values::kNone || rules.blocks.blocks != nullptr;
}

BK_DEVICE float tanh_of_exp2(float x) {  // 1 - 2 / (1 + e^2x), exact to some ulp of 1
    constexpr float kTwoLog2E = 2.8853900817779268f;
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * kTwoLog2E));
    return 1.0f - __fdividef(2.0f, 1.0f + power);
}

// Element [batch, head, i, j] of an operand; rows that do not exist read row 0.
template <class E>
BK_DEVICE const E* score_row(const ScoresView& view, const HeadIndex& index, int64_t i, int64_t j, const Sequence& s) {
    const int64_t row = i < s.q_len ? i : 0;
    return static_cast<const E*>(view.data) +
           (index.batch * view.batch + index.head * view.head + row * view.row + j * view.column);
}

// Adds an operand of dtype E to the scores of rows i and i + 8, columns j and j + 1 of each eight.
template <class E, int kCount>
BK_DEVICE void add_bias(float (&scores)[kCount], const ScoresView& view, const Sequence& s, const HeadIndex& index, int64_t i,
                        int j) {
    const int left = static_cast<int>(s.k_len) - j;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const E* const row = score_row<E>(view, index, i + 8 * r, j, s);
#pragma unroll
        for (int v = 2 * r; v < kCount; v += 4)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int key = v / 4 * 8 + e;
                if (key < left) scores[v + e] += widen(row[key * view.column]);
            }
    }
}

// Rules before the band, from q.k to scores in natural units; i and j are the first row and column of this thread.
template <class T, int kCount>
BK_DEVICE void apply_general_rules(float (&scores)[kCount], const ScoreRules& rules, const Sequence& s, const HeadIndex& index,
                                   int64_t i, int j) {
    if (rules.softcap != 0) {
        const float inward = rules.scale / rules.softcap;
#pragma unroll
        for (int v = 0; v < kCount; ++v) scores[v] = rules.softcap * tanh_of_exp2(scores[v] * inward);
    } else {
#pragma unroll
        for (int v = 0; v < kCount; ++v) scores[v] *= rules.scale;
    }
    if (rules.slopes != nullptr) {
        const float slope = rules.slopes[index.batch * rules.slopes_step + index.head];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float distance = static_cast<float>(j - (i + 8 * r));
#pragma unroll
            for (int v = 2 * r; v < kCount; v += 4)
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    scores[v + e] = fmaf(slope, distance + static_cast<float>(v / 4 * 8 + e), scores[v + e]);
        }
    }
    if (rules.bias.values == Values::kF32) add_bias<float>(scores, rules.bias, s, index, i, j);
    if (rules.bias.values == Values::kElement) add_bias<T>(scores, rules.bias, s, index, i, j);
    const int left = static_cast<int>(s.k_len) - j;
    if (rules.mask.values != Values::kNone) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const uint8_t* const row = score_row<uint8_t>(rules.mask, index, i + 8 * r, j, s);
#pragma unroll
            for (int v = 2 * r; v < kCount; v += 4)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const int key = v / 4 * 8 + e;
                    if (key < left && row[key * rules.mask.column] == 0) scores[v + e] = -INFINITY;
                }
        }
    }
    if (rules.blocks.blocks != nullptr) {
        const BlockMask& mask = rules.blocks;
        const int size = static_cast<int>(mask.size);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int64_t row = i + 8 * r < s.q_len ? i + 8 * r : 0;
            const uint8_t* const blocks =
                mask.blocks + (index.batch * mask.batch + index.head * mask.head + static_cast<int>(row) / size * mask.row);
#pragma unroll
            for (int v = 2 * r; v < kCount; v += 4) {
                const int key = v / 4 * 8;
                if (key < left && blocks[(j + key) / size] == 0) scores[v] = scores[v + 1] = -INFINITY;
            }
        }
    }
}

}  // namespace bk
