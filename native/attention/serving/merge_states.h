// SPDX-License-Identifier: Apache-2.0
// Merges partial results of attention over disjoint keys: of states (v_s, lse_s) with weights w_s = b^(lse_s - m), where m
// is the largest lse, v = sum w_s v_s / sum w_s and lse = m + log_b(sum w_s) (Dao et al., Flash-Decoding, 2023). b is e or 2.
//
// A state with an infinite lse has no keys: -inf, or +inf as FlashAttention-2 marks it. It has weight 0 and its v is not
// read. Without any other state v is 0 and lse -inf. One state is copied bit for bit.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/operand.h"
#include "core/collectives/team.h"
#include "core/math/limits.h"
#include "core/math/math.h"
#include "core/types/dtype.h"
#include "core/types/vec.h"

namespace bk {

BK_COLD inline Status require_extents(std::initializer_list<NamedExtent> extents) {
    for (const NamedExtent& e : extents)
        if (e.value <= 0)
            return fail(Status::kInvalidProblem, "%s is %lld, must be > 0", e.name, static_cast<long long>(e.value));
    return Status::kOk;
}

// State s of head h in row n is `s * state + n * row + h` heads behind the first one.
template <class T>
struct MergedStates {
    using C = compute_t<T>;
    static constexpr int kLanes = kVectorLanes<T>, kAhead = 4;  // kAhead: states whose loads are in flight

    int64_t count, rows, heads, head_dim;
    int64_t state, row;
    const T* v;
    const float* lse;
    const T* other_v;  // state 1 where it lies elsewhere
    const float* other_lse;
    T* y;
    float* y_lse;  // may be null
    bool is_base2;
    int64_t heads_of_team = 1, teams_of_row = 1;
    bool has_vectors = false;  // rows of values are aligned to a vector

    BK_HD int64_t at(int64_t s, int64_t n, int64_t h) const { return s * state + n * row + h; }
    BK_HD float lse_of(int64_t s, int64_t n, int64_t h) const {
        return s == 1 && other_lse != nullptr ? other_lse[at(0, n, h)] : lse[at(s, n, h)];
    }
    BK_HD const T* value_of(int64_t s, int64_t n, int64_t h) const {
        return (s == 1 && other_v != nullptr ? other_v + at(0, n, h) * head_dim : v + at(s, n, h) * head_dim);
    }
    static BK_HD bool has_keys(float lse) { return lse != kInfinity<float> && lse != -kInfinity<float>; }
    BK_HD C weight(float lse, float largest) const {
        if (!has_keys(lse)) return 0;
        const C x = static_cast<C>(lse) - static_cast<C>(largest);
        return is_base2 ? math::exp2<C>(x) : math::exp<C>(x);
    }
    BK_HD float logarithm(C x) const { return static_cast<float>(is_base2 ? math::log2<C>(x) : math::log<C>(x)); }

    struct Total {
        float largest;
        C sum;
    };
    BK_HD Total total(int64_t n, int64_t h) const {
        Total t{-kInfinity<float>, 0};
        for (int64_t s = 0; s < count; s += kAhead) {
            float some[kAhead];
            load_lse(some, s, n, h);
            BK_UNROLL
            for (int u = 0; u < kAhead; ++u)
                if (has_keys(some[u]) && !(t.largest >= some[u])) t.largest = some[u];
        }
        for (int64_t s = 0; s < count; s += kAhead) {
            float some[kAhead];
            load_lse(some, s, n, h);
            BK_UNROLL
            for (int u = 0; u < kAhead; ++u) t.sum += weight(some[u], t.largest);
        }
        return t;
    }

    // Loads lse of states [s, s + kAhead); those behind the last one have no keys.
    BK_HD void load_lse(float (&to)[kAhead], int64_t s, int64_t n, int64_t h) const {
        BK_UNROLL
        for (int u = 0; u < kAhead; ++u) to[u] = s + u < count ? lse_of(s + u, n, h) : -kInfinity<float>;
    }

    // Adds the weighted vectors of all states, from element `begin` of a head on.
    BK_HD void add_vectors(C (&sum)[kLanes], int64_t n, int64_t h, int64_t begin, float largest) const {
        for (int64_t s = 0; s < count; s += kAhead) {
            float some[kAhead];
            load_lse(some, s, n, h);
            Vec<T, kLanes> vectors[kAhead]{};
            BK_UNROLL
            for (int u = 0; u < kAhead; ++u)
                if (has_keys(some[u])) vectors[u] = load<kLanes>(value_of(s + u, n, h) + begin);
            BK_UNROLL
            for (int u = 0; u < kAhead; ++u) {
                const C factor = weight(some[u], largest);
                if (factor == 0) continue;
                BK_UNROLL
                for (int lane = 0; lane < kLanes; ++lane) sum[lane] += factor * widen(vectors[u].lane[lane]);
            }
        }
    }
};

template <class T>
struct MergeJob {
    MergedStates<T> p;

    // All of a row's outputs before its sums of exponentials, which may lie on inputs.
    BK_HD void operator()(const Team& team, int64_t item) const {
        using C = compute_t<T>;
        const int64_t n = item / p.teams_of_row, first = item % p.teams_of_row * p.heads_of_team;
        const int64_t heads = p.heads - first < p.heads_of_team ? p.heads - first : p.heads_of_team;
        constexpr int kLanes = MergedStates<T>::kLanes;
        const auto groups = static_cast<uint32_t>((p.head_dim + kLanes - 1) / kLanes);
        for (auto e = static_cast<uint32_t>(team.rank); e < heads * groups; e += static_cast<uint32_t>(team.size)) {
            const int64_t h = first + e / groups, begin = int64_t{e % groups} * kLanes;
            const int lanes = static_cast<int>(p.head_dim - begin < kLanes ? p.head_dim - begin : kLanes);
            const auto total = p.total(n, h);
            C sum[kLanes] = {};
            if (p.has_vectors) p.add_vectors(sum, n, h, begin, total.largest);
            for (int64_t s = 0; s < p.count && !p.has_vectors; ++s) {
                const C weight = p.weight(p.lse_of(s, n, h), total.largest);
                if (weight == 0) continue;
                const T* v = p.value_of(s, n, h) + begin;
                for (int lane = 0; lane < lanes; ++lane) sum[lane] += weight * widen(v[lane]);
            }
            T* y = p.y + (n * p.heads + h) * p.head_dim + begin;
            if (p.has_vectors) {
                Vec<T, kLanes> vector;
                BK_UNROLL
                for (int lane = 0; lane < kLanes; ++lane)
                    vector.lane[lane] = narrow<T>(total.sum == 0 ? C(0) : sum[lane] / total.sum);
                store(y, vector);
            } else {
                for (int lane = 0; lane < lanes; ++lane) y[lane] = narrow<T>(total.sum == 0 ? C(0) : sum[lane] / total.sum);
            }
        }
        team.sync();
        if (p.y_lse == nullptr) return;
        for (int64_t h = first + team.rank; h < first + heads; h += team.size) {
            const auto total = p.total(n, h);
            p.y_lse[n * p.heads + h] = total.sum == 0 ? -kInfinity<float> : total.largest + p.logarithm(total.sum);
        }
    }
};

template <class T>
Status merge_states(const Launch& launch, MergedStates<T> p) {
    p.heads_of_team = std::clamp<int64_t>(2048 / std::max<int64_t>(p.head_dim, 1), 1, p.heads);
    p.teams_of_row = ceil_div(p.heads, p.heads_of_team);
    const bool is_vectors =
        is_aligned(p.v, kVectorBytes) && is_aligned(p.other_v, kVectorBytes) && is_aligned(p.y, kVectorBytes);
    p.has_vectors = p.head_dim % MergedStates<T>::kLanes == 0 && is_vectors;
    return run_teams(launch, p.rows * p.teams_of_row, p.heads_of_team * p.head_dim * (p.count + 1) * size_of<T>(),
                     MergeJob<T>{p});
}

inline Status require_states(int32_t seq_len, int32_t num_heads, int32_t head_dim) {
    return require_extents({{"seq_len", seq_len}, {"num_heads", num_heads}, {"head_dim", head_dim}});
}

inline Status require_state_sets(int32_t num_index_sets, int32_t seq_len, int32_t num_heads, int32_t head_dim) {
    BK_TRY(require_extents({{"num_index_sets", num_index_sets}}));
    return require_states(seq_len, num_heads, head_dim);
}

template <class T>
struct MergeStateInPlace {
    int32_t seq_len;
    int32_t num_heads;
    int32_t head_dim;

    Work work() const { return Work::kAll; }
    Status check() const { return require_states(seq_len, num_heads, head_dim); }
    Status run(T* v, float* s, const T* v_other, const float* s_other, const Launch& launch) const {
        return merge_states<T>(launch, {2, seq_len, num_heads, head_dim, 0, num_heads, v, s, v_other, s_other, v, s, true});
    }
};

template <class T>
struct MergeStates {
    int32_t num_index_sets;
    int32_t seq_len;
    int32_t num_heads;
    int32_t head_dim;

    Work work() const { return Work::kAll; }
    Status check() const { return require_state_sets(num_index_sets, seq_len, num_heads, head_dim); }
    Status run(const T* v, const float* s, T* v_merged, float* s_merged, const Launch& launch) const {
        const int64_t row = int64_t{num_index_sets} * num_heads;
        return merge_states<T>(launch, {num_index_sets, seq_len, num_heads, head_dim, num_heads, row, v, s, nullptr, nullptr,
                                        v_merged, s_merged, true});
    }
};

// States are the first axis; lse is natural, or of base 2.
template <class T>
struct MergeAttentionStates {
    int32_t num_states;
    int32_t num_rows;
    int32_t head_dim;
    int32_t is_base2;

    Work work() const { return num_rows == 0 ? Work::kNone : Work::kAll; }
    Status check() const {
        return require_non_negative({{"num_states", num_states}, {"num_rows", num_rows}, {"head_dim", head_dim}});
    }
    Status run(const T* values, const float* lse, T* y, float* y_lse, const Launch& launch) const {
        return merge_states<T>(launch, {num_states, 1, num_rows, head_dim, num_rows, num_rows, values, lse, nullptr, nullptr, y,
                                        y_lse, is_base2 != 0});
    }
};

}  // namespace bk
