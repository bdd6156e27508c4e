// SPDX-License-Identifier: Apache-2.0
// Attention of a few query rows that share their keys, for any dtypes and head dimensions: the online softmax of Milakov
// and Gimelshein (2018) over tiles of keys, in f32 without tensor cores. It serves what no faster kernel does.
//
// A team (core/collectives/team.h) takes up to kOnlineRows rows. Its scratch has their scores of a tile of keys and their
// unnormalised outputs; head dimensions beyond kOnlineColumns are split, and then the scores are computed once a split.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/flash/scores.h"
#include "core/collectives/team.h"
#include "core/math/limits.h"
#include "core/math/math.h"
#include "core/types/convert.h"

namespace bk {

constexpr int kOnlineRows = 4;
constexpr int kOnlineKeys = 128;
constexpr int kOnlineColumns = 256;

// The running maximum m of the scores, the sum l of exp(score - m), and the sums of exp(score - m) v.
struct OnlineScratch {
    float score[kOnlineRows][kOnlineKeys];
    float sum[kOnlineRows][kOnlineColumns];
    float m[kOnlineRows], l[kOnlineRows], factor[kOnlineRows];
};
static_assert(sizeof(OnlineScratch) <= kTeamScratch, "the scratch of a team");

template <class E>
BK_HD float wide_element(E x) {
    if constexpr (kIsFp8<E>)
        return fp8_to_float(x);
    else
        return static_cast<float>(widen(x));
}

// Lanes have partial sums, so that a CPU vectorises the sum.
template <class T, class KV>
BK_HD float dot_product(const T* q, const KV* k, int64_t d) {
    float lane[Team::kLanes] = {};
    const int64_t whole = d / Team::kLanes * Team::kLanes;
    for (int64_t e = 0; e < whole; e += Team::kLanes)
        for (int u = 0; u < Team::kLanes; ++u) lane[u] += wide_element(q[e + u]) * wide_element(k[e + u]);
    float sum = 0;
    for (int64_t e = whole; e < d; ++e) sum += wide_element(q[e]) * wide_element(k[e]);
    for (int u = 0; u < Team::kLanes; ++u) sum += lane[u];
    return sum;
}

// P is a problem with
//   int64_t d_v() const                      columns of the output
//   auto item_at(int64_t) const              with `int rows`, and `KeyRange keys` that some row sees
//   float score(item, r, j) const            -inf where row r does not see key j
//   const KV* value(item, j) const           the value of key j
//   float value_factor(item, j) const        and what it is multiplied by
//   OnlineState state(item, r) const         m and l before the first key
//   float output(item, r, d) const           and the output then, unnormalised
//   void write(item, r, d, sum, l) const     one element of the output
//   void write_state(item, r, m, l) const    after all elements
struct OnlineState {
    float m, l;
};

template <class P>
struct OnlineRowsJob {
    P p;

    BK_HD void operator()(const Team& team, int64_t index) const {
        const auto item = p.item_at(index);
        OnlineScratch& s = *static_cast<OnlineScratch*>(team.scratch);
        const int64_t columns = p.d_v();
        for (int64_t first = 0; first == 0 || first < columns; first += kOnlineColumns) {
            const int width = static_cast<int>(columns - first < kOnlineColumns ? columns - first : kOnlineColumns);
            begin(team, s, item, first, width);
            for (int64_t j = item.keys.first; j < item.keys.end; j += kOnlineKeys) {
                const int count = static_cast<int>(item.keys.end - j < kOnlineKeys ? item.keys.end - j : kOnlineKeys);
                score_tile(team, s, item, j, count);
                add_values(team, s, item, j, count, first, width);
            }
            for (int e = team.rank; e < item.rows * width; e += team.size)
                p.write(item, e / width, first + e % width, s.sum[e / width][e % width], s.l[e / width]);
            if (first + kOnlineColumns >= columns)
                for (int r = team.rank; r < item.rows; r += team.size) p.write_state(item, r, s.m[r], s.l[r]);
            team.sync();
        }
    }

private:
    template <class Item>
    BK_HD void begin(const Team& team, OnlineScratch& s, const Item& item, int64_t first, int width) const {
        for (int r = team.rank; r < item.rows; r += team.size) {
            const OnlineState state = p.state(item, r);
            s.m[r] = state.m;
            s.l[r] = state.l;
        }
        for (int e = team.rank; e < item.rows * width; e += team.size)
            s.sum[e / width][e % width] = p.output(item, e / width, first + e % width);
        team.sync();
    }

    // exp(score - m) of a tile with the new m, and the factor that rescales older sums to it.
    template <class Item>
    BK_HD void score_tile(const Team& team, OnlineScratch& s, const Item& item, int64_t j, int count) const {
        for (int e = team.rank; e < item.rows * count; e += team.size)
            s.score[e / count][e % count] = p.score(item, e / count, j + e % count);
        team.sync();
        for (int r = team.rank; r < item.rows; r += team.size) {
            float largest = s.m[r];
            for (int u = 0; u < count; ++u) largest = s.score[r][u] > largest ? s.score[r][u] : largest;
            s.factor[r] = s.m[r] == -kInfinity<float> ? 0.0f : math::exp<float>(s.m[r] - largest);
            s.m[r] = largest;
        }
        team.sync();
        for (int e = team.rank; e < item.rows * count; e += team.size) {
            float& score = s.score[e / count][e % count];
            score = score == -kInfinity<float> ? 0.0f : math::exp<float>(score - s.m[e / count]);
        }
        team.sync();
    }

    template <class Item>
    BK_HD void add_values(const Team& team, OnlineScratch& s, const Item& item, int64_t j, int count, int64_t first,
                          int width) const {
        for (int r = team.rank; r < item.rows; r += team.size) {
            float sum = 0;
            for (int u = 0; u < count; ++u) sum += s.score[r][u];
            s.l[r] = s.l[r] * s.factor[r] + sum;
        }
        const int groups = (width + Team::kLanes - 1) / Team::kLanes;
        for (int e = team.rank; e < item.rows * groups; e += team.size) {
            const int r = e / groups, begin = e % groups * Team::kLanes;
            const int lanes = width - begin < Team::kLanes ? width - begin : Team::kLanes;
            float sum[Team::kLanes] = {};
            for (int u = 0; u < count; ++u) {
                const float weight = s.score[r][u];
                if (weight == 0) continue;  // the value of a hidden key may be anything
                const auto* value = p.value(item, j + u) + first + begin;
                const float factor = weight * p.value_factor(item, j + u);
                if (lanes == Team::kLanes)
                    for (int lane = 0; lane < Team::kLanes; ++lane) sum[lane] += factor * wide_element(value[lane]);
                else
                    for (int lane = 0; lane < lanes; ++lane) sum[lane] += factor * wide_element(value[lane]);
            }
            for (int lane = 0; lane < lanes; ++lane) s.sum[r][begin + lane] = s.sum[r][begin + lane] * s.factor[r] + sum[lane];
        }
        team.sync();
    }
};

template <class P>
Status run_online_rows(const Launch& launch, int64_t items, int64_t keys, int64_t d, const P& p) {
    return run_teams(launch, items, kOnlineRows * (keys + 1) * (d + 1) * 4, OnlineRowsJob<P>{p}, true);
}

}  // namespace bk
