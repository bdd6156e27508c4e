// SPDX-License-Identifier: Apache-2.0
// Gradients of selective scans on a GPU (ssm/scan_problem.h): summaries of tiles, and all gradients of a tile. With
// g the gradient of the sum c . h + d u, a' and step' those of the next token,
//
//   dh = g c + a' dh',   w = a h_before dh
//   du = step sum of b dh + d g,   dstep = sum of (u b dh + rate w),   drate = step w,   db = step u dh,   dc = g h
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "ssm/scan_tile.cuh"

namespace bk::ssm {

// Rows of a tile that both kernels read: u, raw steps, and g in index of dy.
template <class T>
struct GradientTile {
    TileRows u, delta, dy, z;

    BK_DEVICE void load(const ScanProblem<T>& p, const TokenView<const T>& from, const TokenTile& at,
                        const ChannelTile& channels) {
        stage_tokens(u, p.u.at(at.row, at.begin), p.u.token_stride, p.u.channel_stride, channels, 1, at.count);
        stage_tokens(delta, p.delta.at(at.row, at.begin), p.delta.token_stride, p.delta.channel_stride, channels, p.per_head,
                     at.count);
        stage_tokens(dy, from.at(at.row, at.begin), from.token_stride, from.channel_stride, channels, 1, at.count);
        if (p.z.data != nullptr)
            stage_tokens(z, p.z.at(at.row, at.begin), p.z.token_stride, p.z.channel_stride, channels, 1, at.count);
    }
    BK_DEVICE void read_g(const ScanProblem<T>& p, int warp, int lane, float (&g)[kOwn]) const {
        read_own(dy[warp], lane, g);
        if (p.z.data == nullptr) return;
#pragma unroll
        for (int k = 0; k < kOwn; ++k) g[k] *= silu(z[warp][tile_slot(lane * kOwn) + k]);
    }
};

template <class T>
struct SummaryShared {
    GradientTile<T> rows;
    TileStates b, c;
};

// A block has a tile of tokens and of channels.
template <class T>
__global__ void __launch_bounds__(kScanThreads, 2)
    scan_summary_kernel(const ScanProblem<T> p, const TokenView<const T> dy, const ScanPartials out) {
    BK_LAUNCH_SHARED(uint4, summary_memory);
    auto& shared = *reinterpret_cast<SummaryShared<T>*>(summary_memory);
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int states = static_cast<int>(p.states);
    const int64_t slot = blockIdx.x / p.channel_tiles();
    const TokenTile at = TokenTile::of(p, slot);
    const ChannelTile channels = ChannelTile::of(p, blockIdx.x % p.channel_tiles());
    if (at.count == 0) return;
    const bool is_mine = warp < channels.count;
    const int64_t channel = channels.first + (is_mine ? warp : 0), cell = slot * p.channels + channel;
    shared.rows.load(p, dy, at, channels);
    __syncthreads();
    float u[kOwn], step[kOwn], g[kOwn], a[kOwn];
    read_own(shared.rows.u[warp], lane, u);
    read_own(shared.rows.delta[warp], lane, step);
    own_steps(p.rule, p.bias(channel), lane, at.count, step);
    shared.rows.read_g(p, warp, lane, g);
    if (p.is_scalar_a) {
        const float rate = p.rate(channel, 0);
#pragma unroll
        for (int k = 0; k < kOwn; ++k) a[k] = decay(step[k], rate);
    }
    for (int staged = 0; staged < states; staged += kStaged) {
        __syncthreads();
        stage_states(shared.b, p.b.at(at.row, at.begin, channels.group), p.b.token_stride, p.b.state_stride, staged, states,
                     at.count);
        stage_states(shared.c, p.c.at(at.row, at.begin, channels.group), p.c.token_stride, p.c.state_stride, staged, states,
                     at.count);
        __syncthreads();
        for (int n = staged; n < staged + kStaged && n < states; ++n) {
            const float* const b = shared.b[n - staged] + tile_slot(lane * kOwn);
            const float* const c = shared.c[n - staged] + tile_slot(lane * kOwn);
            if (!p.is_scalar_a) {
                const float rate = p.rate(channel, n);
#pragma unroll
                for (int k = 0; k < kOwn; ++k) a[k] = decay(step[k], rate);
            }
            Affine forward{1, 0}, backward{1, 0};
#pragma unroll
            for (int k = 0; k < kOwn; ++k) forward = Affine{a[k], step[k] * u[k] * b[k]}.after(forward);
#pragma unroll
            for (int k = kOwn - 1; k >= 0; --k) backward = Affine{a[k], a[k] * g[k] * c[k]}.after(backward);
            const float state = scan_up(forward, lane).b, passed = scan_down(backward, lane).b;
            if (!is_mine) continue;
            if (lane == 31) out.states[cell * states + n] = state;
            if (lane == 0) out.passed[cell * states + n] = passed;
        }
    }
    float steps = 0;
#pragma unroll
    for (int k = 0; k < kOwn; ++k) steps += step[k];
    steps = warp_sum(steps);
    if (is_mine && lane == 0) out.steps[cell] = steps;
}

template <class T>
struct GradientShared {
    GradientTile<T> rows;
    TileStates b, c;
    TileRows of_b, of_c;  // of each channel, for one state
};

// A block has a tile of tokens and some of the channel tiles of a group, one after the other.
template <class T>
__global__ void __launch_bounds__(kScanThreads, 2)
    scan_gradient_kernel(const ScanProblem<T> p, const ScanGradients<T> out, const ScanPartials w) {
    BK_LAUNCH_SHARED(uint4, gradient_memory);
    auto& shared = *reinterpret_cast<GradientShared<T>*>(gradient_memory);
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int states = static_cast<int>(p.states);
    const int64_t split = blockIdx.x % w.splits, group = blockIdx.x / w.splits % p.groups;
    const int64_t slot = blockIdx.x / w.splits / p.groups;
    const TokenTile at = TokenTile::of(p, slot);
    if (at.count == 0) return;
    const int64_t all_tokens = p.sequences.rows * p.sequences.length, first_token = at.row * p.sequences.length + at.begin;
    const int64_t tiles = p.tiles_of_group(), last = tiles * (split + 1) / w.splits;
    for (int64_t tile = tiles * split / w.splits; tile < last; ++tile) {
        const bool is_first = tile == tiles * split / w.splits;
        const ChannelTile channels = ChannelTile::of(p, group * tiles + tile);
        const bool is_mine = warp < channels.count;
        const int64_t channel = channels.first + (is_mine ? warp : 0), cell = slot * p.channels + channel;
        __syncthreads();
        shared.rows.load(p, out.dy, at, channels);
        __syncthreads();
        float u[kOwn], step[kOwn], g[kOwn], a[kOwn], sum[kOwn] = {}, of_u[kOwn] = {}, of_step[kOwn] = {}, of_rates = 0;
        read_own(shared.rows.u[warp], lane, u);
        read_own(shared.rows.delta[warp], lane, step);
        own_steps(p.rule, p.bias(channel), lane, at.count, step);
        shared.rows.read_g(p, warp, lane, g);
        float rate = 0;
        if (p.is_scalar_a) {
            rate = p.rate(channel, 0);
#pragma unroll
            for (int k = 0; k < kOwn; ++k) a[k] = decay(step[k], rate);
        }
        for (int staged = 0; staged < states; staged += kStaged) {
            __syncthreads();
            stage_states(shared.b, p.b.at(at.row, at.begin, group), p.b.token_stride, p.b.state_stride, staged, states,
                         at.count);
            stage_states(shared.c, p.c.at(at.row, at.begin, group), p.c.token_stride, p.c.state_stride, staged, states,
                         at.count);
            __syncthreads();
            for (int n = staged; n < staged + kStaged && n < states; ++n) {
                const float* const b = shared.b[n - staged] + tile_slot(lane * kOwn);
                const float* const c = shared.c[n - staged] + tile_slot(lane * kOwn);
                if (!p.is_scalar_a) {
                    rate = p.rate(channel, n);
#pragma unroll
                    for (int k = 0; k < kOwn; ++k) a[k] = decay(step[k], rate);
                }
                Affine forward{1, 0}, backward{1, 0};
#pragma unroll
                for (int k = 0; k < kOwn; ++k) forward = Affine{a[k], step[k] * u[k] * b[k]}.after(forward);
#pragma unroll
                for (int k = kOwn - 1; k >= 0; --k) backward = Affine{a[k], a[k] * g[k] * c[k]}.after(backward);
                const Affine before = shuffle_up(scan_up(forward, lane), 1);
                const Affine behind = shuffle_down(scan_down(backward, lane), 1);
                const float start = is_mine ? w.states[cell * states + n] : 0.0f;
                const float stop = is_mine ? w.passed[cell * states + n] : 0.0f;
                float h = lane == 0 ? start : before(start), passed = lane == 31 ? stop : behind(stop), of_rate = 0;
                float earlier[kOwn];
#pragma unroll
                for (int k = 0; k < kOwn; ++k) {
                    earlier[k] = h;
                    h = a[k] * h + step[k] * u[k] * b[k];
                    sum[k] += h * c[k];
                    shared.of_c[warp][tile_slot(lane * kOwn) + k] = is_mine ? g[k] * h : 0.0f;
                }
#pragma unroll
                for (int k = kOwn - 1; k >= 0; --k) {
                    const float dh = g[k] * c[k] + passed, product = a[k] * earlier[k] * dh;
                    passed = a[k] * dh;
                    of_u[k] += b[k] * dh;
                    of_step[k] += rate * product;
                    of_rate += lane * kOwn + k < at.count ? step[k] * product : 0.0f;
                    shared.of_b[warp][tile_slot(lane * kOwn) + k] = is_mine ? step[k] * u[k] * dh : 0.0f;
                }
                of_rates += of_rate;
                if (!p.is_scalar_a) {
                    of_rate = warp_sum(of_rate);
                    if (is_mine && lane == 0) w.of_a[cell * states + n] = of_rate;
                }
                __syncthreads();
                const int t = static_cast<int>(threadIdx.x);  // one token of the tile each
                if (t < at.count) {
                    const int64_t to = ((split * p.groups + group) * states + n) * all_tokens + first_token + t;
                    float of_b = is_first ? 0.0f : w.of_b[to], of_c = is_first ? 0.0f : w.of_c[to];
#pragma unroll
                    for (int each = 0; each < kTileChannels; ++each) {
                        of_b += shared.of_b[each][tile_slot(t)];
                        of_c += shared.of_c[each][tile_slot(t)];
                    }
                    w.of_b[to] = of_b;
                    w.of_c[to] = of_c;
                }
                __syncthreads();
            }
        }
        // Results of tokens, and what is summed over them.
        const float skip = p.skip(channel), bias = p.bias(channel);
        float of_skip = 0, of_bias = 0;
#pragma unroll
        for (int k = 0; k < kOwn; ++k) {
            const int index = tile_slot(lane * kOwn) + k;
            const float raw = shared.rows.delta[warp][index] + bias;
            const bool is_token = lane * kOwn + k < at.count;
            const float of_delta = is_token ? (u[k] * of_u[k] + of_step[k]) * p.rule.slope(raw) : 0.0f;
            of_bias += of_delta;
            of_skip += is_token ? u[k] * g[k] : 0.0f;
            float of_z = 0;
            if (p.z.data != nullptr) {
                const float whole = p.d_skip.is_given() ? sum[k] + skip * u[k] : sum[k];
                of_z = shared.rows.dy[warp][index] * whole * silu_slope(shared.rows.z[warp][index]);
            }
            shared.rows.z[warp][index] = of_z;
            shared.rows.u[warp][index] = step[k] * of_u[k] + (p.d_skip.is_given() ? skip * g[k] : 0.0f);
            shared.rows.delta[warp][index] = of_delta;
        }
        of_skip = warp_sum(of_skip);
        of_bias = warp_sum(of_bias);
        of_rates = warp_sum(of_rates);
        if (is_mine && lane == 0) {
            w.of_d[cell] = of_skip;
            w.of_bias[cell] = of_bias;
            if (p.is_scalar_a) w.of_a[cell] = of_rates;
        }
        __syncthreads();
        const auto write = [&](const TileRows& from, const TokenView<T>& to) {
            if (to.data != nullptr)
                write_tokens(from, to.at(at.row, at.begin), to.token_stride, to.channel_stride, channels, at.count);
        };
        write(shared.rows.u, out.du);
        write(shared.rows.z, out.dz);
        if (!p.is_scalar_a)
            write(shared.rows.delta, out.d_delta);
        else
            write_tokens(shared.rows.delta, w.of_delta + first_token * p.channels, p.channels, 1, channels, at.count);
    }
}

template <class T>
Status scan_summaries(const Launch& launch, const ScanProblem<T>& p, const TokenView<const T>& dy, const ScanPartials& w) {
    const int64_t blocks = p.slots() * p.channel_tiles();
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "%lld tiles are too many for one launch", (long long)blocks);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kScanThreads), 1, sizeof(SummaryShared<T>)},
                         scan_summary_kernel<T>, p, dy, w);
}

template <class T>
Status scan_tile_gradients(const Launch& launch, const ScanProblem<T>& p, const ScanGradients<T>& out, const ScanPartials& w) {
    const int64_t blocks = p.slots() * p.groups * w.splits;
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "%lld tiles are too many for one launch", (long long)blocks);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kScanThreads), 1, sizeof(GradientShared<T>)},
                         scan_gradient_kernel<T>, p, out, w);
}

}  // namespace bk::ssm
