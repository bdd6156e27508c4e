// SPDX-License-Identifier: Apache-2.0
// Products with quantised weights on the GPU by mma.sync. Rows of weights are the rows of the mma: their codes, small
// integers, are exact in bf16. Rows of x are its columns: an f32 is the exact sum of three bf16, an f16 of two, each a
// column of its own, so that products are exact and sums are in f32. The sum over a group of codes is scaled in f32.
//
// A block computes 16 kTiles rows of weights, and its warps split K: each has a ring of cp.async stages of 256 K elements.
// Partial sums of the warps are added in order, so that a result depends on its row of x and of the weights alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/codec/block_format.h"
#include "core/intrinsics/tensor_core.cuh"
#include "quantize/products/block_product.h"
#include "quantize/products/digits/product_cuda.cuh"
#include "quantize/products/mma_operands.cuh"
#include "quantize/products/tiled_product.h"
#include "quantize/products/weight_stages.cuh"

namespace bk {

// Rows of x that a block multiplies at once: the dispatches, or the rows, in `at`.
template <int kColumnBlocks>
struct RowList {
    static constexpr int kMost = 8 * kColumnBlocks;
    int32_t count;
    int64_t at[kMost];
};

// Adds the dispatches of one expert, from `position` on, whose token is in this block's class to the list; returns the next
// position. The first warp runs it.
template <int kColumnBlocks>
BK_DEVICE int64_t take_dispatches(RowList<kColumnBlocks>& list, const Dispatches& of, int64_t position, int64_t end, int most) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int count = 0;
    while (position < end && count < most) {
        const int64_t own = position + lane;
        const int32_t token = own < end ? of.token_ids[own] : -1;
        const bool is_own = token >= 0 && static_cast<unsigned>(token) % gridDim.y == blockIdx.y;
        const unsigned mask = __ballot_sync(~0u, is_own);
        const int before = count + __popc(mask & ((1u << lane) - 1u)), all = __popc(mask);
        if (is_own && before < most) list.at[before] = own;
        if (count + all > most) {  // continues behind the last that was taken
            unsigned rest = mask;
            for (int skipped = count; skipped < most; ++skipped) rest &= rest - 1;
            position += __ffs(static_cast<int>(rest)) - 1;
            count = most;
        } else {
            position += 32;
            count += all;
        }
    }
    if (lane == 0) list.count = count;
    return position < end ? position : end;
}

// K elements whose scales a warp decodes at once: the lanes of a row have one of four groups each.
template <class Format>
constexpr int kScaledK = Format::kGroup == 16 ? 64 : 128;

// Adds the products of a warp's slices of K to total[q][block]. Lane t of four has elements 8 t to 8 t + 7 of 32 where these
// are of one group, in two steps of the mma, else 4 t to 4 t + 3 of 16 in each.
template <class Format, int kTiles, int kColumnBlocks>
BK_DEVICE void sum_slices(float (&total)[kTiles][kColumnBlocks][4], const BlockProduct& p, WeightRing<Format, kTiles> ring,
                          const RowList<kColumnBlocks>& list, bool is_vector) {
    using Stage = WeightStage<Format, kTiles>;
    constexpr bool kIsWide = Format::kGroup >= 32;
    constexpr int kGroupSteps = kIsWide ? 2 : 1;  // of 16 K elements
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
    const int parts = parts_of(p.dtype);
    const auto element = [&](int step) { return kIsWide ? 8 * t | 4 * step : 16 * step | 4 * t; };
    const char* x[kColumnBlocks];
    int part[kColumnBlocks];
#pragma unroll
    for (int c = 0; c < kColumnBlocks; ++c) {
        const int column = 8 * c + g, own = column / parts;
        part[c] = column % parts;
        const bool has_row = own < list.count;
        const int64_t index = has_row ? list.at[own] : 0;
        const int64_t row = p.dispatches.experts > 0 && has_row ? p.dispatches.token_ids[index] : index;
        x[c] = has_row ? static_cast<const char*>(p.x) + row * p.x_row * bytes_of(p.dtype) : nullptr;
    }
    const int64_t x_bytes = p.x_step * bytes_of(p.dtype);
    const auto load_columns = [&](int64_t at, uint32_t (&columns)[2][kColumnBlocks][2]) {
        if (p.dtype == FloatDtype::kBf16 && is_vector) {
#pragma unroll
            for (int c = 0; c < kColumnBlocks; ++c) {
                if (x[c] == nullptr) continue;
                const uint32_t* const from = reinterpret_cast<const uint32_t*>(x[c] + (at + element(0)) * 2);
                if constexpr (kIsWide) {
                    const auto own = load<4>(from);
#pragma unroll
                    for (int word = 0; word < 4; ++word) columns[word / 2][c][word % 2] = own.lane[word];
                } else {
#pragma unroll
                    for (int step = 0; step < 2; ++step) {
                        const auto own = load<2>(from + 8 * step);
                        columns[step][c][0] = own.lane[0];
                        columns[step][c][1] = own.lane[1];
                    }
                }
            }
        } else {
            float values[2][kColumnBlocks][4] = {};
#pragma unroll
            for (int step = 0; step < 2; ++step)
#pragma unroll
                for (int c = 0; c < kColumnBlocks; ++c)
                    if (x[c] != nullptr)
                        load_four(values[step][c], x[c] + (at + element(step)) * x_bytes, p.x_step, p.dtype, is_vector);
#pragma unroll
            for (int step = 0; step < 2; ++step)
#pragma unroll
                for (int c = 0; c < kColumnBlocks; ++c)
#pragma unroll
                    for (int pair = 0; pair < 2; ++pair)
                        columns[step][c][pair] = bf16_part(values[step][c][2 * pair], part[c]) |
                                                 bf16_part(values[step][c][2 * pair + 1], part[c]) << 16;
        }
    };
    constexpr bool kLoadsAhead = kColumnBlocks == 1;
#pragma unroll 1
    for (int64_t k = int64_t{warp} * Stage::kK; k < p.k; k += WeightRing<Format, kTiles>::kStride) {
        const uint8_t* own_rows[kTiles][2];
        ring.advance(k, own_rows);
        const int depth = static_cast<int>(min(p.k - k, int64_t{Stage::kK}));
#pragma unroll 1
        for (int base = 0; base < depth; base += kScaledK<Format>) {
            uint32_t ahead[kLoadsAhead ? kScaledK<Format> / 32 : 1][2][kColumnBlocks][2] = {};
            if constexpr (kLoadsAhead) {
#pragma unroll
                for (int i = 0; i < kScaledK<Format> / 32; ++i)
                    if (base + 32 * i < depth) load_columns(k + base + 32 * i, ahead[i]);
            }
            codec::Affine scales[kTiles][2];
            const int own_k = base + (Format::kGroup < 256 ? t * Format::kGroup : 0);
#pragma unroll
            for (int q = 0; q < kTiles; ++q)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    scales[q][half] = own_k < depth
                                          ? Format::affine(own_rows[q][half] + own_k / Format::kBlock * Format::kBytes,
                                                           own_k % Format::kBlock / Format::kGroup)
                                          : codec::Affine{0.f, 0.f};
#pragma unroll
            for (int i = 0; i < kScaledK<Format> / 32; ++i) {
                const int s = base + 32 * i;
                if (s >= depth) break;
                uint32_t columns[2][kColumnBlocks][2] = {};
                if constexpr (kLoadsAhead) {
#pragma unroll
                    for (int step = 0; step < 2; ++step)
#pragma unroll
                        for (int pair = 0; pair < 2; ++pair) columns[step][0][pair] = ahead[i][step][0][pair];
                } else {
                    load_columns(k + s, columns);
                }
                // Bits that do not overlap, whose quotients the compiler knows.
                const int block = Stage::kK == Format::kBlock ? 0 : s / Format::kBlock * Format::kBytes,
                          e = (base & (Format::kBlock - 1) & ~(kScaledK<Format> - 1)) | 32 * i % Format::kBlock;
#pragma unroll
                for (int first = 0; first < 2; first += kGroupSteps) {
                    float sums_of_x[kColumnBlocks][4] = {};  // of columns 2t and 2t + 1, in every row
                    if constexpr (Format::kHasOffset) {
                        constexpr uint32_t kOnes[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
#pragma unroll
                        for (int step = first; step < first + kGroupSteps; ++step)
#pragma unroll
                            for (int c = 0; c < kColumnBlocks; ++c) Mma<bf16>::run(sums_of_x[c], kOnes, columns[step][c]);
                    }
                    const int group = (32 * i + 16 * first) / (Format::kGroup < 256 ? Format::kGroup : kScaledK<Format>);
#pragma unroll
                    for (int q = 0; q < kTiles; ++q) {
                        float sum[kColumnBlocks][4] = {};
#pragma unroll
                        for (int step = first; step < first + kGroupSteps; ++step) {
                            uint32_t codes[4];
                            const int at = e | element(step);
                            codes_to_bf16<kHasPositiveCodes<Format>>(Format::codes4(own_rows[q][0] + block, at), codes[0],
                                                                     codes[2]);
                            codes_to_bf16<kHasPositiveCodes<Format>>(Format::codes4(own_rows[q][1] + block, at), codes[1],
                                                                     codes[3]);
#pragma unroll
                            for (int c = 0; c < kColumnBlocks; ++c) Mma<bf16>::run(sum[c], codes, columns[step][c]);
                        }
#pragma unroll
                        for (int half = 0; half < 2; ++half) {
                            const float scale = __shfl_sync(~0u, scales[q][half].scale, group, 4);
#pragma unroll
                            for (int c = 0; c < kColumnBlocks; ++c)
#pragma unroll
                                for (int v = 2 * half; v < 2 * half + 2; ++v)
                                    total[q][c][v] = math::fma(scale, sum[c][v], total[q][c][v]);
                            if constexpr (Format::kHasOffset) {
                                const float offset = __shfl_sync(~0u, scales[q][half].offset, group, 4);
#pragma unroll
                                for (int c = 0; c < kColumnBlocks; ++c)
#pragma unroll
                                    for (int v = 2 * half; v < 2 * half + 2; ++v)
                                        total[q][c][v] = math::fma(offset, sums_of_x[c][v], total[q][c][v]);
                            }
                        }
                    }
                }
            }
        }
    }
    wait_for_copies<0>();
}

// Adds the partial sums of the warps and the parts of a row of x, in order, and stores the results.
template <class Format, int kTiles, int kColumnBlocks>
BK_DEVICE void store_results(const WarpPartials<Format, kTiles, kColumnBlocks>& partials, const BlockProduct& p,
                             int64_t first_row, int64_t rows, const RowList<kColumnBlocks>& list) {
    using Stage = WeightStage<Format, kTiles>;
    const int parts = parts_of(p.dtype);
    const bool accumulates = p.dispatches.accumulates;
    // A thread keeps to one row where a token may come twice.
    const int threads = accumulates ? Stage::kRows : static_cast<int>(blockDim.x);
    for (int index = static_cast<int>(threadIdx.x);
         index < Stage::kRows * list.count && static_cast<int>(threadIdx.x) < threads; index += threads) {
        const int i = index / Stage::kRows, r = index % Stage::kRows;
        if (r >= rows) continue;
        float value = 0;
        for (int part = parts - 1; part >= 0; --part) value += partials.sum(i * parts + part, r);
        const int64_t own = list.at[i], j = first_row + r;
        int64_t row = own;
        if (p.dispatches.experts > 0) {
            if (p.dispatches.scales != nullptr) value *= p.dispatches.scales[own];
            row = p.dispatches.token_ids[own];
        }
        if (p.bias != nullptr) value += load_float(p.bias, j, p.dtype);
        if (accumulates) value += load_float(p.y, row * p.y_row + j, p.dtype);
        store_float(p.y, row * p.y_row + j, p.dtype, value);
    }
    __syncthreads();  // the next copies overwrite the partial sums
}

// Tiles of 16 rows of weights of a block.
template <class Format, int kColumnBlocks>
constexpr int kProductTiles = kColumnBlocks == 1 ? 1 : kWideTiles<Format>;

// blockIdx.x is a tile of rows of weights, blockIdx.y a set of rows of x, or a class of tokens.
template <class Format, int kColumnBlocks>
__global__ void __launch_bounds__(32 * kProductWarps, kColumnBlocks == 1 ? 2 : 1)  // what shared memory has space for
    block_product_kernel(const __grid_constant__ BlockProduct p, bool is_vector) {
    constexpr int kTiles = kProductTiles<Format, kColumnBlocks>;
    using Stage = WeightStage<Format, kTiles>;
    BK_LAUNCH_SHARED(uint4, shared_words);
    __shared__ RowList<kColumnBlocks> list;
    __shared__ int64_t position;
    uint8_t* const shared = reinterpret_cast<uint8_t*>(shared_words);
    const int64_t first_row = static_cast<int64_t>(blockIdx.x) * Stage::kRows, left = p.n - first_row,
                  rows = left < Stage::kRows ? left : Stage::kRows;
    const int most = 8 * kColumnBlocks / parts_of(p.dtype);
    const auto multiply = [&](const uint8_t* weights) {
        float total[kTiles][kColumnBlocks][4] = {};
        sum_slices<Format, kTiles, kColumnBlocks>(total, p, {shared, weights, first_row, rows, p.k}, list, is_vector);
        store_results<Format, kTiles, kColumnBlocks>({shared, total}, p, first_row, rows, list);
    };
    if (p.dispatches.experts == 0) {
        for (int64_t first = static_cast<int64_t>(blockIdx.y) * most; first < p.m;
             first += static_cast<int64_t>(gridDim.y) * most) {
            if (threadIdx.x == 0) {
                list.count = static_cast<int32_t>(min(p.m - first, static_cast<int64_t>(most)));
                for (int i = 0; i < list.count; ++i) list.at[i] = first + i;
            }
            __syncthreads();
            multiply(p.weights);
        }
        return;
    }
    const Dispatches& of = p.dispatches;
    const auto offset = [&](int64_t e) {
        const int64_t at = of.expert_offsets[e];
        return at < 0 ? 0 : at < of.count ? at : of.count;
    };
    for (int64_t e = 0; e < of.experts; ++e) {
        const int64_t end = offset(e + 1);
        int64_t at = offset(e);
        while (at < end) {
            if (threadIdx.x < 32) {
                const int64_t next = take_dispatches(list, of, at, end, most);
                if (threadIdx.x == 0) position = next;
            }
            __syncthreads();
            at = position;
            if (list.count > 0)
                multiply(p.weights + e * p.n * (p.k / Format::kBlock * Format::kBytes));
            else
                __syncthreads();  // all have read the list
        }
    }
}

template <class Format, int kColumnBlocks>
Status launch_product(const Launch& launch, const BlockProduct& p, int64_t sets) {
    constexpr int kTiles = kProductTiles<Format, kColumnBlocks>;
    const int64_t tiles = ceil_div<int64_t>(p.n, 16 * kTiles);
    const bool is_vector = p.x_step == 1 && is_aligned(p.x, 16) && p.x_row * bytes_of(p.dtype) % 16 == 0;
    Grid grid{dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(sets < kMaxGridY ? sets : kMaxGridY)),
              dim3(32 * kProductWarps)};
    grid.shared = WarpPartials<Format, kTiles, kColumnBlocks>::kShared;
    return launch_kernel(launch, grid, block_product_kernel<Format, kColumnBlocks>, p, is_vector);
}

template <class Format>
Status block_product(const Launch& launch, const BlockProduct& p) {
    const int parts = p.dtype == FloatDtype::kF32 ? 3 : p.dtype == FloatDtype::kF16 ? 2 : 1;
    if (p.dispatches.experts > 0) {
        // Classes of tokens occupy the SMs where the rows of an expert do not.
        const int64_t tiles = ceil_div<int64_t>(p.n, 16 * kProductTiles<Format, 1>),
                      classes = std::clamp<int64_t>(2 * kReferenceSms / tiles, 1, 16);
        return launch_product<Format, 1>(launch, p, std::min(classes, p.dispatches.count));
    }
    const int64_t columns = p.m * parts;
    // Tiles have the shared memory of every chip.
    if (p.format >= 0 && (uses_tiles(p) || !has_shared(WarpPartials<Format, kProductTiles<Format, 4>, 4>::kShared))) {
        const WeightRows weights{p.format, p.weights, p.k / Format::kBlock * Format::kBytes};
        return tiled_product(launch, {weights, p.m, p.n, p.k, p.x, p.y, p.bias, p.x_row, p.y_row, p.dtype, p.tile()});
    }
    if (uses_digits<Format>(p)) return digit_product<Format>(launch, p);
    if (columns <= 8) return launch_product<Format, 1>(launch, p, 1);
    return launch_product<Format, 4>(launch, p, ceil_div<int64_t>(p.m, 32 / parts));
}

}  // namespace bk
