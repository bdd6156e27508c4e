// SPDX-License-Identifier: Apache-2.0
// From q.k to a score, its visibility and its gradient: the one text of the rules that all attention cores apply.
#pragma once

#include <cstdint>

#include "attention/flash/problem.h"
#include "core/math/math.h"
#include "core/random/philox.h"

namespace bk {

// First and end of the keys that the band lets query i see.
struct KeyRange {
    int64_t first, end;
};

BK_HD int64_t band_shift(const Band& band, const Sequence& s) { return band.aligns_ends ? s.k_len - s.q_len : band.shift; }

// Keys that some query in [i_first, i_last] sees by the band.
BK_HD KeyRange keys_of_rows(const Band& band, const Sequence& s, int64_t i_first, int64_t i_last) {
    const int64_t shift = band_shift(band, s);
    int64_t first = i_first + shift - band.left, end = i_last + shift + band.right + 1;
    first = first < 0 ? 0 : first;
    end = end > s.k_len ? s.k_len : end;
    return {first, end < first ? first : end};
}

// Queries that see some key in [j_first, j_last] by the band: the same relation, read the other way.
BK_HD KeyRange rows_of_keys(const Band& band, const Sequence& s, int64_t j_first, int64_t j_last) {
    const int64_t shift = band_shift(band, s);
    int64_t first = j_first - shift - band.right, end = j_last - shift + band.left + 1;
    first = first < 0 ? 0 : first;
    end = end > s.q_len ? s.q_len : end;
    return {first, end < first ? first : end};
}

BK_HD bool band_shows(const Band& band, const Sequence& s, int64_t i, int64_t j) {
    const int64_t distance = j - (i + band_shift(band, s));
    return distance <= band.right && -distance <= band.left;
}

template <class T, class C>
BK_HD C value_at(const ScoresView& view, int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t at = b * view.batch + h * view.head + i * view.row + j * view.column;
    if (view.values == Values::kF32) return static_cast<C>(static_cast<const float*>(view.data)[at]);
    return static_cast<C>(widen(static_cast<const T*>(view.data)[at]));
}

// Whether query i sees key j, of a sequence whose lengths hold both.
BK_HD bool shows_key(const ScoreRules& rules, const Sequence& s, int64_t b, int64_t h, int64_t i, int64_t j) {
    if (!band_shows(rules.band, s, i, j)) return false;
    if (rules.blocks.blocks != nullptr) {
        const BlockMask& m = rules.blocks;
        if (m.blocks[b * m.batch + h * m.head + i / m.size * m.row + j / m.size] == 0) return false;
    }
    if (rules.mask.values != Values::kNone) {
        const ScoresView& m = rules.mask;
        if (static_cast<const uint8_t*>(m.data)[b * m.batch + h * m.head + i * m.row + j * m.column] == 0) return false;
    }
    return true;
}

// The score before the additions, from q.k.
template <class C>
BK_HD C capped_score(const ScoreRules& rules, C dot) {
    const C scaled = dot * static_cast<C>(rules.scale);
    if (rules.softcap == 0) return scaled;
    const C cap = static_cast<C>(rules.softcap);
    return cap * math::tanh<C>(scaled / cap);
}

// The sum of slope and bias that is added to a capped score.
template <class T, class C>
BK_HD C score_addend(const ScoreRules& rules, int64_t b, int64_t h, int64_t i, int64_t j) {
    C sum = 0;
    if (rules.slopes != nullptr) sum += static_cast<C>(rules.slopes[b * rules.slopes_step + h]) * static_cast<C>(j - i);
    if (rules.bias.values != Values::kNone) sum += value_at<T, C>(rules.bias, b, h, i, j);
    return sum;
}

// d score / d (q.k) of a capped score.
template <class C>
BK_HD C capped_slope(const ScoreRules& rules, C capped) {
    if (rules.softcap == 0) return static_cast<C>(rules.scale);
    const C ratio = capped / static_cast<C>(rules.softcap);
    return static_cast<C>(rules.scale) * (1 - ratio * ratio);
}

// The random words of keys j & ~3 to j | 3.
BK_HD PhiloxBlock dropout_block(uint64_t seed, int64_t b, int64_t h, int64_t i, int64_t j) {
    const uint64_t low = static_cast<uint64_t>(i) << 32 | static_cast<uint64_t>(j >> 2);
    return philox_block(seed, low, static_cast<uint64_t>(b) << 32 | static_cast<uint64_t>(h));
}

// Factor of a probability under dropout: 0 or 1 / (1 - p).
BK_HD float dropout_factor_of(const Dropout& dropout, uint32_t word) {
    return UniformOf<float>::of(&word) < dropout.probability ? 0.0f : 1.0f / (1.0f - dropout.probability);
}

// Those of keys 4 group to 4 group + 3, which share a Philox block.
struct DropoutFactors {
    float of[4];
};

BK_HD DropoutFactors dropout_factors_of_four(const Dropout& dropout, uint64_t seed, int64_t b, int64_t h, int64_t i,
                                             int64_t group) {
    const PhiloxBlock block = dropout_block(seed, b, h, i, 4 * group);
    DropoutFactors factors;
    BK_UNROLL
    for (int e = 0; e < 4; ++e) factors.of[e] = dropout_factor_of(dropout, block.word[e]);
    return factors;
}

BK_HD float dropout_factor(const Dropout& dropout, uint64_t seed, int64_t b, int64_t h, int64_t i, int64_t j) {
    return dropout_factor_of(dropout, dropout_block(seed, b, h, i, j).word[j & 3]);
}

}  // namespace bk
