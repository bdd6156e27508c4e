// SPDX-License-Identifier: Apache-2.0
// Encoders of block formats: what they have in common, and the searches for scales.
//
// A sub-block is the values that share a scale and an offset, or those of a whole block. Encoder<Format> has
//
//   kSubBlock                            values of a sub-block
//   fit(sub_block)                       scale and offset of a sub-block, and the inverse scale if codes are made by it
//   head(block, fits, unit)              writes the bytes of the scales; values are in units of 1 / unit
//   codes(block, fits, p, sub_block, unit, out)  the codes of sub-block p, from 0
//   pack(block, codes, byte...)          writes the bytes of the codes, those of sub-block p
//   refit(block, sums, unit)             improves scales for given codes; if kRefits
//   poison(block)                        makes all values NaN
//
// Weights of the squared errors follow the importance matrix of llama.cpp: w = importance sqrt(s2 + x^2), s2 twice the mean
// square of the block's values (row for row the columns' mean squared activations are the importance); without one, by what
// each format's reference encoder has.
//
// Products are never contracted, so that both targets have the same bits.
#pragma once

#include <cstdint>

#include "core/codec/block_format.h"
#include "core/math/math.h"
#include "core/types/dtype.h"

namespace bk::codec {

template <class Format>
struct Encoder;

template <int N>
struct SubBlock {
    float x[N], w[N];
    bool is_weighted;  // by an importance matrix
};

struct Fit {
    float scale, offset, inverse, weight;
};

// Sums over a sub-block for given codes l: of w l^2, w l, w, w l x, w x.
struct SubBlockSums {
    float ll, l, one, lx, x;
};

BK_HD float mul(float a, float b) { return math::product(a, b); }
BK_HD float clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }
BK_HD float nearest(float x, float low, float high) { return clamp(rintf(x), low, high); }
BK_HD float reciprocal(float x) {
    const float inverse = 1.f / x;
    return x != 0.f && fabsf(inverse) <= 3.4028234e38f ? inverse : 0.f;
}

BK_HD void store_f16(uint8_t* to, float x) {
    const uint16_t bits = narrow<f16>(clamp(x, -65504.f, 65504.f)).bits;
    to[0] = static_cast<uint8_t>(bits), to[1] = static_cast<uint8_t>(bits >> 8);
}
BK_HD void store_nan(uint8_t* f16_at) { f16_at[0] = 0, f16_at[1] = 0x7e; }
template <int kBytes>
BK_HD void clear_block(uint8_t* block) {
    for (int i = 0; i < kBytes; ++i) block[i] = 0;
}

// The value of the largest magnitude, the first of equals.
template <int N>
BK_HD float extreme(const float (&x)[N]) {
    float found = 0.f;
    for (int i = 0; i < N; ++i) found = fabsf(x[i]) > fabsf(found) ? x[i] : found;
    return found;
}

// Weights that follow from the values without an importance matrix.
enum class Weights { kSquare, kMagnitude, kSpread };

// `twice_mean_square` is that of the block.
template <Weights kRule, int N>
BK_HD void weigh(SubBlock<N>* sub_block, const float* importance, float twice_mean_square) {
    sub_block->is_weighted = importance != nullptr;
    if (importance != nullptr) {
        for (int i = 0; i < N; ++i) {
            const float given = importance[i];
            sub_block->w[i] = mul(given > 0.f ? given : 0.f, sqrtf(twice_mean_square + mul(sub_block->x[i], sub_block->x[i])));
        }
        return;
    }
    float mean = 0.f;
    if constexpr (kRule == Weights::kSpread) {
        for (int i = 0; i < N; ++i) mean += mul(sub_block->x[i], sub_block->x[i]);
        mean = sqrtf(mean / N);
    }
    for (int i = 0; i < N; ++i) {
        const float x = sub_block->x[i];
        sub_block->w[i] = kRule == Weights::kSquare ? mul(x, x) : mean + fabsf(x);
    }
}

template <int N>
BK_HD float total_weight(const SubBlock<N>& sub_block) {
    float sum = 0.f;
    for (int i = 0; i < N; ++i) sum += sub_block.w[i];
    return sum;
}

// Codes of a symmetric format: integers from -n to n - 1, stored with n added.
template <int n>
struct Integers {
    static constexpr float kFirst = -n, kStep = 0.1f;
    static BK_HD int index(float x) { return static_cast<int>(nearest(x, -n, n - 1)) + n; }
    static BK_HD float level(int index) { return static_cast<float>(index - n); }
};

// The scale that minimises the weighted squared error of x = scale * level: candidates put the value of the largest
// magnitude near the level of the largest one, and each is then fitted by least squares to its codes.
template <class Levels, int N>
BK_HD Fit symmetric_fit(const SubBlock<N>& sub_block, int steps) {
    const float most = extreme(sub_block.x);
    Fit best{0.f, 0.f, 0.f, total_weight(sub_block)};
    if (most == 0.f) return best;
    best.scale = most / Levels::kFirst;
    float reduction = 0.f;
    for (int step = -steps; step <= steps; ++step) {
        const float inverse = (Levels::kFirst + mul(Levels::kStep, static_cast<float>(step))) / most;
        float lx = 0.f, ll = 0.f;
        BK_UNROLL
        for (int i = 0; i < N; ++i) {
            const float level = Levels::level(Levels::index(mul(inverse, sub_block.x[i]))),
                        weighted = mul(sub_block.w[i], level);
            lx += mul(weighted, sub_block.x[i]);
            ll += mul(weighted, level);
        }
        if (!(ll > 0.f)) continue;
        const float scale = lx / ll, here = mul(scale, lx);
        if (here > reduction) reduction = here, best.scale = scale;
    }
    return best;
}

// Scale and offset of x = scale * code + offset with codes 0 to n; a k-quant's offset is not positive.
template <bool kAnyOffset, int N>
BK_HD Fit affine_fit(const SubBlock<N>& sub_block, int n, int first, int last) {
    float low = sub_block.x[0], high = sub_block.x[0], sum_w = 0.f, sum_x = 0.f;
    for (int i = 0; i < N; ++i) {
        low = sub_block.x[i] < low ? sub_block.x[i] : low;
        high = sub_block.x[i] > high ? sub_block.x[i] : high;
        sum_w += sub_block.w[i];
        sum_x += mul(sub_block.w[i], sub_block.x[i]);
    }
    if (!kAnyOffset && low > 0.f) low = 0.f;
    Fit best{0.f, low, 0.f, sum_w};
    const float range = high - low;
    if (!(range > 0.f)) return best;
    best.scale = range / static_cast<float>(n);
    float least = -1.f;
    for (int step = first; step <= last; ++step) {
        const float inverse = (mul(0.1f, static_cast<float>(step)) + static_cast<float>(n)) / range;
        float l = 0.f, ll = 0.f, lx = 0.f;
        BK_UNROLL
        for (int i = 0; i < N; ++i) {
            const float code = nearest(mul(inverse, sub_block.x[i] - low), 0.f, static_cast<float>(n));
            const float weighted = mul(sub_block.w[i], code);
            l += weighted;
            ll += mul(weighted, code);
            lx += mul(weighted, sub_block.x[i]);
        }
        const float determinant = mul(sum_w, ll) - mul(l, l);
        if (!(determinant > 0.f)) continue;
        float scale = (mul(sum_w, lx) - mul(sum_x, l)) / determinant;
        float offset = (mul(ll, sum_x) - mul(l, lx)) / determinant;
        if (!kAnyOffset && offset > 0.f) offset = 0.f, scale = lx / ll;
        float error = 0.f;
        BK_UNROLL
        for (int i = 0; i < N; ++i) {
            const float code = nearest(mul(inverse, sub_block.x[i] - low), 0.f, static_cast<float>(n));
            const float off = mul(scale, code) + offset - sub_block.x[i];
            error += mul(mul(sub_block.w[i], off), off);
        }
        if (least < 0.f || error < least) least = error, best.scale = scale, best.offset = offset;
    }
    return best;
}

template <int N>
BK_HD SubBlockSums sums_of(const SubBlock<N>& sub_block, const float (&levels)[N]) {
    SubBlockSums sums{};
    for (int i = 0; i < N; ++i) {
        const float weighted = mul(sub_block.w[i], levels[i]);
        sums.ll += mul(weighted, levels[i]);
        sums.l += weighted;
        sums.one += sub_block.w[i];
        sums.lx += mul(weighted, sub_block.x[i]);
        sums.x += mul(sub_block.w[i], sub_block.x[i]);
    }
    return sums;
}

}  // namespace bk::codec
