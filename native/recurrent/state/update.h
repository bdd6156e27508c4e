// SPDX-License-Identifier: Apache-2.0
// One token of each sequence: the state is read and written once. A team has a sequence, a head and kColumns columns.
#pragma once

#include "recurrent/state/forward.h"

namespace bk::recurrent {

// StateProblem with sequences of one token; `initial` is the state, `final` the new one, which may be the same array: a thread
// reads and writes its own cells alone. What it reads twice is in the first-level cache by then.
struct UpdateStep {
    StateProblem p;

    // Columns of a lane.
    static constexpr int kPerLane = BK_CUDA ? 1 : kColumns;

    BK_TEAM void operator()(const Team& team, int64_t item) const {
        const StateColumns at = StateColumns::of(p, item);
        const Lanes l = Lanes::of(team);
        float *const q = static_cast<float*>(team.scratch), *const k = q + kMaxKeyWidth, *const a = k + kMaxKeyWidth;
        float *const b = a + kMaxKeyWidth, *const decay = b + kMaxKeyWidth, *const partials = decay + kMaxKeyWidth;
        load_row(team, at, Role::kQ, q);
        load_row(team, at, Role::kK, k);
        if (p.has_b()) {
            load_row(team, at, Role::kA, a);
            load_row(team, at, Role::kB, b);
        }
        for (int d = team.rank; d < p.d_k; d += team.size) {
            const int64_t gate = (at.n * p.heads + at.head) * p.gate_width() + (p.by_channel ? d : 0);
            decay[d] = p.g == nullptr ? 1.0f : math::exp<float>(clamped_gate(p.g[gate]));
        }
        team.sync();

        const int64_t first = at.column + l.lane, left = p.d_v - first;
        const int columns = left <= 0 ? 0 : static_cast<int>(left < kPerLane ? left : kPerLane);
        const int64_t values = p.at_value(at.n, at.head) + first, states = p.at_state(at.n, at.head) + first;
        const bool is_delta = p.rule == Rule::kDelta;
        float value[kPerLane] = {}, solved[kPerLane] = {}, out[kPerLane] = {};
        for (int v = 0; v < columns; ++v) value[v] = load_float(p.type, p.v, values + v);
        if (p.solves()) {
            for (int d = l.warp; d < p.d_k; d += l.warps) {
                const float x = is_delta ? k[d] * decay[d] : a[d];
                const float* const row = p.initial + states + int64_t{d} * p.d_v;
                for (int v = 0; v < columns; ++v) solved[v] = math::fma(x, row[v], solved[v]);
            }
            total(team, partials, solved);
            if (is_delta) {
                const float beta = p.beta_at(at.n, at.head);
                for (int v = 0; v < columns; ++v) value[v] = beta * (value[v] - solved[v]);
            }
        }
        for (int d = l.warp; d < p.d_k; d += l.warps) {
            const float of_solved = p.has_b() ? b[d] : 0.0f, bonus = p.bonus == nullptr ? 0.0f : bonus_at(at.head, d) * k[d];
            const float* const from = p.initial + states + int64_t{d} * p.d_v;
            float* const to = p.final + states + int64_t{d} * p.d_v;
            for (int v = 0; v < columns; ++v) {
                const float before = from[v];
                float after = math::fma(k[d], value[v], decay[d] * before);
                if (p.has_b()) after = math::fma(of_solved, solved[v], after);
                to[v] = after;
                const float seen = p.bonus == nullptr ? after : math::fma(bonus, value[v], before);
                out[v] = math::fma(q[d], seen, out[v]);
            }
        }
        total(team, partials + kMaxTeamWarps * kColumns, out);
        if (l.warp == 0)
            for (int v = 0; v < columns; ++v) store_float(p.type, p.y, values + v, out[v]);
    }

private:
    static constexpr int kMaxTeamWarps = 8;
    static_assert((5 * kMaxKeyWidth + 2 * kMaxTeamWarps * kColumns) * static_cast<int>(sizeof(float)) <= kTeamScratch, "");

    BK_TEAM float bonus_at(int64_t head, int k) const { return load_float(p.type, p.bonus, head * p.d_k + k); }

    // A role's row, with the scale of q, and of length 1.
    BK_TEAM void load_row(const Team& team, const StateColumns& at, Role role, float* to) const {
        const int64_t from = p.at_operand(role, at.n, at.head);
        const bool has_norm = p.normalizes && (role == Role::kQ || role == Role::kK);
        float mine = 0.0f;
        for (int d = team.rank; d < p.d_k; d += team.size) {
            to[d] = load_float(p.type, p.operand(role), from + d);
            mine = math::fma(to[d], to[d], mine);
        }
        float factor = role == Role::kQ ? p.scale : 1.0f;
        if (has_norm) factor /= math::sqrt<float>(team.sum(mine) + kNormEps);
        for (int d = team.rank; d < p.d_k; d += team.size) to[d] *= factor;
    }

    // Sums over the warps, in order; each thread gets those of its columns.
    BK_TEAM void total(const Team& team, float* partials, float (&sum)[kPerLane]) const {
        const Lanes l = Lanes::of(team);
        if (l.warps == 1) return;
        for (int v = 0; v < kPerLane; ++v) partials[l.warp * kColumns + l.lane + v] = sum[v];
        team.sync();
        for (int v = 0; v < kPerLane; ++v) {
            sum[v] = 0.0f;
            for (int w = 0; w < l.warps; ++w) sum[v] += partials[w * kColumns + l.lane + v];
        }
    }
};

}  // namespace bk::recurrent
