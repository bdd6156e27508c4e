// SPDX-License-Identifier: Apache-2.0
// Tiles of a selective scan in a block: a warp has a channel, a lane kOwn adjacent tokens. Pairs (a, h), which stand for
// h -> a h + its own h, are combined within a lane and then by shuffles (Blelloch 1990).
#pragma once

#include <cstdint>

#include "core/collectives/shuffle.cuh"
#include "ssm/scan_problem.h"

namespace bk::ssm {

constexpr int kScanThreads = 32 * kTileChannels;
constexpr int kOwn = kTileTokens / 32;           // tokens of a lane
constexpr int kPitch = kTileTokens / 8 * 9 + 1;  // of tiles in shared memory: lanes are 9 words apart
constexpr int kStaged = 8;                       // states whose b and c are in shared memory

BK_DEVICE int tile_slot(int token) { return token + token / 8; }

using TileRows = float[kTileChannels][kPitch];
using TileStates = float[kStaged][kPitch];

// The affine map h -> a h + b of consecutive tokens.
struct Affine {
    float a, b;

    // This map behind an earlier one. Products stay finite, so that 0 times one is 0.
    BK_DEVICE Affine after(const Affine& earlier) const {
        const float product = a * earlier.a;
        return {product > 3.4028234e38f ? 3.4028234e38f : product, a * earlier.b + b};
    }
    BK_DEVICE float operator()(float h) const { return a * h + b; }
};

BK_DEVICE Affine shuffle_down(const Affine& mine, int distance) {
    return {__shfl_down_sync(0xffffffffu, mine.a, distance), __shfl_down_sync(0xffffffffu, mine.b, distance)};
}

// Maps of the lanes up to this one.
BK_DEVICE Affine scan_up(Affine mine, int lane) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const Affine other = shuffle_up(mine, distance);
        if (lane >= distance) mine = mine.after(other);
    }
    return mine;
}

// Maps of the lanes from this one on, the last one first.
BK_DEVICE Affine scan_down(Affine mine, int lane) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const Affine other = shuffle_down(mine, distance);
        if (lane + distance < 32) mine = mine.after(other);
    }
    return mine;
}

BK_DEVICE float warp_sum(float mine) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) mine += __shfl_xor_sync(0xffffffffu, mine, distance);
    return mine;
}

// Copies a tile of tokens and channels to shared memory; tokens behind the end and other channels are 0. `from` is the
// first token. Channels are of heads of per_head.
template <class T>
BK_DEVICE void stage_tokens(TileRows& to, const T* from, int64_t token_stride, int64_t channel_stride,
                            const ChannelTile& channels, int64_t per_head, int tokens) {
    const bool is_channel_first = channel_stride == 1 || per_head > 1;
    for (int i = static_cast<int>(threadIdx.x); i < kTileTokens * kTileChannels; i += kScanThreads) {
        const int c = is_channel_first ? i % kTileChannels : i / kTileTokens;
        const int t = is_channel_first ? i / kTileChannels : i % kTileTokens;
        float value = 0;
        if (t < tokens && c < channels.count) {
            const int64_t channel = channels.first + c;
            value = widen(from[t * token_stride + (per_head == 1 ? channel : channel / per_head) * channel_stride]);
        }
        to[c][tile_slot(t)] = value;
    }
}

// Copies b or c of the states from `first` on.
template <class T>
BK_DEVICE void stage_states(TileStates& to, const T* from, int64_t token_stride, int64_t state_stride, int first, int states,
                            int tokens) {
    const bool is_state_first = state_stride == 1;
    for (int i = static_cast<int>(threadIdx.x); i < kTileTokens * kStaged; i += kScanThreads) {
        const int n = is_state_first ? i % kStaged : i / kTileTokens;
        const int t = is_state_first ? i / kStaged : i % kTileTokens;
        const bool is_there = t < tokens && first + n < states;
        to[n][tile_slot(t)] = is_there ? widen(from[t * token_stride + (first + n) * state_stride]) : 0.0f;
    }
}

// Writes a tile of results, one for each token and channel.
template <class T>
BK_DEVICE void write_tokens(const TileRows& from, T* to, int64_t token_stride, int64_t channel_stride,
                            const ChannelTile& channels, int tokens) {
    const bool is_channel_first = channel_stride == 1;
    for (int i = static_cast<int>(threadIdx.x); i < kTileTokens * kTileChannels; i += kScanThreads) {
        const int c = is_channel_first ? i % kTileChannels : i / kTileTokens;
        const int t = is_channel_first ? i / kTileChannels : i % kTileTokens;
        if (t < tokens && c < channels.count)
            to[t * token_stride + (channels.first + c) * channel_stride] = narrow<T>(from[c][tile_slot(t)]);
    }
}

// A lane's tokens of a tile.
BK_DEVICE void read_own(const float (&row)[kPitch], int lane, float (&to)[kOwn]) {
#pragma unroll
    for (int k = 0; k < kOwn; ++k) to[k] = row[tile_slot(lane * kOwn) + k];
}
BK_DEVICE void write_own(float (&row)[kPitch], int lane, const float (&from)[kOwn]) {
#pragma unroll
    for (int k = 0; k < kOwn; ++k) row[tile_slot(lane * kOwn) + k] = from[k];
}

// Step sizes of a lane's tokens: 0 behind the end, so that states do not change there.
BK_DEVICE void own_steps(const StepRule& rule, float bias, int lane, int tokens, float (&steps)[kOwn]) {
#pragma unroll
    for (int k = 0; k < kOwn; ++k) steps[k] = lane * kOwn + k < tokens ? rule(steps[k] + bias) : 0.0f;
}

}  // namespace bk::ssm
