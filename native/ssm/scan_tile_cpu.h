// SPDX-License-Identifier: Apache-2.0
// Tiles of a selective scan on a CPU: lanes are channels, and tokens follow each other.
#pragma once

#include <cstdint>

#include "ssm/scan_problem.h"

namespace bk::ssm {

constexpr int kLanes = kTileChannels;

struct LaneTile {
    alignas(64) float token[kTileTokens][kLanes];
};

// Reads a tile of tokens and channels; other channels are 0. Channels are of heads of per_head.
template <class T>
inline void read_tile(LaneTile* to, const T* from, int64_t token_stride, int64_t channel_stride, const ChannelTile& channels,
                      int64_t per_head, int tokens) {
    for (int t = 0; t < tokens; ++t) {
        const T* const row = from + t * token_stride;
        if (per_head == 1 && channel_stride == 1 && channels.count == kLanes) {
            for (int c = 0; c < kLanes; ++c) to->token[t][c] = widen(row[channels.first + c]);
            continue;
        }
        for (int c = 0; c < kLanes; ++c)
            to->token[t][c] = c < channels.count ? widen(row[(channels.first + c) / per_head * channel_stride]) : 0.0f;
    }
}

template <class T>
inline void write_tile(const LaneTile& from, T* to, int64_t token_stride, int64_t channel_stride, const ChannelTile& channels,
                       int tokens) {
    for (int t = 0; t < tokens; ++t)
        for (int c = 0; c < channels.count; ++c)
            to[t * token_stride + (channels.first + c) * channel_stride] = narrow<T>(from.token[t][c]);
}

// A parameter of each lane.
template <class Of>
inline void read_lanes(float (&to)[kLanes], const ChannelTile& channels, const Of& of) {
    for (int c = 0; c < kLanes; ++c) to[c] = c < channels.count ? of(channels.first + c) : 0.0f;
}

// Raw steps become step sizes.
inline void to_steps(LaneTile* tile, const StepRule& rule, const float (&bias)[kLanes], int tokens) {
    for (int t = 0; t < tokens; ++t)
        for (int c = 0; c < kLanes; ++c) tile->token[t][c] = rule(tile->token[t][c] + bias[c]);
}

}  // namespace bk::ssm
