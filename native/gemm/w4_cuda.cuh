// Weights of four bits on the GPU. Columns of the weights are the rows of the tensor cores' steps, rows of the activations
// their columns, as in gemm/matmul_thin_tensor.cuh; weights become f16 in registers, and reading them bounds products of few
// rows. The warps of a block share its columns, and each takes every eighth piece of k.
#pragma once

#include <cstdint>

#include "core/matmul/tensor_core.cuh"
#include "core/types/vec.h"
#include "gemm/matmul_thin_tensor.cuh"
#include "gemm/w4.h"

namespace bk {

constexpr int kW4Warps = 8, kW4Piece = 128;  // terms along k

// Words [0, 4) from an address of 16 bytes, or of 4, or zeros.
template <int N>
BK_DEVICE void load_pieces(uint32_t (&words)[N], const void* from, bool moves, bool inside) {
    const uint32_t* const at = static_cast<const uint32_t*>(from);
    if (!inside) {
        for (int w = 0; w < N; ++w) words[w] = 0;
    } else if (moves) {
        const auto vector = load<N>(at);
        for (int w = 0; w < N; ++w) words[w] = vector.lane[w];
    } else {
        const f16* const halves = static_cast<const f16*>(from);
        for (int w = 0; w < N; ++w) words[w] = halves[2 * w].bits | static_cast<uint32_t>(halves[2 * w + 1].bits) << 16;
    }
}

// Elements i and i + 4 of a word, as 1024 more than they are, in f16.
BK_DEVICE uint32_t raised_pair(uint32_t word, int i) { return (word >> 4 * i & 0x000f000fu) | 0x64006400u; }

BK_DEVICE uint32_t both_halves(uint32_t bits) { return bits | bits << 16; }

// Adds up what the warps of a block have, of kRows x kColumns results in `sums`, warp after warp, and stores it; lane (g, t)
// has of block r of eight rows and column block q the rows 2t, 2t + 1 of columns g, g + 8.
template <int kRowBlocks, int kColumnBlocks>
BK_DEVICE void store_w4(const float (&sum)[kColumnBlocks][kRowBlocks][4], f16* d, int64_t m, int64_t n, int64_t row,
                        int64_t column) {
    constexpr int kRows = 8 * kRowBlocks, kColumns = 16 * kColumnBlocks;
    __shared__ float total[kRows][kColumns + 1];
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
    for (int w = 0; w < kW4Warps; ++w) {
        if (w == warp) {
#pragma unroll
            for (int q = 0; q < kColumnBlocks; ++q)
#pragma unroll
                for (int r = 0; r < kRowBlocks; ++r)
                    for (int v = 0; v < 4; ++v) {
                        float& cell = total[8 * r + 2 * t + v % 2][16 * q + g + v / 2 * 8];
                        cell = w == 0 ? sum[q][r][v] : cell + sum[q][r][v];
                    }
        }
        __syncthreads();
    }
    for (int index = static_cast<int>(threadIdx.x); index < kRows * kColumns; index += 32 * kW4Warps) {
        const int64_t i = row + index / kColumns, j = column + index % kColumns;
        if (i < m && j < n) d[i * n + j] = narrow<f16>(total[index / kColumns][index % kColumns]);
    }
}

// 64 columns and 8 kRowBlocks rows. Terms are of q - 8, exactly; a group's sum is scaled in f32.
template <int kRowBlocks>
__global__ void __launch_bounds__(32 * kW4Warps)
    marlin_kernel(const __grid_constant__ MarlinProduct p, bool a_moves, bool b_moves) {
    constexpr int kTiles = 4, kStrips = kW4Piece / 16;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
    const int64_t column = static_cast<int64_t>(blockIdx.x) * 64, row = static_cast<int64_t>(blockIdx.y) * (8 * kRowBlocks);
    const int64_t pitch = 2 * p.n;
    const int32_t* const weights = p.weights + column * 2 + lane * 4;
    float total[kTiles][kRowBlocks][4] = {};
    for (int64_t k = warp * kW4Piece; k < p.k; k += kW4Warps * kW4Piece) {
        uint32_t words[kStrips][4];
#pragma unroll
        for (int s = 0; s < kStrips; ++s) load_pieces(words[s], weights + (k / 16 + s) * pitch, b_moves, k + 16 * s < p.k);
        float sum[kTiles][kRowBlocks][4] = {};
#pragma unroll
        for (int s = 0; s < kStrips; ++s) {
            uint32_t rows[kRowBlocks][2];
#pragma unroll
            for (int r = 0; r < kRowBlocks; ++r) {
                const int64_t i = row + 8 * r + g;
                const bool inside = i < p.m && k + 16 * s < p.k;
                const f16* const from = p.a + i * p.k + k + 16 * s + 2 * t;
                uint32_t low[1], high[1];
                load_pieces(low, from, a_moves, inside);
                load_pieces(high, from + 8, a_moves, inside);
                rows[r][0] = low[0];
                rows[r][1] = high[0];
            }
#pragma unroll
            for (int q = 0; q < kTiles; ++q) {
                uint32_t columns[4];  // elements 0, 1 of columns g and g + 8, then elements 2, 3 of both
#pragma unroll
                for (int v = 0; v < 4; ++v) {
                    const uint32_t pair = raised_pair(words[s][q], v % 2 * 2 + v / 2);
                    columns[v] = minus_halves(pair, 0x64086408u);
                }
#pragma unroll
                for (int r = 0; r < kRowBlocks; ++r) TensorStep<f16>::run(sum[q][r], columns, rows[r]);
            }
        }
        const f16* const scales = p.scales + (p.by_groups ? k / p.group * p.n : 0);
#pragma unroll
        for (int q = 0; q < kTiles; ++q)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float scale = widen(scales[marlin_scale_place(column + 16 * q + 8 * half + g, p.by_groups)]);
#pragma unroll
                for (int r = 0; r < kRowBlocks; ++r)
                    for (int v = 2 * half; v < 2 * half + 2; ++v)
                        total[q][r][v] = math::fma(scale, sum[q][r][v], total[q][r][v]);
            }
    }
    store_w4<kRowBlocks, kTiles>(total, p.d, p.m, p.n, row, column);
}

// 32 columns and 8 kRowBlocks rows. Lane t takes of 128 terms those from 32t on.
template <int kRowBlocks>
__global__ void __launch_bounds__(32 * kW4Warps) awq_kernel(const __grid_constant__ AwqProduct p, bool a_moves, bool b_moves) {
    constexpr int kTiles = 2;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
    const int64_t column = static_cast<int64_t>(blockIdx.x) * (16 * kTiles),
                  row = static_cast<int64_t>(blockIdx.y) * (8 * kRowBlocks), pitch = p.k / 8;
    float sum[kTiles][kRowBlocks][4] = {};
    for (int64_t k = warp * kW4Piece + 32 * t; k - 32 * t < p.k; k += kW4Warps * kW4Piece) {
        const bool inside = k < p.k;  // groups are of 64 terms and more: all 32, or none
        uint32_t words[kTiles][2][4], scale[kTiles][2], zero[kTiles][2];
#pragma unroll
        for (int q = 0; q < kTiles; ++q)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int64_t j = column + 16 * q + 8 * half + g, of_group = inside ? k / p.group : 0;
                load_pieces(words[q][half], p.weights + j * pitch + k / 8, b_moves, inside);
                scale[q][half] = inside ? both_halves(p.scale_of(j, of_group).bits) : 0;
                zero[q][half] = both_halves(0x6400u + static_cast<uint32_t>(p.zero_of(j, of_group)));
            }
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            uint32_t rows[kRowBlocks][4];  // elements 0 and 4, 1 and 5, 2 and 6, 3 and 7
#pragma unroll
            for (int r = 0; r < kRowBlocks; ++r) {
                const int64_t i = row + 8 * r + g;
                uint32_t eight[4];
                load_pieces(eight, p.a + i * p.k + k + 8 * w, a_moves, inside && i < p.m);
                rows[r][0] = low_halves(eight[0], eight[2]);
                rows[r][1] = high_halves(eight[0], eight[2]);
                rows[r][2] = low_halves(eight[1], eight[3]);
                rows[r][3] = high_halves(eight[1], eight[3]);
            }
#pragma unroll
            for (int q = 0; q < kTiles; ++q)
#pragma unroll
                for (int step = 0; step < 2; ++step) {
                    uint32_t columns[4];
#pragma unroll
                    for (int v = 0; v < 4; ++v) {
                        const int half = v % 2;
                        const uint32_t pair = raised_pair(words[q][half][w], 2 * step + v / 2);
                        columns[v] = times_halves(minus_halves(pair, zero[q][half]), scale[q][half]);
                    }
#pragma unroll
                    for (int r = 0; r < kRowBlocks; ++r) {
                        const uint32_t of_rows[2] = {rows[r][2 * step], rows[r][2 * step + 1]};
                        TensorStep<f16>::run(sum[q][r], columns, of_rows);
                    }
                }
        }
    }
    store_w4<kRowBlocks, kTiles>(sum, p.d, p.m, p.n, row, column);
}

// A word for each thread of a row of it.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) awq_dequantize_kernel(const __grid_constant__ AwqProduct p, bool moves) {
    const int64_t words = p.k / 8, w = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (w >= words) return;
    for (int64_t j = blockIdx.y; j < p.n; j += gridDim.y) {
        const int64_t g = 8 * w / p.group;
        const float scale = widen(p.scale_of(j, g)), zero = p.zero_of(j, g);
        const uint32_t word = static_cast<uint32_t>(p.weights[j * words + w]);
        Vec<f16, 8> eight;
#pragma unroll
        for (int e = 0; e < 8; ++e) eight.lane[e] = narrow<f16>(scale * (static_cast<float>(word >> 4 * e & 15u) - zero));
        f16* const to = p.d + j * p.k + 8 * w;
        if (moves)
            store(to, eight);
        else
            for (int e = 0; e < 8; ++e) to[e] = eight.lane[e];
    }
}

constexpr int kW4MostBlocks = 4;  // of eight rows

template <class P>
Status launch_w4(const Launch& launch, const P& p, void (*few)(P, bool, bool), void (*many)(P, bool, bool), int columns) {
    const bool is_few = p.m <= 8, a_moves = is_aligned(p.a, 16), b_moves = is_aligned(p.weights, 16);
    const int64_t rows = is_few ? 8 : 8 * kW4MostBlocks, most = rows * kMaxGridY;
    for (int64_t first = 0; first < p.m; first += most) {
        P part = p;
        part.m = p.m - first < most ? p.m - first : most;
        part.a += first * p.k;
        part.d += first * p.n;
        const Grid grid{
            dim3(static_cast<unsigned>(ceil_div<int64_t>(p.n, columns)), static_cast<unsigned>(ceil_div(part.m, rows))),
            dim3(32 * kW4Warps)};
        BK_TRY(launch_kernel(launch, grid, is_few ? few : many, part, a_moves, b_moves));
    }
    return Status::kOk;
}

inline Status marlin_product(const Launch& launch, const MarlinProduct& p) {
    return launch_w4(launch, p, marlin_kernel<1>, marlin_kernel<kW4MostBlocks>, 64);
}

inline Status awq_product(const Launch& launch, const AwqProduct& p) {
    return launch_w4(launch, p, awq_kernel<1>, awq_kernel<kW4MostBlocks>, 32);
}

inline Status awq_dequantize(const Launch& launch, const AwqProduct& p) {
    const unsigned rows = static_cast<unsigned>(p.n < kMaxGridY ? p.n : kMaxGridY);
    constexpr int kThreads = 256;
    const dim3 blocks(static_cast<unsigned>(ceil_div<int64_t>(p.k / 8, kThreads)), rows);
    return launch_kernel(launch, {blocks, dim3(kThreads)}, awq_dequantize_kernel<kThreads>, p, is_aligned(p.d, 16));
}

}  // namespace bk
