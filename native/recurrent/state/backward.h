// SPDX-License-Identifier: Apache-2.0
// The state's gradient through the chunks of a sequence, last to first, and dv. With dS that of the state behind the chunk,
//   dN = (Q K)^T dy + k e^{G_C - G} dS,   dE = (Q B)^T dy + b e^{G_C - G} dS
//   delta: dX = inverse^T beta dN, dN' = dN - (A K)^T dX, dv = dX;   rwkv7: dX = inverse^T dE, dv = dN + (A K)^T dX
//   dS_0 = e^{G_C} dS + (q e^G)^T dy -+ (a e^G)^T dX
#pragma once

#include "recurrent/state/forward.h"

namespace bk::recurrent {

// Gradients of StateProblem's operands, and what they need of the workspace.
struct StateGradients {
    const void* dy;
    const float* dfinal;  // or null: 0
    void *dq, *dk, *dv, *da, *db;
    float* dg;
    void *dbeta, *dbonus;
    float* dinitial;  // or null

    float* dstates;         // [slots, heads, d_k, d_v]: of the states behind the chunks
    float* dsolved;         // [rows, heads, d_v]: dN' of delta, dX of rwkv7
    float* wide[4];         // [rows, heads, d_k] of q, k, a and b of length 1, by head of v
    float* bonus_partials;  // [slots, heads, d_k]
};

struct BackwardPass {
    StateProblem p;
    StateGradients d;

    static int64_t floats(const StateProblem& p) { return StateTiles::floats(p); }

    BK_TEAM void operator()(const Team& team, int64_t item) const {
        const StateColumns at = StateColumns::of(p, item);
        const StateTiles s = StateTiles::at(p, team.scratch);
        load_state(team, p, d.dfinal == nullptr ? nullptr : d.dfinal + p.at_state(at.n, at.head), at.column, s.state);
        team.sync();
        for (int64_t k = p.sequences.chunks(at.n) - 1; k >= 0; --k) step(team, s, Chunk::at(p.sequences, at.n, k), at);
        if (d.dinitial != nullptr) store_state(team, p, s.state, at.column, d.dinitial + p.at_state(at.n, at.head));
        if (d.dv != nullptr) clear_uncovered(team, p, at.n, at.head, p.type, d.dv, at.column);
    }

private:
    // s.out has dy; s.values and s.solved the gradients of rows.
    BK_TEAM void step(const Team& team, const StateTiles& s, const Chunk& c, const StateColumns& at) const {
        const StateSteps steps{team, p, s, at.head};
        store_state(team, p, s.state, at.column, d.dstates + p.at_state(c.slot, at.head));
        load_values(team, p, c, at.head, p.type, d.dy, false, at.column, s.out);
        team.sync();
        written(steps, c, Role::kK, s.values);
        steps.combine(c, kQK, true, s.out, s.values, 1.0f, true);
        float* dv = s.values;
        if (p.rule == Rule::kDelta) {
            float* const scaled = s.x;  // beta dN, which fits into the rows of keys
            scale_by_beta(team, p, c, at.head, s.values, scaled);
            team.sync();
            steps.combine(c, kInverse, true, scaled, s.solved, 1.0f, false);
            steps.combine(c, kAK, true, s.solved, s.values, -1.0f, true);
            store_values(team, p, c, at.head, RowType::kF32, d.dsolved, at.column, s.values);
            dv = s.solved;
        } else if (p.rule == Rule::kRwkv7) {
            float* const of_solved = s.x;
            written(steps, c, Role::kB, s.solved);
            steps.combine(c, kQB, true, s.out, s.solved, 1.0f, true);
            steps.combine(c, kInverse, true, s.solved, of_solved, 1.0f, false);
            for (int i = team.rank; i < p.chunk() * p.value_pitch(); i += team.size) s.solved[i] = of_solved[i];
            team.sync();
            steps.combine(c, kAK, true, s.solved, s.values, 1.0f, true);
            store_values(team, p, c, at.head, RowType::kF32, d.dsolved, at.column, s.solved);
        }
        if (d.dv != nullptr) store_values(team, p, c, at.head, p.type, d.dv, at.column, dv);
        decay_state(team, p, c, at.head, s.state);
        team.sync();
        steps.write_state(c, Role::kQ, Decay::kFromStart, s.out, 1.0f);
        if (p.solves()) steps.write_state(c, Role::kA, Decay::kFromStart, s.solved, p.rule == Rule::kDelta ? -1.0f : 1.0f);
    }

    // to = x state, x being the rows that were written to the state at the chunk's end.
    BK_TEAM void written(const StateSteps& steps, const Chunk& c, Role role, float* to) const {
        load_role(steps.team, p, c, steps.head, role, Decay::kToEnd, steps.s.x);
        steps.team.sync();
        tile_product(steps.team, p.chunk(), kColumns, p.padded_keys(), plain(steps.s.x, p.key_pitch()), steps.s.state,
                     p.value_pitch(), to, p.value_pitch(), 1.0f, false);
        steps.team.sync();
    }
};

}  // namespace bk::recurrent
