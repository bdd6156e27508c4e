// SPDX-License-Identifier: Apache-2.0
// Attention of a problem whose cache has another dtype than its queries, by online_rows.h: the query heads of a group share
// the keys that they read.
#pragma once

#include <cstdint>

#include "attention/flash/online_rows.h"

namespace bk {

template <class T, class KV>
struct DecodeRows {
    AttentionForward<T, KV> p;
    int64_t group, parts;  // query heads of a key-value head, and the teams that share them

    struct Item {
        Sequence sequence;
        KeyRange keys;
        int64_t b, head, i;  // head: the first query head
        int rows;
    };

    explicit DecodeRows(const AttentionForward<T, KV>& problem)
        : p(problem),
          group(problem.heads / problem.kv_heads),
          parts(ceil_div<int64_t>(problem.heads / problem.kv_heads, kOnlineRows)) {}
    int64_t items() const { return p.batch * p.kv_heads * parts * p.lengths.q_len; }

    BK_HD int64_t d_v() const { return p.d_v; }
    BK_HD Item item_at(int64_t index) const {
        Item item{};
        item.i = index % p.lengths.q_len;
        index /= p.lengths.q_len;
        const int64_t part = index % parts, kv_head = index / parts % p.kv_heads;
        item.b = index / parts / p.kv_heads;
        item.head = kv_head * group + part * kOnlineRows;
        item.sequence = sequence_of(p.lengths, item.b);
        const int64_t left = group - part * kOnlineRows;
        item.rows = item.i >= item.sequence.q_len ? 0 : static_cast<int>(left < kOnlineRows ? left : kOnlineRows);
        item.keys = keys_of_rows(p.rules.band, item.sequence, item.i, item.i);
        if (item.rows == 0) item.keys = {0, 0};
        return item;
    }
    BK_HD float score(const Item& item, int r, int64_t j) const {
        const int64_t h = item.head + r;
        if (!shows_key(p.rules, item.sequence, item.b, h, item.i, j)) return -kInfinity<float>;
        const T* q = p.q.at(item.b, h, item.sequence.q_begin + item.i);
        const KV* k = key_row(p.k, p.lengths, item.sequence, item.b, p.kv_head_of(h), j);
        const float dot = dot_product(q, k, p.d_k) * factor_of(p.k_scales, item, p.kv_head_of(h), j);
        return capped_score(p.rules, dot) + score_addend<T, float>(p.rules, item.b, h, item.i, j);
    }
    BK_HD const KV* value(const Item& item, int64_t j) const {
        return key_row(p.v, p.lengths, item.sequence, item.b, p.kv_head_of(item.head), j);
    }
    BK_HD float value_factor(const Item& item, int64_t j) const {
        return factor_of(p.v_scales, item, p.kv_head_of(item.head), j);
    }
    BK_HD float factor_of(const HeadsView<const float>& scales, const Item& item, int64_t kv_head, int64_t j) const {
        return scales.data == nullptr ? 1.0f : *key_row(scales, p.lengths, item.sequence, item.b, kv_head, j);
    }
    BK_HD OnlineState state(const Item&, int) const { return {-kInfinity<float>, 0}; }
    BK_HD float output(const Item&, int, int64_t) const { return 0; }
    BK_HD void write(const Item& item, int r, int64_t d, float sum, float l) const {
        p.y.at(item.b, item.head + r, item.sequence.q_begin + item.i)[d] = narrow<T>(l == 0 ? 0 : sum / l);
    }
    BK_HD void write_state(const Item& item, int r, float m, float l) const {
        if (p.lse.data == nullptr) return;
        constexpr float kLog2E = 1.44269504088896341f;
        const float natural = m + math::log<float>(l);
        const float lse = l == 0 ? p.lse.empty : p.lse.is_base2 ? m * kLog2E + math::log2<float>(l) : natural;
        const int64_t at = item.b * p.lse.batch + (item.head + r) * p.lse.head + (item.sequence.q_begin + item.i) * p.lse.row;
        if (p.lse.is_element)
            static_cast<T*>(p.lse.data)[at] = narrow<T>(lse);
        else
            static_cast<float*>(p.lse.data)[at] = lse;
    }
};

template <class T, class KV>
Status decode_by_rows(const Launch& launch, const AttentionForward<T, KV>& p) {
    const DecodeRows<T, KV> rows(p);
    return run_online_rows(launch, rows.items(), p.lengths.k_len, p.d_k + p.d_v, rows);
}

}  // namespace bk
