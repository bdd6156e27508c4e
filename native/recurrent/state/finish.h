// SPDX-License-Identifier: Apache-2.0
// Gradients of q, k, a and b in their dtype: sums over the heads of v that share a head of q and k, through the division by
// the length, and 0 in rows that no sequence has; and the sum of a bonus over chunks.
#pragma once

#include "core/collectives/team.h"
#include "recurrent/state/backward.h"

namespace bk::recurrent {

// Item: a row and a head of q and k. A team is a warp.
struct FinishRow {
    StateProblem p;
    StateGradients d;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t row = item / p.qk_heads, qk_head = item % p.qk_heads;
        const Sequences& s = p.sequences;
        const bool is_covered = s.count > 0 && row >= s.begin(0) && row < s.end(s.count - 1);
        finish(team, row, qk_head, Role::kQ, d.dq, is_covered);
        finish(team, row, qk_head, Role::kK, d.dk, is_covered);
        if (p.has_b()) {
            finish(team, row, qk_head, Role::kA, d.da, is_covered);
            finish(team, row, qk_head, Role::kB, d.db, is_covered);
        }
        if (is_covered || qk_head > 0) return;
        const int64_t gates = int64_t{p.heads} * p.gate_width();
        for (int64_t k = team.rank; k < gates && d.dg != nullptr; k += team.size) d.dg[row * gates + k] = 0.0f;
        for (int64_t h = team.rank; h < p.heads && d.dbeta != nullptr; h += team.size)
            store_float(p.type, d.dbeta, row * p.heads + h, 0.0f);
    }

private:
    BK_HD float wide(int64_t row, int64_t qk_head, Role role, int k) const {
        const float* const from = d.wide[static_cast<int>(role)];
        const float* const second = p.rule == Rule::kDelta && role == Role::kK ? d.wide[static_cast<int>(Role::kA)] : nullptr;
        const int64_t group = p.heads / p.qk_heads;
        float sum = 0.0f;
        for (int64_t head = qk_head * group; head < (qk_head + 1) * group; ++head) {
            sum += from[p.at_key(row, head) + k];
            if (second != nullptr) sum += second[p.at_key(row, head) + k];
        }
        return sum;
    }

    BK_HD void finish(const Team& team, int64_t row, int64_t qk_head, Role role, void* to, bool is_covered) const {
        if (to == nullptr) return;
        const int64_t head = qk_head * (p.heads / p.qk_heads);
        const int64_t at = (row * p.qk_heads + qk_head) * p.d_k;
        const float* const norms = is_covered ? p.norms_of(role) : nullptr;
        const bool has_norm = norms != nullptr && (role == Role::kQ || role == Role::kK);
        const float norm = has_norm ? norms[row * p.heads + head] : 1.0f;
        float mine = 0.0f;
        if (has_norm)
            for (int k = team.rank; k < p.d_k; k += team.size)
                mine = math::fma(norm * load_float(p.type, p.operand(role), at + k), wide(row, qk_head, role, k), mine);
        const float along = has_norm ? team.sum(mine) : 0.0f;
        for (int k = team.rank; k < p.d_k; k += team.size) {
            float x = is_covered ? wide(row, qk_head, role, k) : 0.0f;
            if (has_norm) x = norm * (x - norm * load_float(p.type, p.operand(role), at + k) * along);
            store_float(p.type, to, at + k, x);
        }
    }
};

// dbonus of a head: chunks in the order of slots.
struct FinishBonus {
    StateProblem p;
    StateGradients d;

    BK_HD void operator()(const Team& team, int64_t head) const {
        const int64_t slots = p.sequences.slots();
        for (int k = team.rank; k < p.d_k; k += team.size) {
            float sum = 0.0f;
            for (int64_t slot = 0; slot < slots; ++slot) sum += d.bonus_partials[p.at_key(slot, head) + k];
            store_float(p.type, d.dbonus, head * p.d_k + k, sum);
        }
    }
};

}  // namespace bk::recurrent
