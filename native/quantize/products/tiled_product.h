// SPDX-License-Identifier: Apache-2.0
// Products of many rows of activations with quantised weights on the GPU, by tiles, with one kernel for all formats:
//
//   y[i, j] = sum over k of x[i, k] w[j, k] + bias[j]
//
// Codes of weights are exact in f16 and bf16, and so are products; the sum over a group of codes is scaled in f32. A result
// depends on its row of x and of the weights alone: all tiles add in the same order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/codec/mx.h"
#include "core/reference_chip.h"
#include "quantize/products/block_product.h"

namespace bk {

constexpr int32_t kFirstMxWeights = 64;  // above the GGML type ids

// Rows of weights: GGUF blocks, or MX codes with scales apart.
struct WeightRows {
    int32_t format;  // the GGML type id, or kFirstMxWeights plus the codec::MxFormat
    const uint8_t* bytes;
    int64_t row_bytes;
    const uint8_t* scales{};      // of MX
    const float* tensor_scale{};  // of NVFP4; null is 1
    codec::ScaleMap scale_map{};
};

struct TiledProduct {
    WeightRows weights;
    int64_t m, n, k;
    const void* x;
    void* y;
    const void* bias;
    int64_t x_row, y_row;
    FloatDtype dtype;
    int tile;  // index of kTileExtents, or negative: the fastest by the estimates
};

// Rows of weights and of x of a block, and the cycles in which an SM of an H200 computes 64 K elements of its resident blocks.
struct TileExtents {
    int weights, x, resident, cycles;
};
constexpr TileExtents kTileExtents[kTiles] = {{64, 64, 2, 8300}, {128, 128, 1, 9400}, {128, 256, 1, 11800}};
constexpr TileExtents kSkinnyExtents{32, 32, 1, 1285};  // of the kernel that reads the weights for every 32 columns

constexpr int64_t cycles_of(const TileExtents& tile, int64_t columns, int64_t n) {
    const int64_t blocks = ceil_div<int64_t>(columns, tile.x) * ceil_div<int64_t>(n, tile.weights);
    return ceil_div<int64_t>(blocks, kReferenceSms * tile.resident) * tile.cycles;
}

// Columns of x: an f32 is three bf16.
inline int64_t columns_of(int64_t m, FloatDtype dtype) { return dtype == FloatDtype::kF32 ? 3 * m : m; }

// Whether tiles multiply: the backend says so, or they take fewer cycles than passes over the weights.
inline bool uses_tiles(const BlockProduct& p) {
    if (p.tile() >= 0) return true;
    const int64_t columns = columns_of(p.m, p.dtype);
    if (p.is_invariant() || p.x_step != 1 || columns <= kSkinnyExtents.x) return false;
    int64_t least = cycles_of(kTileExtents[0], columns, p.n);
    for (int i = 1; i < kTiles; ++i) least = std::min(least, cycles_of(kTileExtents[i], columns, p.n));
    return least < cycles_of(kSkinnyExtents, columns, p.n);
}

Status tiled_product_bf16(const Launch& launch, const TiledProduct& p);  // of f32 and bf16
Status tiled_product_f16(const Launch& launch, const TiledProduct& p);

inline Status tiled_product(const Launch& launch, const TiledProduct& p) {
    return p.dtype == FloatDtype::kF16 ? tiled_product_f16(launch, p) : tiled_product_bf16(launch, p);
}

}  // namespace bk
