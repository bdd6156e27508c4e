// SPDX-License-Identifier: Apache-2.0
// Forward causal convolution, and the states behind its sequences. A thread has adjacent elements of the contiguous axis:
// kConvRun tokens of N channels, or N tokens of a channel. Every layout sums in the same order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ssm/conv_problem.h"

namespace bk::ssm {

#if BK_CUDA
template <class T>
constexpr int kConvLanes = kVectorLanes<T>;
#else
template <class T>
constexpr int kConvLanes = 32;
#endif
constexpr int kConvRun = 8;

// N adjacent elements in the compute type. A GPU loads and stores them as one vector.
template <int N, class T>
BK_HD void read_lanes_of(compute_t<T> (&to)[N], const T* from) {
#if BK_CUDA
    const auto cell = load<N>(from);
    BK_UNROLL
    for (int n = 0; n < N; ++n) to[n] = widen_lane(cell, n);
#else
    for (int n = 0; n < N; ++n) to[n] = widen(from[n]);
#endif
}
template <int N, class T>
BK_HD void write_lanes_of(T* to, const compute_t<T> (&from)[N]) {
#if BK_CUDA
    Vec<T, N> cell;
    BK_UNROLL
    for (int n = 0; n < N; ++n) cell.lane[n] = narrow<T>(from[n]);
    store(to, cell);
#else
    for (int n = 0; n < N; ++n) to[n] = narrow<T>(from[n]);
#endif
}

// Tiles of tokens and channels of a row, and the runs of lanes in them.
struct ConvTiles {
    int64_t tokens, channels;          // of a row
    int64_t token_tile, channel_tile;  // of an item
    int64_t token_run, channel_run;    // of a thread
    bool is_channel_first;             // adjacent threads have adjacent channels

    BK_HD int64_t token_tiles() const { return (tokens + token_tile - 1) / token_tile; }
    BK_HD int64_t channel_tiles() const { return (channels + channel_tile - 1) / channel_tile; }
    BK_HD int64_t per_row() const { return token_tiles() * channel_tiles(); }

    // body(row, token, end, channel) for the runs of an item, of tokens up to `end`.
    template <class Body>
    BK_HD void each(int64_t rank, int64_t size, int64_t item, const Body& body) const {
        const int64_t row = item / per_row(), within = item % per_row();
        const int64_t t0 = within / channel_tiles() * token_tile, c0 = within % channel_tiles() * channel_tile;
        const int64_t t1 = t0 + token_tile < tokens ? t0 + token_tile : tokens;
        const int64_t c1 = c0 + channel_tile < channels ? c0 + channel_tile : channels;
        const int64_t runs = (t1 - t0 + token_run - 1) / token_run, columns = (c1 - c0 + channel_run - 1) / channel_run;
        const int64_t inner = is_channel_first ? columns : runs;
        int64_t first = rank / inner, second = rank % inner;  // of the outer and of the inner axis
        while (first * inner + second < runs * columns) {
            const int64_t token = t0 + (is_channel_first ? first : second) * token_run;
            body(row, token, token + token_run < t1 ? token + token_run : t1,
                 c0 + (is_channel_first ? second : first) * channel_run);
            for (second += size; second >= inner; second -= inner) ++first;
        }
    }
    static ConvTiles of(int64_t tokens, int64_t channels, int64_t token_run, int64_t channel_run, bool is_channel_first) {
        if (is_channel_first) return {tokens, channels, 4 * kConvRun, 2048, token_run, channel_run, true};
        const int64_t token_tile = std::min<int64_t>(2048, std::max<int64_t>(1, ceil_div(tokens, int64_t{64})) * 64);
        return {tokens, channels, token_tile, 16384 / token_tile, token_run, channel_run, false};
    }
};

enum class ConvLanes { kOne, kChannels, kTokens };

template <class T, ConvLanes kLanesOf, int W>
struct ConvForward {
    using C = compute_t<T>;
    static constexpr int N = kLanesOf == ConvLanes::kOne ? 1 : kConvLanes<T>;
    ConvProblem<T> p;
    TokenView<T> y;
    ConvTiles tiles;

    BK_HD void operator()(const Team& team, int64_t item) const {
        tiles.each(team.rank, team.size, item, [&](int64_t row, int64_t token, int64_t end, int64_t channel) BK_INLINED {
            const int64_t sequence = p.sequences.of(row, token), begin = p.sequences.begin(sequence);
            const bool is_inside = token - (p.width - 1) >= begin && end <= p.sequences.end(sequence);
            if constexpr (kLanesOf == ConvLanes::kChannels) {
                if (is_inside && end == token + kConvRun) return of_channels(row, token, channel);
                for (int n = 0; n < N; ++n) one_by_one(row, token, end, channel + n);
            } else if constexpr (kLanesOf == ConvLanes::kTokens) {
                if (BK_CUDA ? is_inside && end == token + N && has_window(token, begin)
                            : token >= begin && end <= p.sequences.end(sequence))
                    return of_tokens(row, sequence, begin, token, end, channel);
                one_by_one(row, token, end, channel);
            } else {
                one_by_one(row, token, end, channel);
            }
        });
    }

private:
    static constexpr int kBack = (W - 1 + N - 1) / N * N;  // lanes in front of those of a run: whole vectors, on a GPU
    BK_HD void finish(C (&sum)[N]) const {
        if (!p.use_silu) return;
        BK_UNROLL
        for (int n = 0; n < N; ++n) sum[n] = silu(sum[n]);
    }
    static BK_HD bool has_window(int64_t token, int64_t begin) { return token - kBack >= begin; }

    BK_HD void one_by_one(int64_t row, int64_t token, int64_t end, int64_t channel) const {
        for (int64_t t = token; t < end; ++t) {
            C value = C(0);
            if (p.sequences.offsets == nullptr || p.sequences.has(t)) {
                const int64_t sequence = p.sequences.of(row, t);
                value = p.result(p.sum_at(row, sequence, p.sequences.begin(sequence), t, channel));
            }
            y.at(row, t)[channel * y.channel_stride] = narrow<T>(value);
        }
    }
    BK_HD void of_channels(int64_t row, int64_t token, int64_t channel) const {
        C sum[kConvRun][N], x[N];
        BK_UNROLL
        for (int n = 0; n < N; ++n) {
            const C first = p.first(channel + n);
            BK_UNROLL
            for (int r = 0; r < kConvRun; ++r) sum[r][n] = first;
        }
        for (int64_t k = 0; k < p.width; ++k) {
            C weight[N];
            BK_UNROLL
            for (int n = 0; n < N; ++n) weight[n] = widen(p.weight[(channel + n) * p.width + k]);
            BK_UNROLL
            for (int r = 0; r < kConvRun; ++r) {
                read_lanes_of<N>(x, p.x.at(row, token + r - (p.width - 1 - k)) + channel);
                BK_UNROLL
                for (int n = 0; n < N; ++n) sum[r][n] = math::fma(weight[n], x[n], sum[r][n]);
            }
        }
        BK_UNROLL
        for (int r = 0; r < kConvRun; ++r) {
            finish(sum[r]);
            write_lanes_of<N>(y.at(row, token + r) + channel, sum[r]);
        }
    }
#if BK_CUDA
    BK_HD void of_tokens(int64_t row, int64_t, int64_t, int64_t token, int64_t, int64_t channel) const {
        C x[kBack + N], sum[N];
        const T* const from = p.x.at(row, token - kBack) + channel * p.x.channel_stride;
        BK_UNROLL
        for (int part = 0; part < kBack + N; part += N) {
            C lanes[N];
            read_lanes_of<N>(lanes, from + part);
            BK_UNROLL
            for (int n = 0; n < N; ++n) x[part + n] = lanes[n];
        }
        BK_UNROLL
        for (int n = 0; n < N; ++n) sum[n] = p.first(channel);
        BK_UNROLL
        for (int back = W - 1; back >= 0; --back) {
            if (back >= p.width) continue;
            const C weight = widen(p.weight[channel * p.width + (p.width - 1 - back)]);
            BK_UNROLL
            for (int n = 0; n < N; ++n) sum[n] = math::fma(weight, x[kBack + n - back], sum[n]);
        }
        finish(sum);
        write_lanes_of<N>(y.at(row, token) + channel * y.channel_stride, sum);
    }
#else
    // Up to N tokens of a sequence. Their window is in memory, or is copied.
    BK_HD void of_tokens(int64_t row, int64_t sequence, int64_t begin, int64_t token, int64_t end, int64_t channel) const {
        const int64_t count = end - token, history = p.width - 1;
        const T* const from = p.x.at(row, token) + channel * p.x.channel_stride;
        C copied[kMaxWidth - 1 + N], sum[N];
        const C* window = copied;
        const bool is_whole = token - history >= begin && count == N;
        if (std::is_same_v<T, C> && is_whole) {
            window = reinterpret_cast<const C*>(from) - history;
        } else {
            for (int64_t j = 0; j < history; ++j) copied[j] = p.input(row, sequence, begin, token - history + j, channel);
            if (is_whole)
                for (int n = 0; n < N; ++n) copied[history + n] = widen(from[n]);
            else
                for (int n = 0; n < N; ++n) copied[history + n] = n < count ? widen(from[n]) : C(0);
        }
        const C first = p.first(channel);
        for (int n = 0; n < N; ++n) sum[n] = first;
        for (int64_t k = 0; k < p.width; ++k) {
            const C weight = widen(p.weight[channel * p.width + k]);
            for (int n = 0; n < N; ++n) sum[n] = math::fma(weight, window[k + n], sum[n]);
        }
        finish(sum);
        T* const to = y.at(row, token) + channel * y.channel_stride;
        if (is_whole) return write_lanes_of<N>(to, sum);
        for (int64_t n = 0; n < count; ++n) to[n] = narrow<T>(sum[n]);
    }
#endif
};

// The last width - 1 inputs of each sequence. A thread has all of a channel, in order: the result may be the initial state.
template <class T>
struct ConvFinalState {
    ConvProblem<T> p;
    T* state;

    BK_HD void operator()(const Team& team, int64_t sequence) const {
        const int64_t row = p.sequences.row(sequence), begin = p.sequences.begin(sequence), end = p.sequences.end(sequence);
        for (int64_t c = team.rank; c < p.channels; c += team.size)
            for (int64_t k = 0; k < p.width - 1; ++k)
                state[(sequence * p.channels + c) * (p.width - 1) + k] =
                    narrow<T>(p.input(row, sequence, begin, end - (p.width - 1) + k, c));
    }
};

template <class T>
bool is_vectorised(const TokenView<T>& view, bool of_channels) {
    constexpr int64_t kLanes = kConvLanes<std::remove_const_t<T>>;
    const int64_t other = of_channels ? view.token_stride : view.channel_stride;
    if ((of_channels ? view.channel_stride : view.token_stride) != 1) return false;
    return !BK_CUDA || (is_aligned(view.data, kVectorBytes) && other % kLanes == 0 && view.row_stride % kLanes == 0);
}

template <class T>
Status conv_forward(const Launch& launch, const ConvProblem<T>& p, const TokenView<T>& y, T* final_state) {
    const int64_t rows = p.sequences.rows, tokens = p.sequences.length;
    constexpr int64_t kLanes = kConvLanes<T>, kSize = sizeof(T);
    const auto run = [&](const auto& job) {
        const int64_t items = rows * job.tiles.per_row(), bytes = std::min<int64_t>(tokens, job.tiles.token_tile) *
                                                                  std::min(p.channels, job.tiles.channel_tile) * kSize;
        return items == 0 ? Status::kOk : run_teams(launch, items, bytes / 8, job, false, 8 * p.width);
    };
    const bool is_channel_first = p.is_channel_first();
    if (is_channel_first && p.channels % kLanes == 0 && is_vectorised(p.x, true) && is_vectorised(y, true)) {
        const auto tiles = ConvTiles::of(tokens, p.channels, kConvRun, kLanes, true);
        BK_TRY(run(ConvForward<T, ConvLanes::kChannels, 1>{p, y, tiles}));
    } else if (!is_channel_first && is_vectorised(p.x, false) && is_vectorised(y, false)) {
        const auto tiles = ConvTiles::of(tokens, p.channels, kLanes, 1, false);
        if (p.width <= kCommonWidth)
            BK_TRY(run(ConvForward<T, ConvLanes::kTokens, kCommonWidth>{p, y, tiles}));
        else
            BK_TRY(run(ConvForward<T, ConvLanes::kTokens, kMaxWidth>{p, y, tiles}));
    } else {
        const auto tiles = ConvTiles::of(tokens, p.channels, 1, 1, is_channel_first);
        BK_TRY(run(ConvForward<T, ConvLanes::kOne, 1>{p, y, tiles}));
    }
    if (final_state == nullptr || p.width == 1 || p.sequences.count == 0) return Status::kOk;
    return run_teams(launch, p.sequences.count, p.channels * (p.width - 1) * kSize, ConvFinalState<T>{p, final_state});
}

}  // namespace bk::ssm
