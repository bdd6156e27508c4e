// SPDX-License-Identifier: Apache-2.0
// Tiles of 128 x 128 by tensor cores: operands of R in their own dtype, f32 and the projection's by 3xTF32. While the tokens of
// one buffer are multiplied, the next ones are on their way to registers.
#pragma once

#include <cstring>

#include "core/intrinsics/tensor_core.cuh"
#include "recurrent/cells/matrix_gradient.h"
#include "recurrent/tile_product_cuda.cuh"

namespace bk::recurrent {

template <class E>
struct GradientTile {
    static constexpr int kSide = 128, kThreads = 256, kTokens = 64 / sizeof(E), kPitch = kSide + 8;
    static constexpr int kChunk = 16 / sizeof(E), kChunks = kSide / kChunk, kRows = kThreads / kChunks;
    static constexpr int kLoads = kTokens / kRows;  // 16-byte chunks of each operand that a thread loads

    const MatrixGradient& g;
    int64_t direction, gate, j, i;
    bool copies_x, copies_y;  // whole chunks; else elements

    BK_DEVICE static bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }
    BK_DEVICE void choose_copies() {
        const CellProblem& p = g.p;
        const bool fits = !g.is_projection && p.hidden % kChunk == 0 && p.outputs % kChunk == 0;
        copies_x = fits && is_aligned(g.d.dgates) && is_aligned(p.saved);
        copies_y = fits && !g.scales_right(gate) && is_aligned(p.y) && is_aligned(p.h0);
    }

    // Chunks of a token.
    BK_DEVICE uint4 load_x(int64_t t, int64_t n, int column) const {
        const int64_t token = g.p.at_token(t, n, direction), first = j + column;
        if (first >= g.rows()) return zeros();
        const uint4 x = copy(g.d.dgates, token * g.p.gate_rows() + gate * g.p.hidden + first);
        return g.scales_left(gate) ? scaled(x, g.p.saved + token * saved_of(g.p.cell) * g.p.hidden + first) : x;
    }
    BK_DEVICE uint4 load_y(int64_t t, int64_t n, int column) const {
        const CellProblem::Row row = g.p.previous_row(t, n, direction);
        const int64_t first = i + column;
        return first < g.columns() && row.data != nullptr && t < g.p.length(n) ? copy(row.data, row.at + first) : zeros();
    }
    // Elements of a token to shared memory, zeros if it is not there.
    BK_DEVICE void gather_x(int64_t t, int64_t n, int column, bool is_in, E* to) const {
        gather_row<true>(g, t, n, direction, gate, j + column, is_in ? g.rows() : 0, to);
    }
    BK_DEVICE void gather_y(int64_t t, int64_t n, int column, bool is_in, E* to) const {
        gather_row<false>(g, t, n, direction, gate, i + column, is_in ? g.columns() : 0, to);
    }
    BK_DEVICE static uint4 zeros() { return {0, 0, 0, 0}; }

private:
    BK_DEVICE static uint4 copy(const void* data, int64_t from) {
        return *reinterpret_cast<const uint4*>(static_cast<const E*>(data) + from);
    }
    BK_DEVICE static uint4 scaled(const uint4& x, const float* factors) {
        E chunk[kChunk];
        memcpy(chunk, &x, sizeof(chunk));
        BK_UNROLL
        for (int e = 0; e < kChunk; e += 4) {
            float by[4];
            memcpy(by, reinterpret_cast<const uint4*>(factors + e), sizeof(by));
            BK_UNROLL
            for (int k = 0; k < 4; ++k) chunk[e + k] = narrow<E>(widen(chunk[e + k]) * by[k]);
        }
        uint4 words;
        memcpy(&words, chunk, sizeof(words));
        return words;
    }
    // Four at a time, so that their loads overlap.
    template <bool kIsX>
    BK_DEVICE_COLD static void gather_row(const MatrixGradient& g, int64_t t, int64_t n, int64_t direction, int64_t gate,
                                          int64_t first, int64_t width, E* to) {
#pragma unroll 1
        for (int e = 0; e < kChunk; e += 4) {
            float x[4];
            BK_UNROLL
            for (int k = 0; k < 4; ++k) {
                const int64_t at = first + e + k;
                x[k] = 0.0f;
                if (at < width) x[k] = (kIsX ? g.left(t, n, direction, gate, at) : g.right(t, n, direction, gate, at)).at[0];
            }
            BK_UNROLL
            for (int k = 0; k < 4; ++k) to[e + k] = narrow<E>(x[k]);
        }
    }
};

// A warp's 32 x 64 of a tile: sums += x^T y of a buffer's tokens.
template <class E>
struct GradientSums {
    using Tile = GradientTile<E>;
    float sum[2][8][4];

    BK_DEVICE void add(const E* x, const E* y, int lane) {
        if constexpr (std::is_same_v<E, float>) {
            const int g = lane / 4, t = lane % 4;
            for (int k = 0; k < Tile::kTokens; k += 8) {
                uint32_t high[2][4], low[2][4];
                BK_UNROLL
                for (int v = 0; v < 8; ++v) {
                    const int m = v / 4, word = v % 4;
                    split(x[(k + t + word / 2 * 4) * Tile::kPitch + 16 * m + g + word % 2 * 8], &high[m][word], &low[m][word]);
                }
                BK_UNROLL
                for (int n = 0; n < 8; ++n) {
                    uint32_t of_y[2], rest[2];
                    BK_UNROLL
                    for (int v = 0; v < 2; ++v) split(y[(k + t + 4 * v) * Tile::kPitch + 8 * n + g], &of_y[v], &rest[v]);
                    BK_UNROLL
                    for (int m = 0; m < 2; ++m) {
                        Mma<float>::run(sum[m][n], low[m], of_y);
                        Mma<float>::run(sum[m][n], high[m], rest);
                        Mma<float>::run(sum[m][n], high[m], of_y);
                    }
                }
            }
        } else {
            const int row = lane % 8, matrix = lane / 8;
            BK_UNROLL
            for (int k = 0; k < Tile::kTokens; k += 16) {
                uint32_t of_x[2][4];
                BK_UNROLL
                for (int m = 0; m < 2; ++m)
                    ldmatrix_x4_trans(of_x[m], x + (k + row + matrix / 2 * 8) * Tile::kPitch + 16 * m + matrix % 2 * 8);
                BK_UNROLL
                for (int pair = 0; pair < 4; ++pair) {
                    uint32_t of_y[4];
                    ldmatrix_x4_trans(of_y, y + (k + row + matrix % 2 * 8) * Tile::kPitch + 16 * pair + matrix / 2 * 8);
                    const uint32_t first[2] = {of_y[0], of_y[1]}, second[2] = {of_y[2], of_y[3]};
                    BK_UNROLL
                    for (int m = 0; m < 2; ++m) {
                        Mma<E>::run(sum[m][2 * pair], of_x[m], first);
                        Mma<E>::run(sum[m][2 * pair + 1], of_x[m], second);
                    }
                }
            }
        }
    }

private:
    BK_DEVICE static void split(float x, uint32_t* high, uint32_t* low) {
        const SplitWord word = SplitWord::of(x);
        *high = word.high;
        *low = word.low;
    }
};

template <class E>
__global__ void __launch_bounds__(GradientTile<E>::kThreads) matrix_gradient_kernel(const __grid_constant__ MatrixGradient g) {
    using Tile = GradientTile<E>;
    constexpr int kBuffer = Tile::kTokens * Tile::kPitch;
    alignas(16) __shared__ E buffers[2][2][kBuffer];
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int64_t across = (g.columns() + Tile::kSide - 1) / Tile::kSide, down = (g.rows() + Tile::kSide - 1) / Tile::kSide;
    const int64_t block = int64_t{blockIdx.x} / across / down;
    Tile tile{g,
              block / g.blocks(),
              block % g.blocks(),
              int64_t{blockIdx.x} / across % down * Tile::kSide,
              int64_t{blockIdx.x} % across * Tile::kSide,
              false,
              false};
    tile.choose_copies();

    // The token of this thread's next chunks; the ones behind it are kRows further each.
    const int64_t tokens = g.p.seqlen * g.p.batch, batch = g.p.batch > 0 ? g.p.batch : 1;
    const int column = thread % Tile::kChunks * Tile::kChunk, first_row = thread / Tile::kChunks;
    const int64_t more_t = Tile::kRows / batch, more_n = Tile::kRows % batch;
    int64_t t = first_row / batch, n = first_row % batch;
    uint4 x[Tile::kLoads], y[Tile::kLoads];
    // Loads chunks to registers; elements go to the buffer at once.
    const auto load = [&](E* of_x, E* of_y) {
        BK_UNROLL
        for (int l = 0; l < Tile::kLoads; ++l) {
            const bool is_in = t < g.p.seqlen;
            const int to = (first_row + l * Tile::kRows) * Tile::kPitch + column;
            x[l] = y[l] = Tile::zeros();
            if (is_in && tile.copies_x) x[l] = tile.load_x(t, n, column);
            if (is_in && tile.copies_y) y[l] = tile.load_y(t, n, column);
            if (!tile.copies_x) tile.gather_x(t, n, column, is_in, of_x + to);
            if (!tile.copies_y) tile.gather_y(t, n, column, is_in, of_y + to);
            t += more_t;
            n += more_n;
            if (n < batch) continue;
            n -= batch;
            ++t;
        }
    };
    GradientSums<E> sums;
    BK_UNROLL
    for (int k = 0; k < 64; ++k) sums.sum[k / 32][k / 4 % 8][k % 4] = 0.0f;
    float bias = 0.0f;
    const bool has_bias = g.bias() != nullptr && tile.i == 0 && thread < Tile::kSide;
    int buffer = 0;
    if (tokens > 0) load(buffers[0][0], buffers[0][1]);
    for (int64_t first = 0; first < tokens; first += Tile::kTokens, buffer ^= 1) {
        E *const of_x = buffers[buffer][0], *const of_y = buffers[buffer][1];
        BK_UNROLL
        for (int l = 0; l < Tile::kLoads; ++l) {
            const int to = (first_row + l * Tile::kRows) * Tile::kPitch + column;
            if (tile.copies_x) *reinterpret_cast<uint4*>(of_x + to) = x[l];
            if (tile.copies_y) *reinterpret_cast<uint4*>(of_y + to) = y[l];
        }
        __syncthreads();
        if (first + Tile::kTokens < tokens) load(buffers[buffer ^ 1][0], buffers[buffer ^ 1][1]);
        sums.add(of_x + warp / 2 * 32, of_y + warp % 2 * 64, lane);
#pragma unroll 4
        for (int row = 0; row < Tile::kTokens && has_bias; ++row) bias += widen(of_x[row * Tile::kPitch + thread]);
    }
    // Half of the tile at a time through shared memory, so that warps store whole rows.
    float* const stage = reinterpret_cast<float*>(buffers);
    static_assert(sizeof(buffers) >= Tile::kSide / 2 * Tile::kPitch * sizeof(float), "half of the tile");
    BK_UNROLL
    for (int m = 0; m < 2; ++m) {
        __syncthreads();
        BK_UNROLL
        for (int k = 0; k < 32; ++k) {
            const int row = warp / 2 * 16 + lane / 4 + k % 4 / 2 * 8, of_n = k / 4;
            stage[row * Tile::kPitch + warp % 2 * 64 + 8 * of_n + lane % 4 * 2 + k % 2] = sums.sum[m][of_n][k % 4];
        }
        __syncthreads();
        for (int at = thread; at < Tile::kSide / 2 * Tile::kSide; at += Tile::kThreads) {
            const int row = at / Tile::kSide, across_tile = at % Tile::kSide;
            g.store(block, tile.j + row / 16 * 32 + m * 16 + row % 16, tile.i + across_tile,
                    stage[row * Tile::kPitch + across_tile]);
        }
    }
    if (has_bias) g.store_bias(block, tile.j + thread, bias);
}

inline int64_t matrix_gradient_floats(const MatrixGradient&) { return 0; }

inline Status run_matrix_gradient(const Launch& launch, const MatrixGradient& gradient, float*) {
    constexpr int kSide = GradientTile<float>::kSide;
    const int64_t tiles = ceil_div<int64_t>(gradient.rows(), kSide) * ceil_div<int64_t>(gradient.columns(), kSide);
    const int64_t items = gradient.p.directions * gradient.blocks() * tiles;
    if (items > kMaxGridX)
        return fail(Status::kUnsupported, "%lld blocks are too many for one launch", static_cast<long long>(items));
    const Grid grid{dim3(static_cast<unsigned>(items)), dim3(GradientTile<float>::kThreads)};
    if (gradient.is_projection || gradient.p.type == RowType::kF32)
        return launch_kernel(launch, grid, matrix_gradient_kernel<float>, gradient);
    if (gradient.p.type == RowType::kF16) return launch_kernel(launch, grid, matrix_gradient_kernel<f16>, gradient);
    return launch_kernel(launch, grid, matrix_gradient_kernel<bf16>, gradient);
}

}  // namespace bk::recurrent
