// SPDX-License-Identifier: Apache-2.0
// Selective scans (ssm/step.h) of channels with states of their own. Mamba-1 has a step and rates for each channel;
// Mamba-2 has one step and one rate for the channels of a head. b and c are of a group of channels.
//
// A tile is kTileTokens tokens of a sequence; kTileChannels channels of a group are computed together. Gradients
// recompute states from those at the begins of tiles:
//
//   1  summaries: the state that each tile makes of none, the gradient that it passes to earlier tokens of none behind
//      it, and its sum of steps, all tiles at once;
//   2  in order of tiles, and in reverse order: states in front of tiles, gradients behind them;
//   3  all gradients of each tile, all tiles at once; sums over channels of b's and c's, over tiles of parameters' are
//      partial;
//   4  partial sums are added in a fixed order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/workspace.h"
#include "core/types/dtype.h"
#include "ssm/parameters.h"
#include "ssm/sequences.h"
#include "ssm/step.h"

namespace bk::ssm {

#if BK_CUDA
constexpr int kTileTokens = 256, kTileChannels = 8;
#else
constexpr int kTileTokens = 32, kTileChannels = 16;
#endif
constexpr int kMaxStates = 256;

// Elements of (row, token, group, state).
template <class E>
struct GroupView {
    E* data;
    int64_t row_stride, token_stride, group_stride, state_stride;

    BK_HD E* at(int64_t row, int64_t token, int64_t group) const {
        return data + row * row_stride + token * token_stride + group * group_stride;
    }
};

template <class T>
struct ScanProblem {
    Sequences sequences;
    int64_t channels, groups, heads;
    int64_t per_head;  // channels of a head: 1 in Mamba-1
    int64_t states;
    bool is_scalar_a;  // Mamba-2: a head has one rate, else each channel and state has
    StepRule rule;
    TokenView<const T> u, delta, z;  // z may be null
    GroupView<const T> b, c;
    Parameter<T> a, d_skip, delta_bias, initial_state;  // the last three may be null

    BK_HD int64_t per_group() const { return channels / groups; }
    BK_HD int64_t tiles_of_group() const { return (per_group() + kTileChannels - 1) / kTileChannels; }
    BK_HD int64_t channel_tiles() const { return groups * tiles_of_group(); }
    BK_HD float rate(int64_t channel, int64_t n) const { return is_scalar_a ? a[channel / per_head] : a[channel * states + n]; }
    BK_HD float skip(int64_t channel) const { return d_skip.is_given() ? d_skip[channel / per_head] : 0.0f; }
    BK_HD float bias(int64_t channel) const { return delta_bias.is_given() ? delta_bias[channel / per_head] : 0.0f; }
    // Tiles of tokens: those of sequence s have the slots from first_slot(s) on.
    BK_HD int64_t first_slot(int64_t s) const {
        return sequences.offsets == nullptr ? s * ((sequences.length + kTileTokens - 1) / kTileTokens)
                                            : sequences.begin(s) / kTileTokens + s;
    }
    // Slots, which offsets do not change: some may have no tile.
    bool may_have_gaps() const { return sequences.rows == 1; }
    int64_t slots() const {
        return may_have_gaps() ? sequences.length / kTileTokens + sequences.count + 1
                               : sequences.count * ceil_div<int64_t>(sequences.length, kTileTokens);
    }
};

// Channels that are computed together.
struct ChannelTile {
    int64_t group, first;
    int count;

    template <class T>
    static BK_HD ChannelTile of(const ScanProblem<T>& p, int64_t tile) {
        const int64_t group = tile / p.tiles_of_group(), within = tile % p.tiles_of_group() * kTileChannels;
        const int64_t left = p.per_group() - within;
        return {group, group * p.per_group() + within, static_cast<int>(left < kTileChannels ? left : kTileChannels)};
    }
};

// Tokens that are computed together: none in a slot without a tile.
struct TokenTile {
    int64_t sequence, row, begin;
    int count;

    // The tile of a slot. Several sequences may begin in front of it; the last one has it.
    template <class T>
    static BK_HD TokenTile of(const ScanProblem<T>& p, int64_t slot) {
        const Sequences& all = p.sequences;
        int64_t low = 0, high = all.count;
        while (high - low > 1) {
            const int64_t middle = (low + high) / 2;
            (p.first_slot(middle) <= slot ? low : high) = middle;
        }
        const int64_t begin = all.begin(low) + (slot - p.first_slot(low)) * kTileTokens, left = all.end(low) - begin;
        const bool is_there = slot >= p.first_slot(low) && left > 0;
        return {low, all.row(low), begin, !is_there ? 0 : static_cast<int>(left < kTileTokens ? left : kTileTokens)};
    }
};

// Operands and results of the gradients; any result may be null.
template <class T>
struct ScanGradients {
    TokenView<const T> dy;
    Parameter<T> d_last_state;  // may be null
    TokenView<T> du, d_delta, dz;
    GroupView<T> db, dc;
    ParameterOut<T> da, dd, d_bias, d_initial;
    bool adds_groups = false;  // db and dc are added to
};

// Workspace of gradients. Arrays without a use are null.
struct ScanPartials {
    float *states, *passed;  // [slots, channels, n]: h and gradients, of summaries and then at the ends of tiles
    float* steps;            // [slots, channels]: sums of steps
    float *of_b, *of_c;      // [splits, groups, n, rows * tokens]
    float* of_a;             // [slots, channels, n or 1]
    float *of_d, *of_bias;   // [slots, channels]
    float* of_delta;         // [rows * tokens, channels]
    int64_t splits;

    // Sums of b and c over the channels of a group have as many partial ones as fit twice the memory of u.
    template <class T>
    static int64_t splits_of(const ScanProblem<T>& p) {
        return std::max<int64_t>(1, std::min(p.tiles_of_group(), p.per_group() / (4 * std::max<int64_t>(1, p.states))));
    }
    template <class T>
    static ScanPartials carve(Carver* from, const ScanProblem<T>& p) {
        const int64_t slots = p.slots(), cells = slots * p.channels, tokens = p.sequences.rows * p.sequences.length;
        ScanPartials w{};
        w.splits = splits_of(p);
        w.states = from->take<float>(cells * p.states);
        w.passed = from->take<float>(cells * p.states);
        w.steps = from->take<float>(cells);
        w.of_b = from->take<float>(w.splits * p.groups * p.states * tokens);
        w.of_c = from->take<float>(w.splits * p.groups * p.states * tokens);
        w.of_a = from->take<float>(cells * (p.is_scalar_a ? 1 : p.states));
        w.of_d = from->take<float>(cells);
        w.of_bias = from->take<float>(cells);
        w.of_delta = from->take<float>(p.is_scalar_a ? tokens * p.channels : 0);
        return w;
    }
};

}  // namespace bk::ssm
