// SPDX-License-Identifier: Apache-2.0
// Ring attention (Liu, Zaharia and Abbeel 2023): the online softmax of queries over chunks of keys that arrive one by one.
// The state of a row is m, the largest score, l, the sum of exp(score - m), and o, the sum of exp(score - m) v, in f32.
#pragma once

#include <cstdint>

#include "attention/flash/online_rows.h"
#include "core/abi/checks.h"

namespace bk {

struct RingState {
    float *o, *m, *l;
};

struct ClearRingJob {
    RingState state;
    int64_t o_len, ml_len;

    static constexpr int64_t kChunk = 1024;
    BK_HD void operator()(const Team& team, int64_t item) const {
        for (int64_t e = item * kChunk + team.rank; e < (item + 1) * kChunk; e += team.size) {
            if (e < o_len) state.o[e] = 0;
            if (e < ml_len) {
                state.m[e] = -kInfinity<float>;
                state.l[e] = 0;
            }
        }
    }
};

struct RingAttentionInit {
    int64_t o_len;
    int64_t ml_len;

    Work work() const { return o_len == 0 && ml_len == 0 ? Work::kNone : Work::kAll; }
    Status check() const { return require_non_negative({{"o_len", o_len}, {"ml_len", ml_len}}); }
    Status run(float* o_acc, float* m_acc, float* l_acc, const Launch& launch) const {
        const int64_t longest = o_len > ml_len ? o_len : ml_len;
        return run_teams(launch, ceil_div(longest, ClearRingJob::kChunk), 12 * ClearRingJob::kChunk,
                         ClearRingJob{{o_acc, m_acc, l_acc}, o_len, ml_len});
    }
};

// Up to kOnlineRows queries of a head.
template <class T>
struct RingRows {
    int64_t q_len, k_len, d, q_base, k_base, blocks;
    float scale;
    bool is_causal;
    const T *q, *k, *v;
    RingState at;

    struct Item {
        KeyRange keys;
        int64_t head, i;  // head: of all batches
        int rows;
    };

    BK_HD int64_t d_v() const { return d; }
    // Keys [0, end) are visible to query i.
    BK_HD int64_t end_of(int64_t i) const { return is_causal ? clamp_row(q_base + i - k_base + 1, 0, k_len) : k_len; }
    BK_HD Item item_at(int64_t index) const {
        Item item{};
        item.head = index / blocks;
        item.i = index % blocks * kOnlineRows;
        item.rows = static_cast<int>(q_len - item.i < kOnlineRows ? q_len - item.i : kOnlineRows);
        item.keys = {0, end_of(item.i + item.rows - 1)};
        return item;
    }
    BK_HD int64_t row(const Item& item, int r) const { return item.head * q_len + item.i + r; }
    BK_HD float score(const Item& item, int r, int64_t j) const {
        if (j >= end_of(item.i + r)) return -kInfinity<float>;
        return scale * dot_product(q + row(item, r) * d, k + (item.head * k_len + j) * d, d);
    }
    BK_HD const T* value(const Item& item, int64_t j) const { return v + (item.head * k_len + j) * d; }
    BK_HD float value_factor(const Item&, int64_t) const { return 1; }
    BK_HD OnlineState state(const Item& item, int r) const { return {at.m[row(item, r)], at.l[row(item, r)]}; }
    BK_HD float output(const Item& item, int r, int64_t e) const { return at.o[row(item, r) * d + e]; }
    BK_HD void write(const Item& item, int r, int64_t e, float sum, float) const { at.o[row(item, r) * d + e] = sum; }
    BK_HD void write_state(const Item& item, int r, float m, float l) const {
        at.m[row(item, r)] = m;
        at.l[row(item, r)] = l;
    }
};

template <class T>
struct RingAttentionStep {
    int32_t batch;
    int32_t heads;
    int32_t q_local;
    int32_t k_chunk;
    int32_t d;
    int32_t q_global_base;
    int32_t k_global_base;
    float scale;
    int32_t is_causal;

    Work work() const { return all_or_none(int64_t{batch} * heads * q_local * k_chunk); }
    Status check() const {
        return require_non_negative({{"batch", batch}, {"heads", heads}, {"q_local", q_local}, {"k_chunk", k_chunk}, {"d", d}});
    }
    Status check_scalars() const { return check(); }
    Status run(const T* q, const T* k_local, const T* v_local, float* o_acc, float* m_acc, float* l_acc,
               const Launch& launch) const {
        const int64_t blocks = ceil_div<int64_t>(q_local, kOnlineRows);
        const RingRows<T> rows{q_local, k_chunk,        d, q_global_base, k_global_base, blocks,
                               scale,   is_causal != 0, q, k_local,       v_local,       {o_acc, m_acc, l_acc}};
        return run_online_rows(launch, int64_t{batch} * heads * blocks, k_chunk, d, rows);
    }
};

template <class T>
struct RingResultJob {
    int64_t rows, d;
    RingState state;
    T* y;
    T* lse;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const float m = state.m[item], l = state.l[item];
        const bool has_keys = l > 0 && l < kInfinity<float>;
        for (int64_t e = team.rank; e < d; e += team.size)
            y[item * d + e] = narrow<T>(has_keys || l != l ? state.o[item * d + e] / l : 0.0f);
        if (lse != nullptr && team.rank == 0)
            lse[item] = narrow<T>(has_keys || l != l ? m + math::log<float>(l) : -kInfinity<float>);
    }
};

template <class T>
struct RingAttentionFinalize {
    int32_t batch;
    int32_t heads;
    int32_t q_local;
    int32_t d;

    Work work() const { return all_or_none(int64_t{batch} * heads * q_local); }
    Status check() const { return require_non_negative({{"batch", batch}, {"heads", heads}, {"q_local", q_local}, {"d", d}}); }
    Status run(const float* o_acc, const float* m_acc, const float* l_acc, T* y, T* lse, const Launch& launch) const {
        const int64_t rows = int64_t{batch} * heads * q_local;
        const RingState state{const_cast<float*>(o_acc), const_cast<float*>(m_acc), const_cast<float*>(l_acc)};
        return run_teams(launch, rows, int64_t{d} * 6, RingResultJob<T>{rows, d, state, y, lse});
    }
};

// Bytes of o, m and l, one behind the other.
inline size_t ring_attention_bytes(int32_t batch, int32_t heads, int32_t q_local, int32_t d) {
    if (batch <= 0 || heads <= 0 || q_local <= 0 || d <= 0) return 0;
    size_t bytes = sizeof(float) * static_cast<size_t>(batch) * static_cast<size_t>(heads);
    bool fits = !__builtin_mul_overflow(bytes, static_cast<size_t>(q_local), &bytes);
    fits = !__builtin_mul_overflow(bytes, static_cast<size_t>(d) + 2, &bytes) && fits;
    return fits ? bytes : 0;
}

}  // namespace bk
