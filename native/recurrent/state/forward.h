// SPDX-License-Identifier: Apache-2.0
// The state through the chunks of a sequence, in order, and the outputs. A team has a sequence, a head and kColumns columns of
// the state, which do not depend on the others.
#pragma once

#include "recurrent/state/tiles.h"
#include "recurrent/tile_product.h"

namespace bk::recurrent {

// Sequence, head and first column of an item of a run over columns of states.
struct StateColumns {
    int64_t n, head, column;

    BK_TEAM static StateColumns of(const StateProblem& p, int64_t item) {
        const int64_t tiles = p.column_tiles(), rest = item / tiles;
        return {rest / p.heads, rest % p.heads, item % tiles * kColumns};
    }
    static int64_t items(const StateProblem& p) { return p.sequences.count * p.heads * p.column_tiles(); }
};

// Buffers of a team in its scratch.
struct StateTiles {
    float *x, *state, *values, *solved, *out, *pairs;

    BK_TEAM static StateTiles at(const StateProblem& p, void* scratch) {
        StateTiles s{};
        s.x = static_cast<float*>(scratch);
        s.state = s.x + row_floats(p);
        s.values = s.state + p.padded_keys() * p.value_pitch();
        s.solved = s.values + p.chunk() * p.value_pitch();
        s.out = s.solved + p.chunk() * p.value_pitch();
        s.pairs = s.out + p.chunk() * p.value_pitch();
        return s;
    }
    static int64_t floats(const StateProblem& p) {
        return row_floats(p) + int64_t{p.padded_keys() + 3 * p.chunk()} * p.value_pitch() + int64_t{p.chunk()} * p.pair_pitch();
    }
    // x has rows of keys or of values.
    BK_HD static int row_floats(const StateProblem& p) {
        return p.chunk() * (p.key_pitch() > p.value_pitch() ? p.key_pitch() : p.value_pitch());
    }
};

// Steps that the passes share. Each is between two barriers of the team.
struct StateSteps {
    const Team& team;
    const StateProblem& p;
    StateTiles s;
    int64_t head;

    // to (+)= alpha x state, x being a role's rows.
    BK_TEAM void read_state(const Chunk& c, Role role, float* to, float alpha, bool adds) const {
        load_role(team, p, c, head, role, Decay::kFromStart, s.x);
        team.sync();
        tile_product(team, p.chunk(), kColumns, p.padded_keys(), plain(s.x, p.key_pitch()), s.state, p.value_pitch(), to,
                     p.value_pitch(), alpha, adds);
        team.sync();
    }
    // state += alpha x^T from, x being a role's rows.
    BK_TEAM void write_state(const Chunk& c, Role role, Decay decay, const float* from, float alpha) const {
        load_role(team, p, c, head, role, decay, s.x);
        team.sync();
        tile_product(team, p.padded_keys(), kColumns, p.chunk(), transposed(s.x, p.key_pitch()), from, p.value_pitch(), s.state,
                     p.value_pitch(), alpha, true);
        team.sync();
    }
    // to (+)= alpha pairs from, or their transpose.
    BK_TEAM void combine(const Chunk& c, int which, bool is_transposed, const float* from, float* to, float alpha,
                         bool adds) const {
        load_pairs(team, p, c, head, which, s.pairs);
        team.sync();
        const Operand pairs = is_transposed ? transposed(s.pairs, p.pair_pitch()) : plain(s.pairs, p.pair_pitch());
        tile_product(team, p.chunk(), kColumns, p.chunk(), pairs, from, p.value_pitch(), to, p.value_pitch(), alpha, adds);
        team.sync();
    }
};

struct ForwardPass {
    StateProblem p;
    bool has_output;  // false: only the states and solved rows, which the gradient reads

    static int64_t floats(const StateProblem& p) { return StateTiles::floats(p); }

    BK_TEAM void operator()(const Team& team, int64_t item) const {
        const StateColumns at = StateColumns::of(p, item);
        const StateTiles s = StateTiles::at(p, team.scratch);
        const float* const initial = p.initial == nullptr ? nullptr : p.initial + p.at_state(at.n, at.head);
        load_state(team, p, initial, at.column, s.state);
        team.sync();
        const int64_t chunks = p.sequences.chunks(at.n);
        for (int64_t k = 0; k < chunks; ++k) step(team, s, Chunk::at(p.sequences, at.n, k), at);
        if (p.final != nullptr) store_state(team, p, s.state, at.column, p.final + p.at_state(at.n, at.head));
        if (has_output) clear_uncovered(team, p, at.n, at.head, p.type, p.y, at.column);
    }

private:
    BK_TEAM void step(const Team& team, const StateTiles& s, const Chunk& c, const StateColumns& at) const {
        const StateSteps steps{team, p, s, at.head};
        if (p.states != nullptr) store_state(team, p, s.state, at.column, p.states + p.at_state(c.slot, at.head));
        load_values(team, p, c, at.head, p.type, p.v, false, at.column, s.values);
        team.sync();
        if (p.rule == Rule::kDelta) {
            steps.read_state(c, Role::kA, s.values, -1.0f, true);
            steps.combine(c, kInverse, false, s.values, s.solved, 1.0f, false);
        } else if (p.rule == Rule::kRwkv7) {
            steps.read_state(c, Role::kA, s.out, 1.0f, false);
            steps.combine(c, kAK, false, s.values, s.out, 1.0f, true);
            steps.combine(c, kInverse, false, s.out, s.solved, 1.0f, false);
        }
        if (p.solves() && p.solved != nullptr) store_values(team, p, c, at.head, RowType::kF32, p.solved, at.column, s.solved);
        if (p.rule == Rule::kDelta) {
            scale_by_beta(team, p, c, at.head, s.solved, s.values);
            team.sync();
        }
        if (has_output) {
            steps.read_state(c, Role::kQ, s.out, 1.0f, false);
            steps.combine(c, kQK, false, s.values, s.out, 1.0f, true);
            if (p.has_b()) steps.combine(c, kQB, false, s.solved, s.out, 1.0f, true);
            store_values(team, p, c, at.head, p.type, p.y, at.column, s.out);
        }
        decay_state(team, p, c, at.head, s.state);
        team.sync();
        steps.write_state(c, Role::kK, Decay::kToEnd, s.values, 1.0f);
        if (p.has_b()) steps.write_state(c, Role::kB, Decay::kToEnd, s.solved, 1.0f);
    }
};

}  // namespace bk::recurrent
