// SPDX-License-Identifier: Apache-2.0
// Causal depthwise convolution along time: pre[t] = bias + sum over k of weight[k] x[t - (width - 1 - k)], y = pre or
// silu(pre). In front of a sequence x is its initial state, the last width - 1 inputs before it, or 0.
#pragma once

#include <cstdint>

#include "core/collectives/team.h"
#include "core/math/math.h"
#include "core/types/vec.h"
#include "ssm/parameters.h"
#include "ssm/sequences.h"
#include "ssm/step.h"

namespace bk::ssm {

constexpr int kMaxWidth = 16, kCommonWidth = 4;

template <class T>
struct ConvProblem {
    using C = compute_t<T>;
    Sequences sequences;
    int64_t channels, width;
    bool use_silu;
    TokenView<const T> x;
    const T* weight;   // [channels, width]
    const T* bias;     // [channels], or null
    const T* initial;  // [sequences, channels, width - 1], or null

    BK_HD bool is_channel_first() const { return x.channel_stride == 1 && channels > 1; }
    // The input at a token of a sequence, or at one of the width - 1 tokens in front of it.
    BK_HD C input(int64_t row, int64_t sequence, int64_t begin, int64_t token, int64_t channel) const {
        if (token >= begin) return widen(x.at(row, token)[channel * x.channel_stride]);
        if (initial == nullptr) return C(0);
        return widen(initial[(sequence * channels + channel) * (width - 1) + (width - 1 + token - begin)]);
    }
    BK_HD C first(int64_t channel) const { return bias == nullptr ? C(0) : widen(bias[channel]); }
    BK_HD C result(C pre) const { return use_silu ? silu(pre) : pre; }
    BK_HD C sum_at(int64_t row, int64_t sequence, int64_t begin, int64_t token, int64_t channel) const {
        C sum = first(channel);
        for (int64_t k = 0; k < width; ++k)
            sum = math::fma(widen(weight[channel * width + k]), input(row, sequence, begin, token - (width - 1 - k), channel),
                            sum);
        return sum;
    }
};

// The gradient of pre along the tokens of one sequence and channel, token after token. Windows end with the newest token:
// of W elements the last `width` count.
template <class T, int W>
struct ConvGradient {
    using C = compute_t<T>;
    const ConvProblem<T>& p;
    const TokenView<const T>& dy;
    int64_t row, sequence, begin, end, channel;
    C x[W], weight[W], by_tap[W];  // weight ends with that of the newest token, by_tap begins with weight[0]

    BK_HD ConvGradient(const ConvProblem<T>& of, const TokenView<const T>& from, int64_t row_, int64_t sequence_,
                       int64_t channel_)
        : p(of),
          dy(from),
          row(row_),
          sequence(sequence_),
          begin(of.sequences.begin(sequence_)),
          end(of.sequences.end(sequence_)),
          channel(channel_) {
        BK_UNROLL
        for (int j = 0; j < W; ++j) {
            const int64_t k = j - (W - p.width);
            weight[j] = k >= 0 ? widen(p.weight[channel * p.width + k]) : C(0);
            by_tap[j] = j < p.width ? widen(p.weight[channel * p.width + j]) : C(0);
            x[j] = C(0);
        }
    }
    // Fills the window of inputs up to the token before `token`, which is of the sequence.
    BK_HD void start(int64_t token) {
        BK_UNROLL
        for (int j = 0; j < W; ++j) {
            const int64_t back = W - j;  // of the token
            x[j] = back < p.width ? p.input(row, sequence, begin, token - back, channel) : C(0);
        }
    }
    // The gradient at the next token; x then ends with its input.
    BK_HD C next(int64_t token) {
        BK_UNROLL
        for (int j = 0; j + 1 < W; ++j) x[j] = x[j + 1];
        x[W - 1] = widen(p.x.at(row, token)[channel * p.x.channel_stride]);
        const C g = widen(dy.at(row, token)[channel * dy.channel_stride]);
        if (!p.use_silu) return g;
        C pre = p.first(channel);
        BK_UNROLL
        for (int j = 0; j < W; ++j)
            if (j >= W - p.width) pre = math::fma(weight[j], x[j], pre);
        return g * silu_slope(pre);
    }
};

}  // namespace bk::ssm
