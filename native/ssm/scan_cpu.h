// SPDX-License-Identifier: Apache-2.0
// Forward selective scan on a CPU: a thread has a sequence and kTileChannels channels.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "ssm/scan_tile_cpu.h"

namespace bk::ssm {

template <class T>
struct ScanForwardRange {
    ScanProblem<T> p;
    TokenView<T> y;
    ParameterOut<T> last_state;

    void operator()(int64_t first_item, int64_t last_item) const {
        for (int64_t item = first_item; item < last_item; ++item) scan(item / p.channel_tiles(), item % p.channel_tiles());
    }

private:
    void scan(int64_t sequence, int64_t channel_tile) const {
        const ChannelTile channels = ChannelTile::of(p, channel_tile);
        const int64_t row = p.sequences.row(sequence), begin = p.sequences.begin(sequence), end = p.sequences.end(sequence);
        alignas(64) float h[kMaxStates][kLanes];
        float bias[kLanes], skip[kLanes];
        const int states = static_cast<int>(p.states);
        for (int n = 0; n < states; ++n)
            read_lanes(h[n], channels, [&](int64_t channel) {
                return p.initial_state.is_given() ? p.initial_state[(sequence * p.channels + channel) * states + n] : 0.0f;
            });
        read_lanes(bias, channels, [&](int64_t channel) { return p.bias(channel); });
        read_lanes(skip, channels, [&](int64_t channel) { return p.skip(channel); });
        LaneTile u, step, sum, same;
        for (int64_t first = begin; first < end; first += kTileTokens) {
            const int tokens = static_cast<int>(end - first < kTileTokens ? end - first : kTileTokens);
            read_tile(&u, p.u.at(row, first), p.u.token_stride, p.u.channel_stride, channels, 1, tokens);
            read_tile(&step, p.delta.at(row, first), p.delta.token_stride, p.delta.channel_stride, channels, p.per_head,
                      tokens);
            to_steps(&step, p.rule, bias, tokens);
            for (int t = 0; t < tokens; ++t)
                for (int c = 0; c < kLanes; ++c) sum.token[t][c] = p.d_skip.is_given() ? skip[c] * u.token[t][c] : 0.0f;
            const auto* const b = p.b.at(row, first, channels.group);
            const auto* const of_c = p.c.at(row, first, channels.group);
            alignas(64) float rate[kLanes];
            if (p.is_scalar_a) {
                read_lanes(rate, channels, [&](int64_t channel) { return p.rate(channel, 0); });
                for (int t = 0; t < tokens; ++t)
                    for (int c = 0; c < kLanes; ++c) same.token[t][c] = decay(step.token[t][c], rate[c]);
            }
            for (int n = 0; n < states; ++n) {
                alignas(64) float own[kLanes];
                for (int c = 0; c < kLanes; ++c) own[c] = h[n][c];
                if (!p.is_scalar_a) read_lanes(rate, channels, [&](int64_t channel) { return p.rate(channel, n); });
                for (int t = 0; t < tokens; ++t) {
                    const float bt = widen(b[t * p.b.token_stride + n * p.b.state_stride]);
                    const float ct = widen(of_c[t * p.c.token_stride + n * p.c.state_stride]);
                    if (p.is_scalar_a) {
                        for (int c = 0; c < kLanes; ++c) {
                            own[c] = same.token[t][c] * own[c] + step.token[t][c] * u.token[t][c] * bt;
                            sum.token[t][c] += own[c] * ct;
                        }
                    } else {
                        for (int c = 0; c < kLanes; ++c) {
                            own[c] = decay(step.token[t][c], rate[c]) * own[c] + step.token[t][c] * u.token[t][c] * bt;
                            sum.token[t][c] += own[c] * ct;
                        }
                    }
                }
                for (int c = 0; c < kLanes; ++c) h[n][c] = own[c];
            }
            if (p.z.data != nullptr) {
                read_tile(&u, p.z.at(row, first), p.z.token_stride, p.z.channel_stride, channels, 1, tokens);
                for (int t = 0; t < tokens; ++t)
                    for (int c = 0; c < kLanes; ++c) sum.token[t][c] *= silu(u.token[t][c]);
            }
            write_tile(sum, y.at(row, first), y.token_stride, y.channel_stride, channels, tokens);
        }
        if (!last_state.is_given()) return;
        for (int c = 0; c < channels.count; ++c)
            for (int n = 0; n < states; ++n) last_state.put((sequence * p.channels + channels.first + c) * states + n, h[n][c]);
    }
};

template <class T>
Status scan_forward(const Launch&, const ScanProblem<T>& p, const TokenView<T>& y, const ParameterOut<T>& last_state) {
    parallel_ranges(p.sequences.count * p.channel_tiles(), 1, ScanForwardRange<T>{p, y, last_state});
    return Status::kOk;
}

}  // namespace bk::ssm
