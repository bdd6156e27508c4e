// SPDX-License-Identifier: Apache-2.0
// Gradients of selective scans on a CPU, by the formulas of ssm/scan_gradients_cuda.cuh.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "ssm/scan_tile_cpu.h"

namespace bk::ssm {

// u, step sizes and g of a tile; raw steps and dy are read again where they are needed.
template <class T>
struct GradientLanes {
    LaneTile u, step, g, a;
    alignas(64) float bias[kLanes], rate[kLanes];

    void read(const ScanProblem<T>& p, const TokenView<const T>& dy, const TokenTile& at, const ChannelTile& channels) {
        read_lanes(bias, channels, [&](int64_t channel) { return p.bias(channel); });
        if (p.z.data != nullptr)
            read_tile(&a, p.z.at(at.row, at.begin), p.z.token_stride, p.z.channel_stride, channels, 1, at.count);
        read_tile(&g, dy.at(at.row, at.begin), dy.token_stride, dy.channel_stride, channels, 1, at.count);
        if (p.z.data != nullptr)
            for (int t = 0; t < at.count; ++t)
                for (int c = 0; c < kLanes; ++c) g.token[t][c] *= silu(a.token[t][c]);
        read_tile(&u, p.u.at(at.row, at.begin), p.u.token_stride, p.u.channel_stride, channels, 1, at.count);
        read_tile(&step, p.delta.at(at.row, at.begin), p.delta.token_stride, p.delta.channel_stride, channels, p.per_head,
                  at.count);
        to_steps(&step, p.rule, bias, at.count);
        if (p.is_scalar_a) set_rates(p, channels, 0, at.count);
    }
    // Decays of state n.
    void set_rates(const ScanProblem<T>& p, const ChannelTile& channels, int n, int tokens) {
        read_lanes(rate, channels, [&](int64_t channel) { return p.rate(channel, n); });
        for (int t = 0; t < tokens; ++t)
            for (int c = 0; c < kLanes; ++c) a.token[t][c] = decay(step.token[t][c], rate[c]);
    }
};

template <class T>
struct ScanSummaryRange {
    ScanProblem<T> p;
    TokenView<const T> dy;
    ScanPartials w;

    void operator()(int64_t first_item, int64_t last_item) const {
        for (int64_t item = first_item; item < last_item; ++item) summarise(item / p.channel_tiles(), item % p.channel_tiles());
    }

private:
    void summarise(int64_t slot, int64_t channel_tile) const {
        const TokenTile at = TokenTile::of(p, slot);
        if (at.count == 0) return;
        const ChannelTile channels = ChannelTile::of(p, channel_tile);
        GradientLanes<T> lanes;
        lanes.read(p, dy, at, channels);
        const auto* const b = p.b.at(at.row, at.begin, channels.group);
        const auto* const of_c = p.c.at(at.row, at.begin, channels.group);
        for (int n = 0; n < p.states; ++n) {
            if (!p.is_scalar_a) lanes.set_rates(p, channels, n, at.count);
            alignas(64) float h[kLanes] = {}, passed[kLanes] = {};
            for (int t = 0; t < at.count; ++t) {
                const float bt = widen(b[t * p.b.token_stride + n * p.b.state_stride]);
                for (int c = 0; c < kLanes; ++c)
                    h[c] = lanes.a.token[t][c] * h[c] + lanes.step.token[t][c] * lanes.u.token[t][c] * bt;
            }
            for (int t = at.count - 1; t >= 0; --t) {
                const float ct = widen(of_c[t * p.c.token_stride + n * p.c.state_stride]);
                for (int c = 0; c < kLanes; ++c) passed[c] = lanes.a.token[t][c] * (lanes.g.token[t][c] * ct + passed[c]);
            }
            for (int c = 0; c < channels.count; ++c) {
                const int64_t to = (slot * p.channels + channels.first + c) * p.states + n;
                w.states[to] = h[c];
                w.passed[to] = passed[c];
            }
        }
        for (int c = 0; c < channels.count; ++c) {
            float sum = 0;
            for (int t = 0; t < at.count; ++t) sum += lanes.step.token[t][c];
            w.steps[slot * p.channels + channels.first + c] = sum;
        }
    }
};

template <class T>
struct ScanGradientRange {
    ScanProblem<T> p;
    ScanGradients<T> out;
    ScanPartials w;

    void operator()(int64_t first_item, int64_t last_item) const {
        for (int64_t item = first_item; item < last_item; ++item) {
            const int64_t split = item % w.splits, group = item / w.splits % p.groups, slot = item / w.splits / p.groups;
            const TokenTile at = TokenTile::of(p, slot);
            if (at.count == 0) continue;
            const int64_t tiles = p.tiles_of_group(), begin = tiles * split / w.splits, end = tiles * (split + 1) / w.splits;
            for (int64_t tile = begin; tile < end; ++tile)
                add_tile(slot, at, ChannelTile::of(p, group * tiles + tile), split, tile == begin);
        }
    }

private:
    // Sums of a tile over its states.
    struct Sums {
        LaneTile y, of_u, of_step, earlier;
        alignas(64) float of_rate[kLanes];
    };

    void add_tile(int64_t slot, const TokenTile& at, const ChannelTile& channels, int64_t split, bool is_first) const {
        GradientLanes<T> lanes;
        lanes.read(p, out.dy, at, channels);
        Sums sums;
        for (int t = 0; t < at.count; ++t)
            for (int c = 0; c < kLanes; ++c) sums.y.token[t][c] = sums.of_u.token[t][c] = sums.of_step.token[t][c] = 0;
        for (int c = 0; c < kLanes; ++c) sums.of_rate[c] = 0;
        const int64_t all_tokens = p.sequences.rows * p.sequences.length;
        const int64_t first_token = at.row * p.sequences.length + at.begin;
        const int64_t cell = slot * p.channels + channels.first;
        for (int n = 0; n < p.states; ++n) {
            if (!p.is_scalar_a) {
                lanes.set_rates(p, channels, n, at.count);
                for (int c = 0; c < kLanes; ++c) sums.of_rate[c] = 0;
            }
            const int64_t to = ((split * p.groups + channels.group) * p.states + n) * all_tokens + first_token;
            add_state(lanes, &sums, at, channels, cell, n, w.of_b + to, w.of_c + to, is_first);
            if (!p.is_scalar_a)
                for (int c = 0; c < channels.count; ++c) w.of_a[(cell + c) * p.states + n] = sums.of_rate[c];
        }
        if (p.is_scalar_a)
            for (int c = 0; c < channels.count; ++c) w.of_a[cell + c] = sums.of_rate[c];
        finish(&lanes, &sums, at, channels, cell, first_token);
    }

    // Adds state n; of_b and of_c are partial sums over channels.
    void add_state(const GradientLanes<T>& lanes, Sums* sums, const TokenTile& at, const ChannelTile& channels, int64_t cell,
                   int n, float* of_b, float* of_c, bool is_first) const {
        const auto* const b = p.b.at(at.row, at.begin, channels.group);
        const auto* const c_row = p.c.at(at.row, at.begin, channels.group);
        alignas(64) float h[kLanes] = {}, passed[kLanes] = {};
        for (int c = 0; c < channels.count; ++c) {
            h[c] = w.states[(cell + c) * p.states + n];
            passed[c] = w.passed[(cell + c) * p.states + n];
        }
        for (int t = 0; t < at.count; ++t) {
            const float bt = widen(b[t * p.b.token_stride + n * p.b.state_stride]);
            const float ct = widen(c_row[t * p.c.token_stride + n * p.c.state_stride]);
            float sum = 0;
            for (int c = 0; c < kLanes; ++c) {
                sums->earlier.token[t][c] = h[c];
                h[c] = lanes.a.token[t][c] * h[c] + lanes.step.token[t][c] * lanes.u.token[t][c] * bt;
                sums->y.token[t][c] += h[c] * ct;
            }
            for (int c = 0; c < channels.count; ++c) sum += lanes.g.token[t][c] * h[c];
            of_c[t] = is_first ? sum : of_c[t] + sum;
        }
        for (int t = at.count - 1; t >= 0; --t) {
            const float bt = widen(b[t * p.b.token_stride + n * p.b.state_stride]);
            const float ct = widen(c_row[t * p.c.token_stride + n * p.c.state_stride]);
            alignas(64) float of_state[kLanes];
            float sum = 0;
            for (int c = 0; c < kLanes; ++c) {
                const float dh = lanes.g.token[t][c] * ct + passed[c];
                const float product = lanes.a.token[t][c] * sums->earlier.token[t][c] * dh;
                passed[c] = lanes.a.token[t][c] * dh;
                sums->of_u.token[t][c] += bt * dh;
                sums->of_step.token[t][c] += lanes.rate[c] * product;
                sums->of_rate[c] += lanes.step.token[t][c] * product;
                of_state[c] = lanes.step.token[t][c] * lanes.u.token[t][c] * dh;
            }
            for (int c = 0; c < channels.count; ++c) sum += of_state[c];
            of_b[t] = is_first ? sum : of_b[t] + sum;
        }
    }

    // Results of tokens, and what is summed over them.
    void finish(GradientLanes<T>* lanes, Sums* sums, const TokenTile& at, const ChannelTile& channels, int64_t cell,
                int64_t first_token) const {
        alignas(64) float skip[kLanes], of_skip[kLanes] = {}, of_bias[kLanes] = {};
        read_lanes(skip, channels, [&](int64_t channel) { return p.skip(channel); });
        LaneTile& raw = sums->earlier;
        read_tile(&raw, p.delta.at(at.row, at.begin), p.delta.token_stride, p.delta.channel_stride, channels, p.per_head,
                  at.count);
        for (int t = 0; t < at.count; ++t)
            for (int c = 0; c < kLanes; ++c) {
                const float u = lanes->u.token[t][c], g = lanes->g.token[t][c], of_u = sums->of_u.token[t][c];
                const float of_delta = (u * of_u + sums->of_step.token[t][c]) * p.rule.slope(raw.token[t][c] + lanes->bias[c]);
                sums->of_step.token[t][c] = of_delta;
                of_bias[c] += of_delta;
                of_skip[c] += u * g;
                sums->y.token[t][c] += p.d_skip.is_given() ? skip[c] * u : 0.0f;
                sums->of_u.token[t][c] = lanes->step.token[t][c] * of_u + (p.d_skip.is_given() ? skip[c] * g : 0.0f);
            }
        for (int c = 0; c < channels.count; ++c) {
            w.of_d[cell + c] = of_skip[c];
            w.of_bias[cell + c] = of_bias[c];
        }
        const auto write = [&](const LaneTile& from, const TokenView<T>& to) {
            if (to.data != nullptr)
                write_tile(from, to.at(at.row, at.begin), to.token_stride, to.channel_stride, channels, at.count);
        };
        write(sums->of_u, out.du);
        if (!p.is_scalar_a)
            write(sums->of_step, out.d_delta);
        else
            write_tile(sums->of_step, w.of_delta + first_token * p.channels, p.channels, 1, channels, at.count);
        if (out.dz.data == nullptr) return;
        LaneTile &z = lanes->u, &dy = lanes->step;
        if (p.z.data != nullptr)
            read_tile(&z, p.z.at(at.row, at.begin), p.z.token_stride, p.z.channel_stride, channels, 1, at.count);
        read_tile(&dy, out.dy.at(at.row, at.begin), out.dy.token_stride, out.dy.channel_stride, channels, 1, at.count);
        for (int t = 0; t < at.count; ++t)
            for (int c = 0; c < kLanes; ++c) {
                const float slope = p.z.data == nullptr ? 0.0f : silu_slope(z.token[t][c]);
                sums->y.token[t][c] = p.z.data == nullptr ? 0.0f : sums->y.token[t][c] * dy.token[t][c] * slope;
            }
        write(sums->y, out.dz);
    }
};

template <class T>
Status scan_summaries(const Launch&, const ScanProblem<T>& p, const TokenView<const T>& dy, const ScanPartials& w) {
    parallel_ranges(p.slots() * p.channel_tiles(), 1, ScanSummaryRange<T>{p, dy, w});
    return Status::kOk;
}

template <class T>
Status scan_tile_gradients(const Launch&, const ScanProblem<T>& p, const ScanGradients<T>& out, const ScanPartials& w) {
    parallel_ranges(p.slots() * p.groups * w.splits, 1, ScanGradientRange<T>{p, out, w});
    return Status::kOk;
}

}  // namespace bk::ssm
