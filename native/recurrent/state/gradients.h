// SPDX-License-Identifier: Apache-2.0
// Gradients of q, k, a, b, g and beta of a chunk, once the states and their gradients at its ends are known. Chunks and heads
// are independent.
//
// The gradient of a pair matrix is a product of rows of values, (Q K)' = dy V^T and so on; a role's gradient is then
//   q, a   (rows state^T) e^G + sum over s of pair'[t, s] y_s e^{G_t - G_s}
//   k, b   (rows dstate^T) e^{G_C - G} + sum over t of pair'[t, s] x_t e^{G_t - G_s}
// Each x e^G contributes x dx to the gradient of G there, each y e^{-G} -y dy, and e^{G_C} the sum of S_C dS_C over columns.
// dg is the sum of these from the token to the chunk's end.
#pragma once

#include "recurrent/state/backward.h"

namespace bk::recurrent {

struct GradientTiles {
    float *sum, *of_decay, *gates, *keys, *rows, *values, *pairs[4];

    BK_TEAM static GradientTiles at(const StateProblem& p, void* scratch) {
        GradientTiles s{};
        s.sum = static_cast<float*>(scratch);
        s.of_decay = s.sum + p.chunk() * p.key_pitch();
        s.gates = s.of_decay + p.chunk() * p.key_pitch();
        s.keys = s.gates + (p.by_channel ? p.chunk() * p.key_pitch() : 0);
        s.rows = s.keys + key_rows(p) * p.key_pitch();
        s.values = s.rows + p.chunk() * p.value_pitch();
        s.pairs[0] = s.values + kColumns * p.pair_pitch();
        for (int i = 1; i < 4; ++i) s.pairs[i] = s.pairs[i - 1] + p.chunk() * p.pair_pitch();
        return s;
    }
    static int64_t floats(const StateProblem& p) {
        return int64_t{(p.by_channel ? 3 : 2) * p.chunk() + key_rows(p)} * p.key_pitch() +
               int64_t{p.chunk()} * p.value_pitch() + int64_t{kColumns + 4 * p.chunk()} * p.pair_pitch();
    }
    // `keys` has a transposed state, or a role's rows.
    BK_HD static int key_rows(const StateProblem& p) { return p.chunk() > kColumns ? p.chunk() : kColumns; }
};

// Gradients of pair matrices in the scratch.
enum PairGradient : int32_t { kOfQK, kOfQB, kOfAK, kOfAB };

struct ChunkGradients {
    StateProblem p;
    StateGradients d;

    static int64_t floats(const StateProblem& p) { return GradientTiles::floats(p); }

    BK_TEAM void operator()(const Team& team, int64_t item) const {
        const int64_t head = item % p.heads;
        const Chunk c = Chunk::of_slot(p.sequences, item / p.heads);
        const GradientTiles s = GradientTiles::at(p, team.scratch);
        if (c.tokens == 0) {
            clear_bonus(team, item / p.heads, head);
            return;
        }
        const int pitch = p.key_pitch();
        for (int i = team.rank; i < p.chunk() * pitch; i += team.size) s.of_decay[i] = 0.0f;
        if (p.by_channel) load_gates(team, c, head, s.gates);
        team.sync();
        pair_gradients(team, s, c, head);
        if (d.dbeta != nullptr) store_beta(team, c, head);

        inter(team, s, c, head, d.dy, p.type, p.states, false, 1.0f);
        finish_reader(team, s, c, head, Role::kQ, kOfQK, kOfQB);
        if (p.solves()) {
            const float sign = p.rule == Rule::kDelta ? -1.0f : 1.0f;
            inter(team, s, c, head, d.dsolved, RowType::kF32, p.states, p.rule == Rule::kDelta, sign);
            finish_reader(team, s, c, head, Role::kA, kOfAK, kOfAB);
        }
        const bool is_delta = p.rule == Rule::kDelta;
        inter(team, s, c, head, is_delta ? p.solved : p.v, is_delta ? RowType::kF32 : p.type, d.dstates, is_delta, 1.0f);
        finish_writer(team, s, c, head, Role::kK, kOfQK, kOfAK);
        if (p.has_b()) {
            inter(team, s, c, head, p.solved, RowType::kF32, d.dstates, false, 1.0f);
            finish_writer(team, s, c, head, Role::kB, kOfQB, kOfAB);
        }
        if (d.dg != nullptr) store_gates(team, s, c, head);
    }

private:
    // to = rows values^T over all columns, one tile of columns after the other.
    BK_TEAM void pair_gradient(const Team& team, const GradientTiles& s, const Chunk& c, int64_t head, const void* x,
                               RowType x_type, bool x_beta, const void* y, RowType y_type, bool y_beta, float sign,
                               float* to) const {
        for (int64_t column = 0; column < p.d_v; column += kColumns) {
            load_values(team, p, c, head, y_type, y, y_beta, column, s.rows);
            team.sync();
            for (int i = team.rank; i < p.chunk() * kColumns; i += team.size)
                s.values[i % kColumns * p.pair_pitch() + i / kColumns] = s.rows[i / kColumns * p.value_pitch() + i % kColumns];
            team.sync();
            load_values(team, p, c, head, x_type, x, x_beta, column, s.rows);
            team.sync();
            tile_product(team, p.chunk(), p.chunk(), kColumns, plain(s.rows, p.value_pitch()), s.values, p.pair_pitch(), to,
                         p.pair_pitch(), sign, column > 0);
            team.sync();
        }
    }

    BK_TEAM void pair_gradients(const Team& team, const GradientTiles& s, const Chunk& c, int64_t head) const {
        constexpr RowType kF32 = RowType::kF32;
        if (p.rule == Rule::kDelta) {
            pair_gradient(team, s, c, head, d.dy, p.type, false, p.solved, kF32, true, 1.0f, s.pairs[kOfQK]);
            pair_gradient(team, s, c, head, d.dsolved, kF32, true, p.solved, kF32, true, -1.0f, s.pairs[kOfAK]);
            return;
        }
        pair_gradient(team, s, c, head, d.dy, p.type, false, p.v, p.type, false, 1.0f, s.pairs[kOfQK]);
        if (!p.solves()) return;
        pair_gradient(team, s, c, head, d.dy, p.type, false, p.solved, kF32, false, 1.0f, s.pairs[kOfQB]);
        pair_gradient(team, s, c, head, d.dsolved, kF32, false, p.v, p.type, false, 1.0f, s.pairs[kOfAK]);
        pair_gradient(team, s, c, head, d.dsolved, kF32, false, p.solved, kF32, false, 1.0f, s.pairs[kOfAB]);
    }

    // sum = rows state^T, by a state [slots, heads, d_k, d_v].
    BK_TEAM void inter(const Team& team, const GradientTiles& s, const Chunk& c, int64_t head, const void* rows, RowType type,
                       const float* states, bool has_beta, float sign) const {
        const Lanes l = Lanes::of(team);
        const float* const state = states + p.at_state(c.slot, head);
        for (int64_t column = 0; column < p.d_v; column += kColumns) {
            load_values(team, p, c, head, type, rows, has_beta, column, s.rows);
            for (int k = l.warp; k < p.padded_keys(); k += l.warps)
                for (int x = l.lane; x < kColumns; x += l.lanes) {
                    const bool is_in = k < p.d_k && column + x < p.d_v;
                    s.keys[x * p.key_pitch() + k] = is_in ? state[int64_t{k} * p.d_v + column + x] : 0.0f;
                }
            team.sync();
            tile_product(team, p.chunk(), p.padded_keys(), kColumns, plain(s.rows, p.value_pitch()), s.keys, p.key_pitch(),
                         s.sum, p.key_pitch(), sign, column > 0);
            team.sync();
        }
    }

    BK_TEAM void load_gates(const Team& team, const Chunk& c, int64_t head, float* to) const {
        const Lanes l = Lanes::of(team);
        for (int t = l.warp; t < p.chunk(); t += l.warps)
            for (int k = l.lane; k < p.padded_keys(); k += l.lanes)
                to[t * p.key_pitch() + k] = t < c.tokens && k < p.d_k ? p.sum_at(c, head, t, k) : 0.0f;
    }

    // One row's sum over the tokens that it shares a pair matrix with, kLanes channels at once. For a reader `own` is the
    // token t and `other` each s; for a writer the other way round.
    template <bool kReads>
    BK_TEAM void add_pairs(const GradientTiles& s, const Chunk& c, int64_t head, Role reader, int own, int first, int end,
                           const float* pairs, int k, float* sum) const {
        constexpr int kLanes = Team::kLanes;
        const bool is_before = p.is_before(reader), is_by_channel = p.by_channel && p.g != nullptr;
        for (int other = first; other < end; ++other) {
            const int t = kReads ? own : other, from = kReads ? other : own, to = is_before ? t - 1 : t;
            float x = pairs[t * p.pair_pitch() + from];
            const float* const row = s.keys + other * p.key_pitch() + k;
            if (!is_by_channel || to == from) {
                if (to != from) x *= math::exp<float>(p.sum_at(c, head, to, 0) - p.sum_at(c, head, from, 0));
                for (int v = 0; v < kLanes; ++v) sum[v] = math::fma(x, row[v], sum[v]);
            } else {
                const float *const high = s.gates + to * p.key_pitch() + k, *const low = s.gates + from * p.key_pitch() + k;
                for (int v = 0; v < kLanes; ++v) sum[v] = math::fma(x * row[v], math::exp<float>(high[v] - low[v]), sum[v]);
            }
        }
    }

    // sum[t, k] times the decay of its role.
    BK_TEAM float decayed(const Chunk& c, int64_t head, const GradientTiles& s, int from, int k, bool is_to_end) const {
        if (p.g == nullptr) return 1.0f;
        const auto sum = [&](int t) {
            return t < 0 ? 0.0f : p.by_channel ? s.gates[t * p.key_pitch() + k] : p.sum_at(c, head, t, 0);
        };
        return math::exp<float>(is_to_end ? sum(c.tokens - 1) - sum(from) : sum(from));
    }

    // A bonus is the diagonal of (Q K), and no gate has a part in it.
    BK_TEAM float bonus_at(int64_t head, int k) const {
        return k < p.d_k ? load_float(p.type, p.bonus, head * p.d_k + k) : 0.0f;
    }

    // q and a: the sum so far, pairs with k and b, and what they give to the gates.
    BK_TEAM void finish_reader(const Team& team, const GradientTiles& s, const Chunk& c, int64_t head, Role role, int with_k,
                               int with_b) const {
        constexpr int kLanes = Team::kLanes;
        const Lanes l = Lanes::of(team);
        const bool is_q = role == Role::kQ, has_bonus = is_q && p.bonus != nullptr, is_before = p.is_before(role);
        const int pitch = p.key_pitch(), width = p.padded_keys();
        for (int k = 0; k < (p.has_b() ? 2 : 1); ++k) {
            load_role(team, p, c, head, k == 0 ? Role::kK : Role::kB, Decay::kNone, s.keys);
            team.sync();
            with_vectors([&] {
                for (int t = l.warp; t < c.tokens; t += l.warps)
                    for (int at = l.lane * kLanes; at < width; at += l.lanes * kLanes) {
                        float sum[kLanes];
                        float* const to = s.sum + t * pitch + at;
                        for (int v = 0; v < kLanes; ++v)
                            sum[v] = k > 0 ? to[v] : to[v] * decayed(c, head, s, is_before ? t - 1 : t, at + v, false);
                        add_pairs<true>(s, c, head, role, t, 0, is_q && !has_bonus ? t + 1 : t,
                                        s.pairs[k == 0 ? with_k : with_b], at, sum);
                        for (int v = 0; v < kLanes; ++v) to[v] = sum[v];
                    }
            });
            team.sync();
        }
        float* const to = d.wide[static_cast<int>(role)];
        for (int t = l.warp; t < c.tokens; t += l.warps)
            for (int k = l.lane; k < p.d_k; k += l.lanes) {
                const float own = role_element(c, head, role, t, k);
                float gradient = s.sum[t * pitch + k];
                // Token t of the gates' rows belongs to this thread for all roles, token t - 1 does not: rows move later.
                s.sum[t * pitch + k] = own * gradient;
                if (has_bonus)
                    gradient =
                        math::fma(s.pairs[with_k][t * p.pair_pitch() + t] * bonus_at(head, k), s.keys[t * pitch + k], gradient);
                to[p.at_key(c.row + t, head) + k] = is_q ? gradient * p.scale : gradient;
            }
        team.sync();
        for (int t = l.warp; t < c.tokens; t += l.warps) {
            const int from = is_before ? t + 1 : t;
            if (from < c.tokens)
                for (int k = l.lane; k < width; k += l.lanes) s.of_decay[t * pitch + k] += s.sum[from * pitch + k];
        }
        team.sync();
    }

    // k and b: the sum so far, pairs with q and a, and what they give to the gates.
    BK_TEAM void finish_writer(const Team& team, const GradientTiles& s, const Chunk& c, int64_t head, Role role, int with_q,
                               int with_a) const {
        constexpr int kLanes = Team::kLanes;
        const Lanes l = Lanes::of(team);
        const int pitch = p.key_pitch(), width = p.padded_keys();
        const bool has_bonus = p.bonus != nullptr;
        add_end(team, s, c, head, role);
        for (int k = 0; k < (p.solves() ? 2 : 1); ++k) {
            const Role reader = k == 0 ? Role::kQ : Role::kA;
            load_role(team, p, c, head, reader, Decay::kNone, s.keys);
            team.sync();
            if (has_bonus && d.bonus_partials != nullptr) store_bonus(team, s, c, head, with_q);
            with_vectors([&] {
                for (int t = l.warp; t < c.tokens; t += l.warps)
                    for (int at = l.lane * kLanes; at < width; at += l.lanes * kLanes) {
                        float sum[kLanes];
                        float* const to = s.sum + t * pitch + at;
                        for (int v = 0; v < kLanes; ++v) sum[v] = to[v];
                        add_pairs<false>(s, c, head, reader, t, k == 0 && !has_bonus ? t : t + 1, c.tokens,
                                         s.pairs[k == 0 ? with_q : with_a], at, sum);
                        for (int v = 0; v < kLanes; ++v) to[v] = sum[v];
                    }
            });
            team.sync();
        }
        float* const to = d.wide[static_cast<int>(role)];
        for (int t = l.warp; t < c.tokens; t += l.warps)
            for (int k = l.lane; k < p.d_k; k += l.lanes) {
                float gradient = s.sum[t * pitch + k];
                s.of_decay[t * pitch + k] -= role_element(c, head, role, t, k) * gradient;
                if (has_bonus)
                    gradient =
                        math::fma(s.pairs[with_q][t * p.pair_pitch() + t] * bonus_at(head, k), s.keys[t * pitch + k], gradient);
                to[p.at_key(c.row + t, head) + k] = gradient;
            }
        team.sync();
    }

    // The role's part of the gradient of e^{G_C}, after the sum's rows have their decay to the chunk's end.
    BK_TEAM void add_end(const Team& team, const GradientTiles& s, const Chunk& c, int64_t head, Role role) const {
        const int pitch = p.key_pitch();
        for (int k = team.rank; k < p.d_k; k += team.size) {
            float sum = role == Role::kK && d.dg != nullptr ? end_product(s, c, head, k) : 0.0f;
            for (int t = 0; t < c.tokens; ++t) {
                const float decay = decayed(c, head, s, t, k, true);
                const float own = s.sum[t * pitch + k] *= decay;
                if (d.dg != nullptr) sum = math::fma(role_element(c, head, role, t, k), own, sum);
            }
            s.of_decay[(c.tokens - 1) * pitch + k] += sum;
        }
        team.sync();
    }

    // e^{G_C} times the sum of S_0 dS over a row of the state.
    BK_TEAM float end_product(const GradientTiles& s, const Chunk& c, int64_t head, int k) const {
        constexpr int kLanes = Team::kLanes;
        const float* const x = p.states + p.at_state(c.slot, head) + int64_t{k} * p.d_v;
        const float* const y = d.dstates + p.at_state(c.slot, head) + int64_t{k} * p.d_v;
        float sum[kLanes] = {};
        int v = 0;
        for (; v + kLanes <= p.d_v; v += kLanes)
            for (int w = 0; w < kLanes; ++w) sum[w] = math::fma(x[v + w], y[v + w], sum[w]);
        for (; v < p.d_v; ++v) sum[0] = math::fma(x[v], y[v], sum[0]);
        float all = 0.0f;
        for (int w = 0; w < kLanes; ++w) all += sum[w];
        return all * decayed(c, head, s, c.tokens - 1, k, false);
    }

    // An element of a role's rows, with the scale of q.
    BK_TEAM float role_element(const Chunk& c, int64_t head, Role role, int t, int k) const {
        const float* const norms = p.norms_of(role);
        const float x = load_float(p.type, p.operand(role), p.at_operand(role, c.row + t, head) + k);
        const float factor = role == Role::kQ ? p.scale : 1.0f;
        return norms == nullptr ? factor * x : factor * norms[(c.row + t) * p.heads + head] * x;
    }

    // dbonus of the chunk: the sum over its tokens of (Q K)'[t, t] q k. `keys` has q.
    BK_TEAM void store_bonus(const Team& team, const GradientTiles& s, const Chunk& c, int64_t head, int with_q) const {
        for (int k = team.rank; k < p.d_k; k += team.size) {
            float sum = 0.0f;
            for (int t = 0; t < c.tokens; ++t)
                sum = math::fma(s.pairs[with_q][t * p.pair_pitch() + t] * s.keys[t * p.key_pitch() + k],
                                role_element(c, head, Role::kK, t, k), sum);
            d.bonus_partials[p.at_key(c.slot, head) + k] = sum;
        }
    }
    BK_TEAM void clear_bonus(const Team& team, int64_t slot, int64_t head) const {
        if (d.bonus_partials == nullptr) return;
        for (int k = team.rank; k < p.d_k; k += team.size) d.bonus_partials[p.at_key(slot, head) + k] = 0.0f;
    }

    BK_TEAM void store_beta(const Team& team, const Chunk& c, int64_t head) const {
        for (int t = team.rank; t < c.tokens; t += team.size) {
            const float* const x = p.solved + p.at_value(c.row + t, head);
            const float* const y = d.dsolved + p.at_value(c.row + t, head);
            float sum = 0.0f;
            for (int v = 0; v < p.d_v; ++v) sum = math::fma(x[v], y[v], sum);
            store_float(p.type, d.dbeta, (c.row + t) * p.heads + head, sum);
        }
    }

    BK_TEAM void store_gates(const Team& team, const GradientTiles& s, const Chunk& c, int64_t head) const {
        const int pitch = p.key_pitch();
        if (p.by_channel) {
            for (int k = team.rank; k < p.d_k; k += team.size) {
                float sum = 0.0f;
                for (int t = c.tokens - 1; t >= 0; --t) {
                    sum += s.of_decay[t * pitch + k];
                    d.dg[p.at_key(c.row + t, head) + k] = sum;
                }
            }
            return;
        }
        for (int t = team.rank; t < c.tokens; t += team.size) {
            float sum = 0.0f;
            for (int k = 0; k < p.d_k; ++k) sum += s.of_decay[t * pitch + k];
            s.sum[t] = sum;
        }
        team.sync();
        for (int t = team.rank; t < c.tokens; t += team.size) {
            float sum = 0.0f;
            for (int at = c.tokens - 1; at >= t; --at) sum += s.sum[at];
            d.dg[(c.row + t) * p.heads + head] = sum;
        }
    }
};

}  // namespace bk::recurrent
