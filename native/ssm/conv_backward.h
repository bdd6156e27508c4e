// SPDX-License-Identifier: Apache-2.0
// Gradients of the causal convolution, g being that of pre:
//
//   dx[t] = sum over k of weight[k] g[t + (width - 1 - k)],   dweight[k] = sum of g[t] x[t - (width - 1 - k)],   dbias = sum of
//   g
//
// pre is recomputed. Gradients of weights are sums over slices of all tokens, in a fixed order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/workspace.h"
#include "ssm/conv_forward.h"

namespace bk::ssm {

template <class T>
struct ConvResults {
    TokenView<const T> dy;
    const T* d_final;  // gradient of the final state, or null
    TokenView<T> dx;   // data may be null
    T* d_initial;      // or null
    ParameterOut<T> dweight, dbias;
};

// Gradients of x: a thread has a run of tokens of a channel. An item behind those of tiles has the initial state of a sequence.
template <class T, int W>
struct ConvInputGradients {
    using C = compute_t<T>;
    ConvProblem<T> p;
    ConvResults<T> out;
    ConvTiles tiles;
    int64_t tile_items;

    BK_HD void operator()(const Team& team, int64_t item) const {
        if (item >= tile_items) return of_initial(team, item - tile_items);
        tiles.each(team.rank, team.size, item, [&](int64_t row, int64_t token, int64_t end, int64_t channel) {
            while (token < end) {
                if (p.sequences.offsets != nullptr && !p.sequences.has(token)) {
                    out.dx.at(row, token++)[channel * out.dx.channel_stride] = narrow<T>(C(0));
                    continue;
                }
                const int64_t sequence = p.sequences.of(row, token), stop = p.sequences.end(sequence);
                const int64_t last = stop < end ? stop : end;
                if (last <= token) return;  // offsets in no order
                each_gradient(row, sequence, channel, token, last, [&](int64_t t, C value) {
                    out.dx.at(row, t)[channel * out.dx.channel_stride] = narrow<T>(value);
                });
                token = last;
            }
        });
    }

private:
    BK_HD void of_initial(const Team& team, int64_t sequence) const {
        const int64_t begin = p.sequences.begin(sequence), states = p.width - 1;
        for (int64_t c = team.rank; c < p.channels; c += team.size)
            each_gradient(p.sequences.row(sequence), sequence, c, begin - states, begin, [&](int64_t t, C value) {
                out.d_initial[(sequence * p.channels + c) * states + (t - begin + states)] = narrow<T>(value);
            });
    }
    // emit(t, gradient of the input at t) for tokens [first, last), which may be in front of the sequence.
    template <class Emit>
    BK_HD void each_gradient(int64_t row, int64_t sequence, int64_t channel, int64_t first, int64_t last,
                             const Emit& emit) const {
        ConvGradient<T, W> gradient(p, out.dy, row, sequence, channel);
        C g[W];
        BK_UNROLL
        for (int j = 0; j < W; ++j) g[j] = C(0);
        bool has_started = false;
        for (int64_t t = first - (p.width - 1); t < last; ++t) {  // g of width tokens from t on
            const int64_t newest = t + p.width - 1;
            BK_UNROLL
            for (int j = 0; j + 1 < W; ++j) g[j] = g[j + 1];
            g[W - 1] = C(0);
            if (newest >= gradient.begin && newest < gradient.end) {
                if (!has_started) gradient.start(newest);
                has_started = true;
                g[W - 1] = gradient.next(newest);
            }
            if (t < first) continue;
            C sum = C(0);
            BK_UNROLL
            for (int j = 0; j < W; ++j)
                if (j >= W - p.width) sum = math::fma(gradient.by_tap[W - 1 - j], g[j], sum);
            const int64_t kept = t - (gradient.end - (p.width - 1));
            if (out.d_final != nullptr && kept >= 0)
                sum += widen(out.d_final[(sequence * p.channels + channel) * (p.width - 1) + kept]);
            emit(t, sum);
        }
    }
};

// Partial gradients of weights: a slice of the runs of all rows. A thread has a channel, or a team has one, where tokens
// are contiguous.
constexpr int64_t kSliceRun = 16;

template <class T, int W>
struct ConvWeightGradients {
    using C = compute_t<T>;
    ConvProblem<T> p;
    TokenView<const T> dy;
    C *of_weight, *of_bias;  // [slices, channels, width] and [slices, channels], or null: results
    ParameterOut<T> dweight, dbias;
    int64_t slices, channel_tile;
    bool is_channel_first;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t slice = item % slices, c0 = item / slices * channel_tile;
        const int64_t c1 = c0 + channel_tile < p.channels ? c0 + channel_tile : p.channels;
        const int64_t per_row = (p.sequences.length + kSliceRun - 1) / kSliceRun, runs = per_row * p.sequences.rows;
        const int64_t first = runs * slice / slices, last = runs * (slice + 1) / slices;
        if (is_channel_first) {
            for (int64_t c = c0 + team.rank; c < c1; c += team.size) {
                C sum[W + 1] = {};
                for (int64_t run = first; run < last; ++run) add(sum, run / per_row, run % per_row * kSliceRun, c);
                put(slice, c, sum);
            }
            return;
        }
        for (int64_t c = c0; c < c1; ++c) {
            C sum[W + 1] = {};
            for (int64_t run = first + team.rank; run < last; run += team.size)
                add(sum, run / per_row, run % per_row * kSliceRun, c);
            BK_UNROLL
            for (int j = 0; j <= W; ++j) sum[j] = team.sum(sum[j]);
            if (team.rank == 0) put(slice, c, sum);
        }
    }

private:
    BK_HD void add(C (&sum)[W + 1], int64_t row, int64_t token, int64_t channel) const {
        const int64_t end = token + kSliceRun < p.sequences.length ? token + kSliceRun : p.sequences.length;
        while (token < end) {
            if (p.sequences.offsets != nullptr && !p.sequences.has(token)) {
                ++token;
                continue;
            }
            const int64_t sequence = p.sequences.of(row, token), stop = p.sequences.end(sequence);
            const int64_t last = stop < end ? stop : end;
            if (last <= token) return;  // offsets in no order
            ConvGradient<T, W> gradient(p, dy, row, sequence, channel);
            gradient.start(token);
            for (; token < last; ++token) {
                const C g = gradient.next(token);
                BK_UNROLL
                for (int j = 0; j < W; ++j) sum[j] = math::fma(g, gradient.x[j], sum[j]);
                sum[W] += g;
            }
        }
    }
    BK_HD void put(int64_t slice, int64_t channel, const C (&sum)[W + 1]) const {
        BK_UNROLL
        for (int j = 0; j < W; ++j) {
            const int64_t k = j - (W - p.width);
            if (k < 0) continue;
            if (of_weight != nullptr)
                of_weight[(slice * p.channels + channel) * p.width + k] = sum[j];
            else if (dweight.is_given())
                dweight.put(channel * p.width + k, sum[j]);
        }
        if (of_bias != nullptr)
            of_bias[slice * p.channels + channel] = sum[W];
        else if (dbias.is_given())
            dbias.put(channel, sum[W]);
    }
};

template <class T>
struct ConvSlices {
    using C = compute_t<T>;
    int64_t count;
    C *of_weight, *of_bias;

    static ConvSlices carve(Carver* from, int64_t tokens, int64_t channels, int64_t width) {
        ConvSlices s{};
        s.count = std::min<int64_t>(std::max<int64_t>(tokens / 1024, 1), 64);
        if (s.count == 1) return s;
        s.of_weight = from->take<C>(s.count * channels * width);
        s.of_bias = from->take<C>(s.count * channels);
        return s;
    }
};

template <class T, int W>
Status conv_backward_of_width(const Launch& launch, const ConvProblem<T>& p, const ConvResults<T>& out) {
    const int64_t rows = p.sequences.rows, tokens = p.sequences.length;
    const bool is_channel_first = p.is_channel_first(), has_initial = out.d_initial != nullptr && p.width > 1;
    const auto tiles = ConvTiles::of(tokens, p.channels, is_channel_first ? 4 * kConvRun : kConvRun, 1, is_channel_first);
    const int64_t tile_items = out.dx.data == nullptr ? 0 : rows * tiles.per_row();
    if (const int64_t items = tile_items + (has_initial ? p.sequences.count : 0); items > 0) {
        const int64_t bytes = std::min<int64_t>(tokens, tiles.token_tile) * std::min(p.channels, tiles.channel_tile) / 4;
        BK_TRY(run_teams(launch, items, bytes, ConvInputGradients<T, W>{p, out, tiles, tile_items}, false, 8 * p.width));
    }
    if (!out.dweight.is_given() && !out.dbias.is_given()) return Status::kOk;
    Carver measure;
    ConvSlices<T>::carve(&measure, rows * tokens, p.channels, p.width);
    ConvSlices<T> slices{1, nullptr, nullptr};
    if (workspace_holds(launch, measure.bytes())) {
        Carver carver(launch.workspace);
        slices = ConvSlices<T>::carve(&carver, rows * tokens, p.channels, p.width);
    }
    const int64_t channel_tile = is_channel_first ? (BK_CUDA ? 128 : 16) : 1;
    const ConvWeightGradients<T, W> job{p,         out.dy,       slices.of_weight, slices.of_bias,  out.dweight,
                                        out.dbias, slices.count, channel_tile,     is_channel_first};
    const int64_t items = slices.count * ceil_div(p.channels, channel_tile);
    BK_TRY(run_teams(launch, items, is_channel_first ? 1024 : 4096, job, false, rows * tokens / slices.count + 1));
    if (slices.of_weight == nullptr) return Status::kOk;
    BK_TRY(sum_parameters<T>(launch, slices.of_weight, out.dweight, p.channels * p.width, 1, slices.count));
    return sum_parameters<T>(launch, slices.of_bias, out.dbias, p.channels, 1, slices.count);
}

template <class T>
Status conv_backward(const Launch& launch, const ConvProblem<T>& p, const ConvResults<T>& out) {
    if (p.channels == 0) return Status::kOk;
    return p.width <= kCommonWidth ? conv_backward_of_width<T, kCommonWidth>(launch, p, out)
                                   : conv_backward_of_width<T, kMaxWidth>(launch, p, out);
}

}  // namespace bk::ssm
