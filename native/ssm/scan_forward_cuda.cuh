// SPDX-License-Identifier: Apache-2.0
// Forward selective scan: a block has a sequence and kTileChannels channels, and scans tile after tile of tokens.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "ssm/scan_tile.cuh"

namespace bk::ssm {

template <class T>
__global__ void __launch_bounds__(kScanThreads, 2)
    scan_forward_kernel(const ScanProblem<T> p, const TokenView<T> y, const ParameterOut<T> last_state) {
    __shared__ TileRows u_tile, step_tile;
    __shared__ TileStates b_tile, c_tile;
    __shared__ float carried[kTileChannels][kMaxStates];
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int states = static_cast<int>(p.states);
    const int64_t sequence = blockIdx.x / p.channel_tiles(), row = p.sequences.row(sequence);
    const ChannelTile channels = ChannelTile::of(p, blockIdx.x % p.channel_tiles());
    const int64_t begin = p.sequences.begin(sequence), end = p.sequences.end(sequence);
    const bool is_mine = warp < channels.count;
    const int64_t channel = channels.first + (is_mine ? warp : 0);
    for (int n = lane; n < states; n += 32)
        carried[warp][n] =
            p.initial_state.is_given() && is_mine ? p.initial_state[(sequence * p.channels + channel) * states + n] : 0.0f;

    for (int64_t first = begin; first < end; first += kTileTokens) {
        const int tokens = static_cast<int>(end - first < kTileTokens ? end - first : kTileTokens);
        __syncthreads();
        stage_tokens(u_tile, p.u.at(row, first), p.u.token_stride, p.u.channel_stride, channels, 1, tokens);
        stage_tokens(step_tile, p.delta.at(row, first), p.delta.token_stride, p.delta.channel_stride, channels, p.per_head,
                     tokens);
        __syncthreads();
        float u[kOwn], step[kOwn], a[kOwn], sum[kOwn] = {};
        read_own(u_tile[warp], lane, u);
        read_own(step_tile[warp], lane, step);
        own_steps(p.rule, p.bias(channel), lane, tokens, step);
        if (p.is_scalar_a) {
            const float rate = p.rate(channel, 0);
#pragma unroll
            for (int k = 0; k < kOwn; ++k) a[k] = decay(step[k], rate);
        }
        for (int staged = 0; staged < states; staged += kStaged) {
            __syncthreads();
            stage_states(b_tile, p.b.at(row, first, channels.group), p.b.token_stride, p.b.state_stride, staged, states,
                         tokens);
            stage_states(c_tile, p.c.at(row, first, channels.group), p.c.token_stride, p.c.state_stride, staged, states,
                         tokens);
            __syncthreads();
            for (int n = staged; n < staged + kStaged && n < states; ++n) {
                const float* const b = b_tile[n - staged] + tile_slot(lane * kOwn);
                const float* const c = c_tile[n - staged] + tile_slot(lane * kOwn);
                if (!p.is_scalar_a) {
                    const float rate = p.rate(channel, n);
#pragma unroll
                    for (int k = 0; k < kOwn; ++k) a[k] = decay(step[k], rate);
                }
                Affine mine{1, 0};
#pragma unroll
                for (int k = 0; k < kOwn; ++k) mine = Affine{a[k], step[k] * u[k] * b[k]}.after(mine);
                const Affine upto = scan_up(mine, lane);
                const Affine before = shuffle_up(upto, 1);
                const float start = carried[warp][n];
                float h = lane == 0 ? start : before(start);
#pragma unroll
                for (int k = 0; k < kOwn; ++k) {
                    h = a[k] * h + step[k] * u[k] * b[k];
                    sum[k] += h * c[k];
                }
                __syncwarp();
                if (lane == 31) carried[warp][n] = h;
                __syncwarp();
            }
        }
        __syncthreads();
        if (p.z.data != nullptr) {
            stage_tokens(step_tile, p.z.at(row, first), p.z.token_stride, p.z.channel_stride, channels, 1, tokens);
            __syncthreads();
        }
        const float skip = p.skip(channel);
        float z[kOwn];
        read_own(step_tile[warp], lane, z);
#pragma unroll
        for (int k = 0; k < kOwn; ++k) {
            if (p.d_skip.is_given()) sum[k] += skip * u[k];
            if (p.z.data != nullptr) sum[k] *= silu(z[k]);
        }
        write_own(u_tile[warp], lane, sum);
        __syncthreads();
        write_tokens(u_tile, y.at(row, first), y.token_stride, y.channel_stride, channels, tokens);
    }
    if (!last_state.is_given() || !is_mine) return;
    for (int n = lane; n < states; n += 32) last_state.put((sequence * p.channels + channel) * states + n, carried[warp][n]);
}

template <class T>
Status scan_forward(const Launch& launch, const ScanProblem<T>& p, const TokenView<T>& y, const ParameterOut<T>& last_state) {
    const int64_t blocks = p.sequences.count * p.channel_tiles();
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld tiles of channels are too many for one launch", (long long)blocks);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kScanThreads)}, scan_forward_kernel<T>, p, y,
                         last_state);
}

}  // namespace bk::ssm
