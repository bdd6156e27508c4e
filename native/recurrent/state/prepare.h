// SPDX-License-Identifier: Apache-2.0
// Quantities between the tokens of a chunk, before any state is known: sums of gates, inverse lengths of q and k, the
// matrices of pairs and the inverse of the triangular system. Chunks are independent.
#pragma once

#include "recurrent/state/tiles.h"

namespace bk::recurrent {

struct PrepareChunk {
    StateProblem p;

    static int64_t floats(const StateProblem& p) {
        return int64_t{2} * p.chunk() * p.key_pitch() + int64_t{2} * p.chunk() * p.pair_pitch();
    }

    BK_TEAM void operator()(const Team& team, int64_t item) const {
        const int64_t head = item % p.heads;
        const Chunk c = Chunk::of_slot(p.sequences, item / p.heads);
        if (c.tokens == 0) return;
        float* const x = static_cast<float*>(team.scratch);
        float* const y = x + p.chunk() * p.key_pitch();
        float* const system = y + p.chunk() * p.key_pitch();
        float* const inverse = system + p.chunk() * p.pair_pitch();
        if (p.normalizes) {
            store_norms(team, c, head, Role::kQ);
            store_norms(team, c, head, Role::kK);
        }
        if (p.g != nullptr) store_sums(team, c, head);
        team.sync();
        load_role(team, p, c, head, Role::kQ, Decay::kNone, x);
        load_role(team, p, c, head, Role::kK, Decay::kNone, y);
        team.sync();
        store_pairs(team, c, head, Role::kQ, x, y, p.pairs + p.at_pairs(c.slot, head, kQK), p.chunk());
        if (!p.solves()) return;
        if (p.has_b()) {
            team.sync();
            load_role(team, p, c, head, Role::kB, Decay::kNone, y);
            team.sync();
            store_pairs(team, c, head, Role::kQ, x, y, p.pairs + p.at_pairs(c.slot, head, kQB), p.chunk());
            team.sync();
            load_role(team, p, c, head, Role::kA, Decay::kNone, x);
            team.sync();
            store_pairs(team, c, head, Role::kA, x, y, system, p.pair_pitch());
            team.sync();
            load_role(team, p, c, head, Role::kK, Decay::kNone, y);
            team.sync();
            store_pairs(team, c, head, Role::kA, x, y, p.pairs + p.at_pairs(c.slot, head, kAK), p.chunk());
        } else {
            store_pairs(team, c, head, Role::kA, y, y, system, p.pair_pitch());
        }
        team.sync();
        solve(team, c, head, system, inverse);
    }

private:
    BK_TEAM void store_norms(const Team& team, const Chunk& c, int64_t head, Role role) const {
        with_vectors([&] {
            float* const to = p.norms + (role == Role::kQ ? 0 : p.rows() * p.heads);
            for (int t = team.rank; t < c.tokens; t += team.size)
                with_type(p.type, p.operand(role), [&](auto* data) {
                    const auto* const own = data + p.at_operand(role, c.row + t, head);
                    float sum[Team::kLanes] = {};
                    int d = 0;
                    for (; d + Team::kLanes <= p.d_k; d += Team::kLanes)
                        for (int v = 0; v < Team::kLanes; ++v) sum[v] = math::fma(widen(own[d + v]), widen(own[d + v]), sum[v]);
                    for (; d < p.d_k; ++d) sum[0] = math::fma(widen(own[d]), widen(own[d]), sum[0]);
                    float all = kNormEps;
                    for (int v = 0; v < Team::kLanes; ++v) all += sum[v];
                    to[(c.row + t) * p.heads + head] = 1.0f / math::sqrt<float>(all);
                });
        });
    }

    BK_TEAM void store_sums(const Team& team, const Chunk& c, int64_t head) const {
        with_vectors([&] {
            const int width = p.gate_width();
            for (int d = team.rank; d < width; d += team.size) {
                float sum = 0.0f;
                for (int t = 0; t < c.tokens; ++t) {
                    const int64_t at = ((c.row + t) * p.heads + head) * width + d;
                    sum += clamped_gate(p.g[at]);
                    p.sums[at] = sum;
                }
            }
        });
    }

    // (X Y)[t, s] of the tokens that t sees: s <= t of q, s < t of a. Others are 0. With a bonus q sees itself by u.
    BK_TEAM void store_pairs(const Team& team, const Chunk& c, int64_t head, Role role, const float* x, const float* y,
                             float* to, int pitch) const {
        with_vectors([&] {
            const int size = p.chunk();
            const bool is_before = p.is_before(role);
            for (int i = team.rank; i < size * size; i += team.size) {
                const int t = i / size, s = i % size;
                float sum = 0.0f;
                if (t < c.tokens && (s < t || (s == t && role == Role::kQ))) {
                    const float *const of_t = x + t * p.key_pitch(), *const of_s = y + s * p.key_pitch();
                    if (s == t && p.bonus != nullptr)
                        sum = bonus_product(head, of_t, of_s);
                    else
                        sum = product(c, head, of_t, of_s, is_before ? t - 1 : t, s);
                }
                to[t * pitch + s] = sum;
            }
        });
    }

    BK_TEAM float product(const Chunk& c, int64_t head, const float* of_t, const float* of_s, int t, int s) const {
        constexpr int kLanes = Team::kLanes;
        float sum[kLanes] = {};
        if (p.by_channel && p.g != nullptr && t != s) {
            const float* const to = p.sums + ((c.row + t) * p.heads + head) * p.d_k;
            const float* const from = p.sums + ((c.row + s) * p.heads + head) * p.d_k;
            int d = 0;
            for (; d + kLanes <= p.d_k; d += kLanes)
                for (int v = 0; v < kLanes; ++v)
                    sum[v] = math::fma(of_t[d + v] * of_s[d + v], math::exp<float>(to[d + v] - from[d + v]), sum[v]);
            for (; d < p.d_k; ++d) sum[0] = math::fma(of_t[d] * of_s[d], math::exp<float>(to[d] - from[d]), sum[0]);
            return total(sum);
        }
        for (int d = 0; d < p.padded_keys(); d += kLanes)
            for (int v = 0; v < kLanes; ++v) sum[v] = math::fma(of_t[d + v], of_s[d + v], sum[v]);
        const float decay = t == s ? 1.0f : math::exp<float>(p.sum_at(c, head, t, 0) - p.sum_at(c, head, s, 0));
        return total(sum) * decay;
    }

    BK_TEAM float bonus_product(int64_t head, const float* of_t, const float* of_s) const {
        float sum = 0.0f;
        for (int d = 0; d < p.d_k; ++d) sum = math::fma(of_t[d] * of_s[d], load_float(p.type, p.bonus, head * p.d_k + d), sum);
        return sum;
    }

    BK_TEAM static float total(const float* sum) {
        float all = 0.0f;
        for (int v = 0; v < Team::kLanes; ++v) all += sum[v];
        return all;
    }

    // The inverse of I + L, with L the pairs times beta for the delta rule, and their negative for rwkv7. A thread has whole
    // columns, so that nothing is to be synchronised.
    BK_TEAM void solve(const Team& team, const Chunk& c, int64_t head, const float* system, float* inverse) const {
        with_vectors([&] {
            const int size = p.chunk(), pitch = p.pair_pitch();
            const bool is_delta = p.rule == Rule::kDelta;
            float* const to = p.pairs + p.at_pairs(c.slot, head, kInverse);
            float* const kept = p.pairs + p.at_pairs(c.slot, head, kAK);
            for (int t = 0; t < size; ++t) {
                for (int j = team.rank; j < size; j += team.size) {
                    inverse[t * pitch + j] = j == t ? 1.0f : 0.0f;
                    if (is_delta) kept[t * size + j] = system[t * pitch + j];
                }
                for (int s = 0; s < t && t < c.tokens; ++s) {
                    const float l = system[t * pitch + s] * (is_delta ? -p.beta_at(c.row + s, head) : 1.0f);
                    for (int j = team.rank; j < size; j += team.size)
                        inverse[t * pitch + j] = math::fma(l, inverse[s * pitch + j], inverse[t * pitch + j]);
                }
                for (int j = team.rank; j < size; j += team.size) to[t * size + j] = inverse[t * pitch + j];
            }
        });
    }
};

}  // namespace bk::recurrent
