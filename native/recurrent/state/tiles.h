// SPDX-License-Identifier: Apache-2.0
// Loads and stores of the tiles of a chunk. Tokens and channels that do not exist are 0, so that products of whole tiles are
// right.
#pragma once

#include "recurrent/state/problem.h"

namespace bk::recurrent {

enum class Decay : int32_t { kNone, kFromStart, kToEnd };

// A role's rows times their decay: from the chunk's start to the token, or from the token to the chunk's end. q has its scale.
BK_STEP void load_role(const Team& team, const StateProblem& p, const Chunk& c, int64_t head, Role role, Decay decay,
                       float* to) {
    with_vectors([&] {
        const Lanes l = Lanes::of(team);
        const int width = p.padded_keys(), pitch = p.key_pitch(), last = c.tokens - 1;
        const float* const norms = p.norms_of(role);
        const bool is_before = p.is_before(role), is_by_channel = p.by_channel;
        for (int t = l.warp; t < p.chunk(); t += l.warps) {
            float* const row = to + t * pitch;
            if (t >= c.tokens) {
                for (int d = l.lane; d < width; d += l.lanes) row[d] = 0.0f;
                continue;
            }
            float factor = role == Role::kQ ? p.scale : 1.0f;
            if (norms != nullptr) factor *= norms[(c.row + t) * p.heads + head];
            const int from = decay == Decay::kFromStart ? t - (is_before ? 1 : 0) : t;
            if (decay != Decay::kNone && !is_by_channel) {
                const float sum = p.sum_at(c, head, from, 0);
                factor *= math::exp<float>(decay == Decay::kFromStart ? sum : p.sum_at(c, head, last, 0) - sum);
            }
            with_type(p.type, p.operand(role), [&](auto* data) {
                const auto* const own = data + p.at_operand(role, c.row + t, head);
                for (int d = l.lane; d < p.d_k; d += l.lanes) row[d] = factor * widen(own[d]);
            });
            for (int d = p.d_k + l.lane; d < width; d += l.lanes) row[d] = 0.0f;
            if (decay == Decay::kNone || !is_by_channel || p.g == nullptr) continue;
            const float* const sums = p.sums + ((c.row + from) * p.heads + head) * p.d_k;
            const float* const ends = p.sums + ((c.row + last) * p.heads + head) * p.d_k;
            if (decay == Decay::kToEnd)
                for (int d = l.lane; d < p.d_k; d += l.lanes) row[d] *= math::exp<float>(ends[d] - sums[d]);
            else if (from >= 0)
                for (int d = l.lane; d < p.d_k; d += l.lanes) row[d] *= math::exp<float>(sums[d]);
        }
    });
}

// Columns [column, column + kColumns) of rows [rows, heads, d_v] of a dtype, times beta of their token or as they are.
BK_STEP void load_values(const Team& team, const StateProblem& p, const Chunk& c, int64_t head, RowType type, const void* from,
                         bool has_beta, int64_t column, float* to) {
    with_vectors([&] {
        const Lanes l = Lanes::of(team);
        const int64_t left = p.d_v - column;
        const int width = static_cast<int>(left < kColumns ? left : kColumns);
        for (int t = l.warp; t < p.chunk(); t += l.warps) {
            float* const row = to + t * p.value_pitch();
            const bool is_in = t < c.tokens;
            const float times = is_in && has_beta ? p.beta_at(c.row + t, head) : 1.0f;
            if (is_in)
                with_type(type, from, [&](auto* data) {
                    const auto* const own = data + p.at_value(c.row + t, head) + column;
                    for (int x = l.lane; x < width; x += l.lanes) row[x] = times * widen(own[x]);
                });
            for (int x = (is_in ? width : 0) + l.lane; x < kColumns; x += l.lanes) row[x] = 0.0f;
        }
    });
}

BK_STEP void store_values(const Team& team, const StateProblem& p, const Chunk& c, int64_t head, RowType type, void* to,
                          int64_t column, const float* from) {
    with_vectors([&] {
        const Lanes l = Lanes::of(team);
        const int64_t left = p.d_v - column;
        const int width = static_cast<int>(left < kColumns ? left : kColumns);
        for (int t = l.warp; t < c.tokens; t += l.warps)
            with_type(type, to, [&](auto* data) {
                auto* const own = data + p.at_value(c.row + t, head) + column;
                using Element = std::remove_reference_t<decltype(*own)>;
                for (int x = l.lane; x < width; x += l.lanes) own[x] = narrow<Element>(from[t * p.value_pitch() + x]);
            });
    });
}

// Rows of a tile times beta of their token.
BK_STEP void scale_by_beta(const Team& team, const StateProblem& p, const Chunk& c, int64_t head, const float* from,
                           float* to) {
    with_vectors([&] {
        const Lanes l = Lanes::of(team);
        for (int t = l.warp; t < p.chunk(); t += l.warps) {
            const float beta = t < c.tokens ? p.beta_at(c.row + t, head) : 0.0f;
            for (int x = l.lane; x < kColumns; x += l.lanes) to[t * p.value_pitch() + x] = beta * from[t * p.value_pitch() + x];
        }
    });
}

// A matrix of the chunk's pairs.
BK_STEP void load_pairs(const Team& team, const StateProblem& p, const Chunk& c, int64_t head, int which, float* to) {
    const Lanes l = Lanes::of(team);
    const float* const from = p.pairs + p.at_pairs(c.slot, head, which);
    for (int t = l.warp; t < p.chunk(); t += l.warps)
        for (int s = l.lane; s < p.chunk(); s += l.lanes) to[t * p.pair_pitch() + s] = from[t * p.chunk() + s];
}

// Columns of a state [d_k, d_v]; null is 0.
BK_STEP void load_state(const Team& team, const StateProblem& p, const float* from, int64_t column, float* to) {
    with_vectors([&] {
        const Lanes l = Lanes::of(team);
        for (int d = l.warp; d < p.padded_keys(); d += l.warps)
            for (int x = l.lane; x < kColumns; x += l.lanes) {
                const bool is_in = from != nullptr && d < p.d_k && column + x < p.d_v;
                to[d * p.value_pitch() + x] = is_in ? from[int64_t{d} * p.d_v + column + x] : 0.0f;
            }
    });
}

BK_STEP void store_state(const Team& team, const StateProblem& p, const float* from, int64_t column, float* to) {
    with_vectors([&] {
        const Lanes l = Lanes::of(team);
        for (int d = l.warp; d < p.d_k; d += l.warps)
            for (int x = l.lane; x < kColumns && column + x < p.d_v; x += l.lanes)
                to[int64_t{d} * p.d_v + column + x] = from[d * p.value_pitch() + x];
    });
}

// The state times the decay of the whole chunk.
BK_STEP void decay_state(const Team& team, const StateProblem& p, const Chunk& c, int64_t head, float* state) {
    with_vectors([&] {
        if (p.g == nullptr) return;
        const Lanes l = Lanes::of(team);
        for (int d = l.warp; d < p.d_k; d += l.warps) {
            const float decay = math::exp<float>(p.sum_at(c, head, c.tokens - 1, d));
            for (int x = l.lane; x < kColumns; x += l.lanes) state[d * p.value_pitch() + x] *= decay;
        }
    });
}

// Zeros in rows that no sequence has: those in front of the first, between two, and behind the last. Teams of sequence n
// clear what is in front of it, and those of the last one what is behind.
BK_STEP void clear_uncovered(const Team& team, const StateProblem& p, int64_t n, int64_t head, RowType type, void* to,
                             int64_t column) {
    if (p.sequences.offsets == nullptr) return;
    const Lanes l = Lanes::of(team);
    const auto clear = [&](int64_t begin, int64_t end) {
        for (int64_t row = begin + l.warp; row < end; row += l.warps)
            for (int64_t x = column + l.lane; x < column + kColumns && x < p.d_v; x += l.lanes)
                store_float(type, to, p.at_value(row, head) + x, 0.0f);
    };
    clear(n == 0 ? 0 : p.sequences.end(n - 1), p.sequences.begin(n));
    if (n == p.sequences.count - 1) clear(p.sequences.end(n), p.rows());
}

}  // namespace bk::recurrent
