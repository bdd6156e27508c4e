// SPDX-License-Identifier: Apache-2.0
// Forward scan of Mamba-2 by products of chunks (state space duality, Dao and Gu, arXiv 2405.21060) on tensor cores. With l_t
// the sum of step * rate over the tokens of a chunk up to t, and h the state in front of it,
//
//   y_t = exp(l_t) h c_t + sum over s <= t of exp(l_t - l_s) step_s (c_t . b_s) x_s
//   h  := exp(l_end) h + sum over s of exp(l_end - l_s) step_s x_s b_s^T
//
// A block has a sequence, a head and kHeadTile of its channels, and goes from chunk to chunk: one launch does it all. A warp
// keeps the states of 16 channels in f32 accumulators, which are B operands of the first product as they are: fragments of
// states are read in pairs (2t, 2t + 1) along k, on both sides. Exponents are sums of a chunk alone, in two floats: their
// differences, which are never above those of the scan, are as accurate as the steps.
//
// Operands are TF32: elements of 16 bits are exact, decayed scores and states are rounded where y is computed, and what
// states gain is two products, so that they are f32; f32 takes three products (3xTF32).
// A number of x that is not finite would reach earlier tokens of its chunk by products with 0: it is replaced by 0, and its
// channel is NaN from there on.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/intrinsics/tensor_core.cuh"
#include "core/types/vec.h"
#include "ssm/scan_tile.cuh"

namespace bk::ssm {

constexpr int kChunk = 32;     // tokens
constexpr int kHeadTile = 64;  // channels of a block, 16 a warp
constexpr int kSsdThreads = kHeadTile / 16 * 32;
constexpr int kScorePitch = kChunk + 4;     // rows 4 banks apart: fragments along k without conflicts
constexpr int kInputPitch = kHeadTile + 8;  // rows 8 banks apart: fragments along rows without conflicts
BK_HD constexpr int ssd_pitch(int states) { return (states + 31) / 32 * 32 + 8; }

// d += a b. Exact operands have at most 11 significant bits; kKeepsA keeps what rounding takes from a.
template <bool kIsWide, bool kExactA, bool kExactB, bool kKeepsA = kIsWide>
BK_DEVICE void add_product(float (&d)[4], const float (&a)[4], const float (&b)[2]) {
    uint32_t high_a[4], high_b[2];
#pragma unroll
    for (int i = 0; i < 4; ++i) high_a[i] = kExactA ? bit_cast<uint32_t>(a[i]) : round_to_tf32(bit_cast<uint32_t>(a[i]));
#pragma unroll
    for (int i = 0; i < 2; ++i) high_b[i] = kExactB ? bit_cast<uint32_t>(b[i]) : round_to_tf32(bit_cast<uint32_t>(b[i]));
    if constexpr (kKeepsA) {
        uint32_t low_a[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) low_a[i] = round_to_tf32(bit_cast<uint32_t>(a[i] - bit_cast<float>(high_a[i])));
        Mma<float>::run(d, low_a, high_b);
    }
    if constexpr (kIsWide) {
        uint32_t low_b[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) low_b[i] = round_to_tf32(bit_cast<uint32_t>(b[i] - bit_cast<float>(high_b[i])));
        Mma<float>::run(d, high_a, low_b);
    }
    Mma<float>::run(d, high_a, high_b);
}

// Copies rows of tokens to shared memory; columns up to `padded` and tokens behind the end are 0.
template <class T>
BK_DEVICE void stage_rows(float* to, int pitch, const T* from, int64_t token_stride, int columns, int padded, int tokens,
                          bool by_vectors) {
    const int lanes = by_vectors ? 4 : 1, width = padded / lanes;
    for (int i = static_cast<int>(threadIdx.x); i < kChunk * width; i += kSsdThreads) {
        const int t = i / width, c = i % width * lanes;
        const T* const at = from + t * token_stride + c;
        if (by_vectors) {
            Vec<float, 4> value{};
            if (t < tokens && c < columns) {
                const auto cell = load<4>(at);
#pragma unroll
                for (int n = 0; n < 4; ++n) value.lane[n] = widen_lane(cell, n);
            }
            store(to + t * pitch + c, value);
        } else {
            to[t * pitch + c] = t < tokens && c < columns ? widen(*at) : 0.0f;
        }
    }
}

// Whether rows of a view begin at vectors of 4 elements.
struct SsdVectors {
    bool u, b, c;
};

// States of up to 8 kTiles.
template <class T, int kTiles>
__global__ void __launch_bounds__(kSsdThreads) ssd_forward_kernel(const ScanProblem<T> p, const TokenView<T> y,
                                                                  const ParameterOut<T> last_state, const SsdVectors vectors) {
    constexpr bool kIsWide = std::is_same_v<T, float>, kExact = !kIsWide;
    BK_LAUNCH_SHARED(uint4, ssd_memory);
    __shared__ float score[kChunk][kScorePitch];
    __shared__ float step_of[kChunk], high[kChunk], low[kChunk], kept[kChunk];  // kept: exp(l_end - l_s) step_s
    __shared__ int first_bad[kHeadTile];
    const int states = static_cast<int>(p.states), tiles = (states + 7) / 8, pitch = ssd_pitch(states);
    float* const input = reinterpret_cast<float*>(ssd_memory);
    float* const b_rows = input + kChunk * kInputPitch;
    float* const c_rows = b_rows + kChunk * pitch;
    const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
    const int parts = static_cast<int>((p.per_head + kHeadTile - 1) / kHeadTile);
    const int64_t part = blockIdx.x % parts, head = blockIdx.x / parts % p.heads, sequence = blockIdx.x / parts / p.heads;
    const int64_t row = p.sequences.row(sequence), begin = p.sequences.begin(sequence), end = p.sequences.end(sequence);
    const int64_t first_channel = head * p.per_head + part * kHeadTile, group = head / (p.heads / p.groups);
    const int channels =
        static_cast<int>(p.per_head - part * kHeadTile < kHeadTile ? p.per_head - part * kHeadTile : kHeadTile);
    const bool has_channels = 16 * warp < channels;
    const float rate = p.a[head], bias = p.delta_bias.is_given() ? p.delta_bias[head] : 0.0f;
    const float skip = p.d_skip.is_given() ? p.d_skip[head] : 0.0f;

    // Accumulator i of tile j: channel 16 warp + g, + 8 from i = 2 on; state 8 j + 2 t + i % 2.
    float h[kTiles][4];
    const auto state_at = [&](int j, int i) {
        return (sequence * p.channels + first_channel + 16 * warp + g + i / 2 * 8) * states + 8 * j + 2 * t + i % 2;
    };
    const auto has_state = [&](int j, int i) { return 16 * warp + g + i / 2 * 8 < channels && 8 * j + 2 * t + i % 2 < states; };
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            h[j][i] = p.initial_state.is_given() && has_state(j, i) ? p.initial_state[state_at(j, i)] : 0.0f;

    for (int64_t first = begin; first < end; first += kChunk) {
        const int tokens = static_cast<int>(end - first < kChunk ? end - first : kChunk);
        __syncthreads();
        stage_rows(input, kInputPitch, p.u.at(row, first) + first_channel, p.u.token_stride, channels, kHeadTile, tokens,
                   vectors.u);
        stage_rows(b_rows, pitch, p.b.at(row, first, group), p.b.token_stride, states, 8 * tiles, tokens, vectors.b);
        stage_rows(c_rows, pitch, p.c.at(row, first, group), p.c.token_stride, states, 8 * tiles, tokens, vectors.c);
        if (warp == 0) {  // exponents: a lane has a token
            const float raw = lane < tokens ? widen(p.delta.at(row, first + lane)[head * p.delta.channel_stride]) : 0.0f;
            const float step = lane < tokens ? p.rule(raw + bias) : 0.0f;
            double sum = static_cast<double>(step) * rate;
#pragma unroll
            for (int distance = 1; distance < 32; distance *= 2) {
                const double other = __shfl_up_sync(0xffffffffu, sum, distance);
                if (lane >= distance) sum += other;
            }
            const double whole = __shfl_sync(0xffffffffu, sum, 31);
            step_of[lane] = step;
            high[lane] = static_cast<float>(sum);
            low[lane] = static_cast<float>(sum - high[lane]);
            kept[lane] = step * math::exp<float>(static_cast<float>(whole - sum));
        }
        __syncthreads();
        if (thread < kHeadTile) {  // the first token of a channel that is not finite
            int bad = kChunk;
            for (int s = kChunk - 1; s >= 0; --s) {
                float& x = input[s * kInputPitch + thread];
                if (!(math::fabs<float>(x) <= 3.4028234e38f)) {
                    bad = s;
                    x = 0;
                }
            }
            first_bad[thread] = bad;
        }
        // Scores of 16 queries and 16 keys a warp, decayed.
        const int query = warp / 2 * 16, key = warp % 2 * 16;
        float dots[2][4] = {};
        if (key <= query) {
            for (int j = 0; j < tiles; ++j) {
                const auto c0 = load<2>(c_rows + (query + g) * pitch + 8 * j + 2 * t);
                const auto c1 = load<2>(c_rows + (query + g + 8) * pitch + 8 * j + 2 * t);
                const float a[4] = {c0.lane[0], c1.lane[0], c0.lane[1], c1.lane[1]};
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    const auto k = load<2>(b_rows + (key + 8 * n + g) * pitch + 8 * j + 2 * t);
                    const float b[2] = {k.lane[0], k.lane[1]};
                    add_product<kIsWide, kExact, kExact>(dots[n], a, b);
                }
            }
        }
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int q = query + g + i / 2 * 8, s = key + 8 * n + 2 * t + i % 2;
                float value = 0;
                if (s <= q) value = dots[n][i] * (step_of[s] * math::exp<float>((high[q] - high[s]) + (low[q] - low[s])));
                score[q][s] = value;
            }
        __syncthreads();
        if (has_channels) {
            float sum[2][2][4] = {};  // of 16 queries, 8 channels
#pragma unroll
            for (int j = 0; j < kTiles; ++j) {
                if (j >= tiles) continue;
#pragma unroll
                for (int m = 0; m < 2; ++m) {
                    const auto c0 = load<2>(c_rows + (16 * m + g) * pitch + 8 * j + 2 * t);
                    const auto c1 = load<2>(c_rows + (16 * m + g + 8) * pitch + 8 * j + 2 * t);
                    const float a[4] = {c0.lane[0], c1.lane[0], c0.lane[1], c1.lane[1]};
                    const float lower[2] = {h[j][0], h[j][1]}, upper[2] = {h[j][2], h[j][3]};
                    add_product<kIsWide, kExact, false>(sum[m][0], a, lower);
                    add_product<kIsWide, kExact, false>(sum[m][1], a, upper);
                }
            }
#pragma unroll
            for (int m = 0; m < 2; ++m) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int q = 16 * m + g + i / 2 * 8;
                    const float grown = math::exp<float>(high[q] + low[q]);
                    sum[m][0][i] *= grown;
                    sum[m][1][i] *= grown;
                }
#pragma unroll
                for (int k = 0; k < 2 * (m + 1); ++k) {
                    const float* const from = &score[16 * m + g][8 * k + t];
                    const float a[4] = {from[0], from[8 * kScorePitch], from[4], from[8 * kScorePitch + 4]};
#pragma unroll
                    for (int n = 0; n < 2; ++n) {
                        const float* const x = input + (8 * k + t) * kInputPitch + 16 * warp + 8 * n + g;
                        const float b[2] = {x[0], x[4 * kInputPitch]};
                        add_product<kIsWide, false, kExact>(sum[m][n], a, b);
                    }
                }
            }
            // States of the next chunk.
            const float grown = math::exp<float>(high[kChunk - 1] + low[kChunk - 1]);
#pragma unroll
            for (int j = 0; j < kTiles; ++j)
#pragma unroll
                for (int i = 0; i < 4; ++i) h[j][i] *= grown;
#pragma unroll 1
            for (int k = 0; k < kChunk / 8; ++k) {
                const float* const x = input + (8 * k + t) * kInputPitch + 16 * warp + g;
                const float w0 = kept[8 * k + t], w1 = kept[8 * k + t + 4];
                const float a[4] = {w0 * x[0], w0 * x[8], w1 * x[4 * kInputPitch], w1 * x[4 * kInputPitch + 8]};
#pragma unroll
                for (int j = 0; j < kTiles; ++j) {
                    if (j >= tiles) continue;
                    const float* const from = b_rows + (8 * k + t) * pitch + 8 * j + g;
                    const float b[2] = {from[0], from[4 * pitch]};
                    add_product<kIsWide, false, kExact, true>(h[j], a, b);
                }
            }
            const int bad0 = first_bad[16 * warp + g], bad1 = first_bad[16 * warp + g + 8];
            const float nan = bit_cast<float>(0x7fc00000u);
            if (bad0 < kChunk || bad1 < kChunk) {
#pragma unroll
                for (int j = 0; j < kTiles; ++j)
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        if ((i < 2 ? bad0 : bad1) < kChunk) h[j][i] = nan;
            }
            // Results in place of x: no other warp reads these channels.
            __syncwarp();
#pragma unroll
            for (int m = 0; m < 2; ++m)
#pragma unroll
                for (int n = 0; n < 2; ++n)
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int q = 16 * m + g + i / 2 * 8, c = 16 * warp + 8 * n + 2 * t + i % 2;
                        input[q * kInputPitch + c] = q >= first_bad[c] ? nan : sum[m][n][i];
                    }
        }
        __syncthreads();
        for (int i = thread; i < tokens * channels; i += kSsdThreads) {
            const int q = i / channels, c = i % channels;
            float value = input[q * kInputPitch + c];
            if (p.d_skip.is_given()) value += skip * widen(p.u.at(row, first + q)[first_channel + c]);
            if (p.z.data != nullptr) value *= silu(widen(p.z.at(row, first + q)[first_channel + c]));
            y.at(row, first + q)[first_channel + c] = narrow<T>(value);
        }
    }
    if (!last_state.is_given()) return;
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (has_state(j, i)) last_state.put(state_at(j, i), h[j][i]);
}

template <class T>
Status ssd_forward_by_chunks(const Launch& launch, const ScanProblem<T>& p, const TokenView<T>& y,
                             const ParameterOut<T>& last_state) {
    const int64_t blocks = p.sequences.count * p.heads * ceil_div<int64_t>(p.per_head, kHeadTile);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld tiles of heads are too many for one launch", (long long)blocks);
    const auto fits = [](const void* data, int64_t row_stride, int64_t token_stride, int64_t columns) {
        return is_aligned(data, 4 * sizeof(T)) && row_stride % 4 == 0 && token_stride % 4 == 0 && columns % 4 == 0;
    };
    const SsdVectors vectors{fits(p.u.data, p.u.row_stride, p.u.token_stride, p.per_head),
                             fits(p.b.data, p.b.row_stride, p.b.token_stride, p.states),
                             fits(p.c.data, p.c.row_stride, p.c.token_stride, p.states)};
    const int pitch = ssd_pitch(static_cast<int>(p.states));
    const unsigned shared = static_cast<unsigned>(kChunk * (kInputPitch + 2 * pitch) * sizeof(float));
    const Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kSsdThreads), 1, shared};
    return p.states <= 128 ? launch_kernel(launch, grid, ssd_forward_kernel<T, 16>, p, y, last_state, vectors)
                           : launch_kernel(launch, grid, ssd_forward_kernel<T, 32>, p, y, last_state, vectors);
}

}  // namespace bk::ssm
