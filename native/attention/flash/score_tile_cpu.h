// SPDX-License-Identifier: Apache-2.0
// A transposed tile of scores, [key, query]: the rules of attention/flash/scores.h on the CPU, in vectors of queries.
#pragma once

#include "attention/flash/tiles_cpu.h"

namespace bk::attention_cpu {

// Whether scores need more than a factor and a band.
inline bool has_plain_scores(const ScoreRules& rules) {
    return rules.softcap == 0 && rules.slopes == nullptr && rules.bias.values == Values::kNone &&
           rules.mask.values == Values::kNone && rules.blocks.blocks == nullptr && rules.scale > 0;
}

template <class T, class Tile>
struct ScoreTile {
    using C = typename Tile::C;
    using Panel = QueryPanel<C, Tile::kNr>;
    static constexpr int kNr = Tile::kNr;

    const ScoreRules& rules;
    const Sequence& s;
    int64_t b, j, count;  // keys [j, j + count) of sequence b
    C* scores;            // [count][NR]

    // Hides what the band or the end of the keys hides.
    template <int kWidth>
    BK_HD void hide_by_band(const Panel& panel) const {
        alignas(64) int32_t first[kWidth], end[kWidth];
        for (int x = 0; x < kWidth; ++x) {
            first[x] = static_cast<int32_t>(clamp_row(panel.first[x] - j, 0, count));
            end[x] = static_cast<int32_t>(clamp_row(panel.end[x] - j, 0, count));
        }
        for (int32_t y = 0; y < count; ++y) {
            C* const row = scores + y * kNr;
            BK_VECTOR_LOOP
            for (int x = 0; x < kWidth; ++x) row[x] = math::select((y >= first[x]) & (y < end[x]), row[x], -C(INFINITY));
        }
    }

    // Score and, for a gradient, the slope d score / d (q.k) of products that are not plain.
    template <int kWidth>
    BK_HD void apply_rules(const Panel& panel, C* slopes) const {
        alignas(64) C addend[kWidth] = {}, slope[kWidth] = {}, distance[kWidth] = {};
        for (int64_t x = 0; x < panel.count; ++x) {
            if (rules.slopes != nullptr) slope[x] = static_cast<C>(rules.slopes[b * rules.slopes_step + panel.head[x]]);
            distance[x] = static_cast<C>(panel.row[x]);
        }
        for (int64_t y = 0; y < count; ++y) {
            C* const row = scores + y * kNr;
            const C key = static_cast<C>(j + y);
            if (rules.softcap == 0) {
                BK_VECTOR_LOOP
                for (int x = 0; x < kWidth; ++x) row[x] = row[x] * static_cast<C>(rules.scale);
            } else {
                BK_VECTOR_LOOP
                for (int x = 0; x < kWidth; ++x) row[x] = capped_score<C>(rules, row[x]);
                if (slopes != nullptr) {
                    BK_VECTOR_LOOP
                    for (int x = 0; x < kWidth; ++x) slopes[y * kNr + x] = capped_slope<C>(rules, row[x]);
                }
            }
            if (rules.slopes != nullptr) {
                BK_VECTOR_LOOP
                for (int x = 0; x < kWidth; ++x) row[x] += slope[x] * (key - distance[x]);
            }
            if (rules.bias.values != Values::kNone) {
                for (int64_t x = 0; x < panel.count; ++x)
                    addend[x] = value_at<T, C>(rules.bias, b, panel.head[x], panel.row[x], j + y);
                BK_VECTOR_LOOP
                for (int x = 0; x < kWidth; ++x)
                    row[x] = math::select(addend[x] == -C(INFINITY), -C(INFINITY), row[x] + addend[x]);
            }
            if (rules.mask.values != Values::kNone || rules.blocks.blocks != nullptr)
                for (int64_t x = 0; x < panel.count; ++x)
                    if (!shows_key(rules, s, b, panel.head[x], panel.row[x], j + y)) row[x] = -C(INFINITY);
        }
    }

    // Makes products scores, hidden ones -inf; returns the factor that plain ones still lack. `slopes` may be null.
    template <int kWidth>
    BK_HD C finish(const Panel& panel, bool is_plain, bool is_partial, C* slopes) const {
        if (!is_plain) apply_rules<kWidth>(panel, slopes);
        if (is_partial) hide_by_band<kWidth>(panel);
        return is_plain ? static_cast<C>(rules.scale) : C(1);
    }

    void drop(const Panel& panel, uint64_t seed, int64_t y, C* factors) const {
        for (int64_t x = 0; x < panel.count; ++x)
            factors[x] = static_cast<C>(dropout_factor(rules.dropout, seed, b, panel.head[x], panel.row[x], j + y));
    }
};

}  // namespace bk::attention_cpu
