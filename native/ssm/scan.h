// SPDX-License-Identifier: Apache-2.0
// Selective scans and their gradients (ssm/scan_problem.h): what both targets share.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/collectives/team.h"
#include "ssm/scan_problem.h"

namespace bk::ssm {

// y and the states behind each sequence. y may be null, last_state too.
template <class T>
Status scan_forward(const Launch& launch, const ScanProblem<T>& p, const TokenView<T>& y, const ParameterOut<T>& last_state);

// Step 1 of gradients: states, passed and steps of w.
template <class T>
Status scan_summaries(const Launch& launch, const ScanProblem<T>& p, const TokenView<const T>& dy, const ScanPartials& w);

// Step 3: gradients of tokens, and partial sums.
template <class T>
Status scan_tile_gradients(const Launch& launch, const ScanProblem<T>& p, const ScanGradients<T>& out, const ScanPartials& w);

}  // namespace bk::ssm

#if BK_CUDA
#include "ssm/scan_forward_cuda.cuh"
#include "ssm/scan_gradients_cuda.cuh"
#else
#include "ssm/scan_cpu.h"
#include "ssm/scan_gradients_cpu.h"
#endif

namespace bk::ssm {

// Zeros for tokens of no sequence; views may be null.
constexpr int64_t kZeroedTokens = 64;  // of an item

template <class T>
struct ZeroTokens {
    Sequences sequences;
    TokenView<T> to[3];
    int64_t channels;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t first = item * kZeroedTokens, left = sequences.length - first;
        for (int64_t token = first; token < first + (left < kZeroedTokens ? left : kZeroedTokens); ++token) {
            if (sequences.has(token)) continue;
            for (const TokenView<T>& each : to) {
                if (each.data == nullptr) continue;
                for (int64_t c = team.rank; c < channels; c += team.size)
                    each.at(0, token)[c * each.channel_stride] = narrow<T>(0.0f);
            }
        }
    }
};

template <class T>
Status zero_stray_tokens(const Launch& launch, const ZeroTokens<T>& job) {
    if (job.sequences.offsets == nullptr || job.sequences.length == 0 || job.channels == 0) return Status::kOk;
    return run_teams(launch, ceil_div(job.sequences.length, kZeroedTokens), 1024, job);
}

// Step 2: the state in front of each tile, and the gradient that the tokens behind it pass to it. An item has a sequence
// and kChainCells of its states.
constexpr int64_t kChainCells = 256;

template <class T>
struct ChainJob {
    ScanProblem<T> p;
    Parameter<T> d_last_state;
    ParameterOut<T> d_initial;
    ScanPartials w;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t cells = p.channels * p.states, chunks = (cells + kChainCells - 1) / kChainCells;
        const int64_t sequence = item / chunks, first = item % chunks * kChainCells;
        const int64_t end = first + kChainCells < cells ? first + kChainCells : cells;
        const int64_t tokens = p.sequences.end(sequence) - p.sequences.begin(sequence);
        const int64_t tiles = (tokens + kTileTokens - 1) / kTileTokens, slot = p.first_slot(sequence);
        for (int64_t cell = first + team.rank; cell < end; cell += team.size) {
            const int64_t channel = cell / p.states;
            const float rate = p.rate(channel, cell % p.states);
            float h = p.initial_state.is_given() ? p.initial_state[sequence * cells + cell] : 0.0f;
            for (int64_t tile = slot; tile < slot + tiles; ++tile)
                h = exchange(w.states[tile * cells + cell], h, w.steps[tile * p.channels + channel], rate);
            float g = d_last_state.is_given() ? d_last_state[sequence * cells + cell] : 0.0f;
            for (int64_t tile = slot + tiles - 1; tile >= slot; --tile)
                g = exchange(w.passed[tile * cells + cell], g, w.steps[tile * p.channels + channel], rate);
            if (d_initial.is_given()) d_initial.put(sequence * cells + cell, g);
        }
    }

private:
    // Replaces a tile's own share by what enters it, and gives what leaves it.
    static BK_HD float exchange(float& share, float enters, float steps, float rate) {
        const float own = share;
        share = enters;
        return enters == 0 ? own : decay(steps, rate) * enters + own;
    }
};

// Slots without a tile, of sequences without tokens, must not be added.
template <class T>
struct ClearSlotsJob {
    ScanProblem<T> p;
    ScanPartials w;

    BK_HD void operator()(const Team& team, int64_t slot) const {
        if (TokenTile::of(p, slot).count > 0) return;
        const int64_t rates = p.channels * (p.is_scalar_a ? 1 : p.states);
        for (int64_t i = team.rank; i < rates; i += team.size) w.of_a[slot * rates + i] = 0;
        for (int64_t i = team.rank; i < p.channels; i += team.size) {
            w.of_d[slot * p.channels + i] = 0;
            w.of_bias[slot * p.channels + i] = 0;
        }
    }
};

// Gradients of b and c: sums over the splits of a group's channels. An item has kSumTokens tokens of a group.
constexpr int64_t kSumTokens = 32;

template <class T>
struct GroupSums {
    ScanProblem<T> p;
    const float* from;
    GroupView<T> to;
    int64_t splits;
    bool adds;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t tokens = p.sequences.rows * p.sequences.length;
        const int64_t group = item % p.groups, first = item / p.groups * kSumTokens;
        const int64_t count = tokens - first < kSumTokens ? tokens - first : kSumTokens;
        for (int64_t i = team.rank; i < count * p.states; i += team.size) {
            const int64_t token = first + i % count, n = i / count;
            const int64_t row = token / p.sequences.length, own = token % p.sequences.length;
            float sum = 0;
            if (p.sequences.offsets == nullptr || p.sequences.has(own))
                for (int64_t split = 0; split < splits; ++split)
                    sum += from[((split * p.groups + group) * p.states + n) * tokens + token];
            T& result = to.at(row, own, group)[n * to.state_stride];
            result = narrow<T>(adds ? widen(result) + sum : sum);
        }
    }
};

// Gradients of steps: sums over the channels of a head.
template <class T>
struct HeadSums {
    ScanProblem<T> p;
    const float* from;
    TokenView<T> to;

    BK_HD void operator()(const Team& team, int64_t token) const {
        const int64_t row = token / p.sequences.length, own = token % p.sequences.length;
        const bool has = from != nullptr && (p.sequences.offsets == nullptr || p.sequences.has(own));
        for (int64_t head = team.rank; head < p.heads; head += team.size) {
            float sum = 0;
            if (has)
                for (int64_t k = 0; k < p.per_head; ++k) sum += from[token * p.channels + head * p.per_head + k];
            to.at(row, own)[head * to.channel_stride] = narrow<T>(sum);
        }
    }
};

// Gradients of a problem; without tokens or channels sums are 0.
template <class T>
Status scan_backward(const Launch& launch, const ScanProblem<T>& p, const ScanGradients<T>& out, const ScanPartials& w) {
    const int64_t tokens = p.sequences.rows * p.sequences.length, cells = p.channels * p.states;
    const bool has_tiles = tokens > 0 && p.channels > 0;
    const int64_t slots = has_tiles ? p.slots() : 0, splits = has_tiles ? w.splits : 0;
    if (has_tiles) BK_TRY(scan_summaries(launch, p, out.dy, w));
    if (const int64_t items = p.sequences.count * ceil_div(cells, kChainCells); items > 0) {
        const ChainJob<T> chain{p, out.d_last_state, out.d_initial, w};
        const int64_t tiles = ceil_div<int64_t>(p.sequences.length, kTileTokens);
        BK_TRY(run_teams(launch, items, kChainCells * 16, chain, false, tiles + 1));
    }
    if (has_tiles) BK_TRY(scan_tile_gradients(launch, p, out, w));
    if (has_tiles && p.may_have_gaps()) BK_TRY(run_teams(launch, slots, p.channels * 4, ClearSlotsJob<T>{p, w}));
    BK_TRY(sum_parameters(launch, w.of_a, out.da, p.is_scalar_a ? p.heads : cells, p.is_scalar_a ? p.per_head : 1, slots));
    BK_TRY(sum_parameters(launch, w.of_d, out.dd, p.heads, p.per_head, slots));
    BK_TRY(sum_parameters(launch, w.of_bias, out.d_bias, p.heads, p.per_head, slots));
    if (const int64_t items = ceil_div(tokens, kSumTokens) * p.groups; items > 0 && p.states > 0) {
        const GroupSums<T> of_b{p, w.of_b, out.db, splits, out.adds_groups}, of_c{p, w.of_c, out.dc, splits, out.adds_groups};
        const int64_t bytes = kSumTokens * p.states * 4;
        if (out.db.data != nullptr) BK_TRY(run_teams(launch, items, bytes, of_b, false, splits + 1));
        if (out.dc.data != nullptr) BK_TRY(run_teams(launch, items, bytes, of_c, false, splits + 1));
    }
    if (p.is_scalar_a && out.d_delta.data != nullptr && tokens > 0)
        BK_TRY(run_teams(launch, tokens, p.channels * 4, HeadSums<T>{p, has_tiles ? w.of_delta : nullptr, out.d_delta}));
    if (!has_tiles) return Status::kOk;
    const TokenView<T> none{};
    return zero_stray_tokens(launch,
                             ZeroTokens<T>{p.sequences, {out.du, p.is_scalar_a ? none : out.d_delta, out.dz}, p.channels});
}

}  // namespace bk::ssm
