// SPDX-License-Identifier: Apache-2.0
// Routing of tokens to experts: the top_k experts of each row of logits, their weights, and the gradient of the logits.
//
// Scores are softmax(logits), sigmoid(logits), or the logits themselves, whose softmax over the chosen experts are then the
// weights. A bias is added for the choice alone (auxiliary-loss-free balancing, Wang et al. 2024). With groups (DeepSeek-V3,
// arXiv 2412.19437, 2.1.2) the experts of the topk_group best groups compete; a group's value is its largest or the sum of
// its two largest values.
//
// The choice is by falling (value, lower index first), without a bias by the logits, whose order scores have but for
// rounding. NaN is below all other values. Each slot is the largest key below the previous one: no row is sorted.
#pragma once

#include <cstdint>

#include "core/collectives/team.h"
#include "core/math/math.h"
#include "core/sort/ordered_key.h"
#include "core/types/dtype.h"
#include "moe/checks.h"

namespace bk::moe {

enum class Scoring : int32_t { kSoftmax, kSigmoid, kTopKSoftmax };
enum class GroupValue : int32_t { kLargest, kTopTwo };

// Values of experts, and of groups, in a team's scratch.
constexpr int64_t kCachedExperts = 2048;
constexpr int64_t kMaxGroups = 512;
static_assert((kCachedExperts + kMaxGroups) * sizeof(float) <= kTeamScratch, "values fit the scratch of a team");

// Keys order by value, then by lower index; 0 is below all keys.
BK_HD uint32_t value_key(float value) {
    constexpr KeyOrder<uint32_t> kOrder{KeyKind::kFloat, 0x7f800000u, 0};
    const uint32_t key = kOrder(bit_cast<uint32_t>(value));
    return value != value ? 1 : key;
}
BK_HD uint64_t rank_key(float value, int64_t index) {
    return static_cast<uint64_t>(value_key(value)) << 32 | (0xffffffffu - static_cast<uint32_t>(index));
}
BK_HD int64_t index_of(uint64_t key) { return 0xffffffffu - static_cast<uint32_t>(key); }

BK_HD float sigmoid(float z) {
    const float e = math::exp<float>(z < 0 ? z : -z);
    return (z < 0 ? e : 1.0f) / (1.0f + e);
}

// Shares of chosen experts: weight / sum of weights, each divided by `base` so that it does not underflow.
template <class T>
struct Shares {
    const T* logits;
    Scoring scoring;
    float base;

    // base: the largest chosen logit; of sigmoids, which are exp(z) for small z, at most 0.
    BK_HD Shares(const T* row, Scoring rule, float largest)
        : logits(row), scoring(rule), base(rule == Scoring::kSigmoid && largest > 0 ? 0.0f : largest) {}
    BK_HD float of(int64_t expert) const { return of_logit(widen(logits[expert])); }
    BK_HD float of_logit(float z) const {
        if (scoring != Scoring::kSigmoid) return math::exp<float>(z - base);
        if (z >= 0) return sigmoid(z);
        return math::exp<float>(z - base) / (1.0f + math::exp<float>(z));
    }
};

template <class T>
struct RouteJob {
    int64_t experts, top_k, groups, top_groups;
    Scoring scoring;
    GroupValue group_value;
    bool is_normalized;
    float scale;
    const T* logits;
    const float* bias;  // or null
    float* weights;
    int32_t* ids;

    BK_HD int64_t group_size() const { return experts / groups; }

    // Largest logit and sum of exponentials of a row.
    BK_HD void softmax_of(const Team& team, const T* row, float* largest, float* sum) const {
        float most = -bit_cast<float>(0x7f800000u), mine = 0;
        for (int64_t j = team.rank; j < experts; j += team.size) {
            const float z = widen(row[j]);
            most = z > most ? z : most;
        }
        *largest = team.largest(most);
        for (int64_t j = team.rank; j < experts; j += team.size) mine += math::exp<float>(widen(row[j]) - *largest);
        *sum = team.sum(mine);
    }

    // The number that the choice compares.
    struct Values {
        const T* row;
        const float* bias;
        const float* cached;  // or null
        Scoring scoring;
        bool by_score;
        float largest, sum;

        BK_HD float computed(int64_t j) const {
            const float z = widen(row[j]);
            if (!by_score) return bias == nullptr ? z : z + bias[j];
            const float score = scoring == Scoring::kSigmoid ? sigmoid(z) : math::exp<float>(z - largest) / sum;
            return bias == nullptr ? score : score + bias[j];
        }
        BK_HD float of(int64_t j) const { return cached != nullptr ? cached[j] : computed(j); }
    };

    // The value of group g: its largest, or the sum of its two largest.
    BK_HD float value_of_group(const Values& values, int64_t g) const {
        const float lowest = -bit_cast<float>(0x7f800000u);
        float first = lowest, second = lowest;
        bool has_nan = false;
        for (int64_t j = g * group_size(); j < (g + 1) * group_size(); ++j) {
            const float x = values.of(j);
            has_nan = has_nan || x != x;
            second = x > first ? first : x > second ? x : second;
            first = x > first ? x : first;
        }
        if (group_value == GroupValue::kLargest || group_size() == 1) return first;
        return has_nan ? bit_cast<float>(0x7fc00000u) : first + second;
    }

    // The key of the last group that competes.
    BK_HD uint64_t last_group(const Team& team, const float* group_values) const {
        uint64_t last = ~uint64_t{0};
        for (int64_t k = 0; k < top_groups; ++k) {
            uint64_t best = 0;
            for (int64_t g = team.rank; g < groups; g += team.size) {
                const uint64_t key = rank_key(group_values[g], g);
                best = key < last && key > best ? key : best;
            }
            last = team.largest(best);
        }
        return last;
    }

    BK_HD void operator()(const Team& team, int64_t token) const {
        const T* const row = logits + token * experts;
        int32_t* const chosen = ids + token * top_k;
        float* const scratch = static_cast<float*>(team.scratch);
        const bool sums_all = scoring == Scoring::kSoftmax && !is_normalized;
        Values values{row, bias, nullptr, scoring, false, 0, 1};
        values.by_score =
            scoring != Scoring::kTopKSoftmax && (bias != nullptr || (groups > 1 && group_value == GroupValue::kTopTwo));
        if (sums_all || (values.by_score && scoring == Scoring::kSoftmax)) softmax_of(team, row, &values.largest, &values.sum);
        if (experts <= kCachedExperts) {
            store_values(team, values, scratch);
            values.cached = scratch;
            team.sync();
        }
        float* const group_values = scratch + kCachedExperts;
        uint64_t group_limit = 0;
        if (groups > 1) {
            for (int64_t g = team.rank; g < groups; g += team.size) group_values[g] = value_of_group(values, g);
            team.sync();
            group_limit = last_group(team, group_values);
        }
        const auto competes = [&](int64_t j) {
            const int64_t g = j / group_size();
            return rank_key(group_values[g], g) >= group_limit;
        };
        auto* const keys = reinterpret_cast<uint32_t*>(scratch);  // of the cached values; 0: chosen, or does not compete
        if (values.cached != nullptr) store_keys(team, competes, scratch, keys);
        uint64_t last = ~uint64_t{0};
        float largest = -bit_cast<float>(0x7f800000u);
        for (int64_t k = 0; k < top_k; ++k) {
            if (values.cached != nullptr) {
                last = team.first_largest(keys, experts);
            } else {
                uint64_t best = 0;
                for (int64_t j = team.rank; j < experts; j += team.size) {
                    const uint64_t key = rank_key(values.computed(j), j);
                    if (key < last && key > best && (groups == 1 || competes(j))) best = key;
                }
                last = team.largest(best);
            }
            const int64_t expert = index_of(last);
            const float z = widen(row[expert]);
            largest = z > largest ? z : largest;
            if (values.cached != nullptr && expert % team.size == team.rank) keys[expert] = 0;
            if (team.rank == 0) chosen[k] = static_cast<int32_t>(expert);
        }
        team.sync();
        store_weights(team, token, Shares<T>(row, scoring, largest), values, sums_all);
    }

    BK_HD void store_values(const Team& team, const Values& values, float* to) const {
        const T* const row = values.row;
        if (values.by_score || values.bias != nullptr) {
            for (int64_t j = team.rank; j < experts; j += team.size) to[j] = values.computed(j);
        } else {
            for (int64_t j = team.rank; j < experts; j += team.size) to[j] = widen(row[j]);
        }
    }
    // Keys overwrite the values of the same thread.
    template <class Competes>
    BK_HD void store_keys(const Team& team, const Competes& competes, const float* values, uint32_t* keys) const {
        for (int64_t j = team.rank; j < experts; j += team.size) keys[j] = value_key(values[j]);
        if (groups == 1) return;
        for (int64_t j = team.rank; j < experts; j += team.size)
            if (!competes(j)) keys[j] = 0;
    }

    BK_HD void store_weights(const Team& team, int64_t token, const Shares<T>& shares, const Values& values,
                             bool sums_all) const {
        const int32_t* const chosen = ids + token * top_k;
        float* const own = weights + token * top_k;
        if (sums_all || (scoring == Scoring::kSigmoid && !is_normalized)) {
            for (int64_t k = team.rank; k < top_k; k += team.size) {
                const float z = widen(values.row[chosen[k]]);
                own[k] = scale * (sums_all ? math::exp<float>(z - values.largest) / values.sum : sigmoid(z));
            }
            return;
        }
        float mine = 0;
        for (int64_t k = team.rank; k < top_k; k += team.size) own[k] = widen(values.row[chosen[k]]);
        for (int64_t k = team.rank; k < top_k; k += team.size) own[k] = shares.of_logit(own[k]);
        for (int64_t k = team.rank; k < top_k; k += team.size) mine += own[k];
        const float sum = team.sum(mine);
        for (int64_t k = team.rank; k < top_k; k += team.size) own[k] = scale * (own[k] / sum);
    }
};

// With shares p of the weights w = scale p, and g the gradient of w:
//   normalised             dp = scale (g - sum of g p); softmax dz = p dp, sigmoid dz = p dp (1 - sigmoid(z))
//   softmax of all logits  dz = scale p ([chosen] g - sum of g p)
//   sigmoid                dz = scale g s (1 - s)
template <class T>
struct RouteBackwardJob {
    int64_t experts, top_k;
    Scoring scoring;
    bool is_normalized;
    float scale;
    const float* dweights;
    const T* logits;
    const int32_t* ids;
    T* dlogits;

    BK_HD bool is_expert(int32_t id) const { return id >= 0 && id < experts; }

    BK_HD void operator()(const Team& team, int64_t token) const {
        const T* const row = logits + token * experts;
        T* const to = dlogits + token * experts;
        const int32_t* const chosen = ids + token * top_k;
        const float* const g = dweights + token * top_k;
        const bool sums_all = scoring == Scoring::kSoftmax && !is_normalized;
        float largest = -bit_cast<float>(0x7f800000u), mine = 0, weighted = 0;
        if (sums_all) {
            for (int64_t j = team.rank; j < experts; j += team.size) largest = above(largest, widen(row[j]));
        } else {
            for (int64_t k = team.rank; k < top_k; k += team.size)
                if (is_expert(chosen[k])) largest = above(largest, widen(row[chosen[k]]));
        }
        const Shares<T> shares(row, scoring, team.largest(largest));
        if (sums_all)
            for (int64_t j = team.rank; j < experts; j += team.size) mine += shares.of(j);
        for (int64_t k = team.rank; k < top_k; k += team.size) {
            if (!is_expert(chosen[k])) continue;
            const float share = shares.of(chosen[k]);
            if (!sums_all) mine += share;
            weighted += share * g[k];
        }
        const float sum = team.sum(mine), mean = team.sum(weighted) / sum;
        for (int64_t j = team.rank; j < experts; j += team.size)
            to[j] = narrow<T>(sums_all ? -scale * (shares.of(j) / sum) * mean : 0.0f);
        team.sync();
        for (int64_t k = team.rank; k < top_k; k += team.size) {
            const int32_t expert = chosen[k];
            if (!is_expert(expert)) continue;
            const float s = scoring == Scoring::kSigmoid ? sigmoid(widen(row[expert])) : 0.0f;
            const float complement = scoring == Scoring::kSigmoid ? sigmoid(-widen(row[expert])) : 1.0f;
            const bool is_free = scoring == Scoring::kSigmoid && !is_normalized;
            const float dz = is_free ? g[k] * s * complement : shares.of(expert) / sum * (g[k] - mean) * complement;
            to[expert] = narrow<T>(scale * dz);
        }
    }

    static BK_HD float above(float largest, float z) { return z > largest ? z : largest; }
};

BK_COLD inline Status require_routing(int32_t tokens, int32_t experts, int32_t top_k, int32_t scoring, int32_t renormalize) {
    BK_TRY(require_non_negative({{"tokens", tokens}, {"experts", experts}}));
    BK_TRY(require_in("top_k", top_k, 0, experts));
    BK_TRY(require_in("scoring", scoring, 0, 2));
    return require_in("renormalize", renormalize, 0, 1);
}

// One warp serves short rows.
inline int64_t route_bytes(int64_t experts) { return experts <= 512 ? 512 : experts * 4; }

template <class T>
struct MoeRoute {
    int32_t tokens, experts, top_k, scoring, renormalize, n_group, topk_group, group_score;
    float scale;

    Work work() const { return all_or_none(int64_t{tokens} * top_k); }
    Status check() const {
        BK_TRY(require_routing(tokens, experts, top_k, scoring, renormalize));
        BK_TRY(require_in("group_score", group_score, 0, 1));
        BK_TRY(require_in("n_group", n_group, 1, kMaxGroups));
        if (experts % n_group != 0)
            return fail(Status::kInvalidProblem, "n_group is %d, must divide experts, %d", n_group, experts);
        BK_TRY(require_in("topk_group", topk_group, 1, n_group));
        if (int64_t{topk_group} * (experts / n_group) < top_k)
            return fail(Status::kInvalidProblem, "top_k is %d, but topk_group %d groups of %d experts have fewer", top_k,
                        topk_group, experts / n_group);
        return Status::kOk;
    }
    Status run(const T* logits, const float* bias, float* weights, int32_t* ids, const Launch& launch) const {
        RouteJob<T> job{};
        job.experts = experts;
        job.top_k = top_k;
        job.groups = topk_group == n_group ? 1 : n_group;
        job.top_groups = topk_group;
        job.scoring = static_cast<Scoring>(scoring);
        job.group_value = static_cast<GroupValue>(group_score);
        job.is_normalized = renormalize != 0;
        job.scale = scale;
        job.logits = logits;
        job.bias = bias;
        job.weights = weights;
        job.ids = ids;
        return run_teams(launch, tokens, route_bytes(experts), job, true, top_k);
    }
};

template <class T>
struct MoeRouteBackward {
    int32_t tokens, experts, top_k, scoring, renormalize;
    float scale;

    Work work() const { return all_or_none(int64_t{tokens} * experts); }
    Status check() const { return require_routing(tokens, experts, top_k, scoring, renormalize); }
    Status run(const float* dweights, const T* logits, const int32_t* ids, T* dlogits, const Launch& launch) const {
        const RouteBackwardJob<T> job{experts, top_k,  static_cast<Scoring>(scoring), renormalize != 0, scale, dweights, logits,
                                      ids,     dlogits};
        return run_teams(launch, tokens, route_bytes(experts), job);
    }
};

}  // namespace bk::moe
