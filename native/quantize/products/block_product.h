// SPDX-License-Identifier: Apache-2.0
// Products of rows of activations with a matrix of quantised weights, as the kernels take them.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

// Backends of products with coded weights: 0 chooses, kInvariantBackend is gemm's, those from kTileBackend on are tiles on the
// GPU of 64 rows of weights by 64 of x, 128 by 128 and 128 by 256, and kDecodedBackend decodes the weights first, if there is
// the workspace for it.
constexpr int32_t kInvariantBackend = 5, kTileBackend = 6, kTiles = 3, kDecodedBackend = kTileBackend + kTiles;

inline Status require_product_backend(int32_t backend) {
    if (backend == 0 || (backend >= kInvariantBackend && backend <= kDecodedBackend)) return Status::kOk;
    return fail(Status::kInvalidProblem, "backend is %d, must be 0, 5 (batch-invariant), 6 to 8 (tiles) or 9 (decoded)",
                backend);
}

enum class FloatDtype : int32_t { kF32, kF16, kBf16 };

template <class T>
constexpr FloatDtype kFloatDtype = FloatDtype::kF32;
template <>
constexpr FloatDtype kFloatDtype<f16> = FloatDtype::kF16;
template <>
constexpr FloatDtype kFloatDtype<bf16> = FloatDtype::kBf16;

BK_HD int64_t bytes_of(FloatDtype dtype) { return dtype == FloatDtype::kF32 ? 4 : 2; }

BK_HD float load_float(const void* from, int64_t at, FloatDtype dtype) {
    if (dtype == FloatDtype::kF32) return static_cast<const float*>(from)[at];
    if (dtype == FloatDtype::kF16) return widen(static_cast<const f16*>(from)[at]);
    return widen(static_cast<const bf16*>(from)[at]);
}

BK_HD void store_float(void* to, int64_t at, FloatDtype dtype, float value) {
    if (dtype == FloatDtype::kF32)
        static_cast<float*>(to)[at] = value;
    else if (dtype == FloatDtype::kF16)
        static_cast<f16*>(to)[at] = narrow<f16>(value);
    else
        static_cast<bf16*>(to)[at] = narrow<bf16>(value);
}

// Rows of an expert: dispatch i multiplies the weights of the expert whose range of `expert_offsets` has i by row
// token_ids[i] of x, and `scales`, if not null, has its factor.
struct Dispatches {
    int64_t count, experts;
    const int32_t *token_ids, *expert_offsets;
    const float* scales;
    bool accumulates;  // y[token] += instead of =, in the order of the dispatches, each sum rounded to y's dtype
};

// y[i, j] = sum over k of x[i, k] w[j, k] + bias[j], accumulated in f32 in an order that depends on k and on what multiplies:
// with kInvariantBackend that is the same for every m. Row j of the weights is k / kBlock blocks of its format; x, y and bias
// have one dtype. Experts follow one another in `weights`.
struct BlockProduct {
    int64_t m, n, k;
    const uint8_t* weights;
    const void* x;
    void* y;
    const void* bias;
    int64_t x_row, x_step, y_row;  // elements between rows of x, between elements of a row, between rows of y
    FloatDtype dtype;
    Dispatches dispatches{};  // m is of no meaning if it has any
    int32_t backend = 0;
    int32_t format = -1;  // the GGML type id, if tiles may multiply

    bool is_invariant() const { return backend == kInvariantBackend; }
    int tile() const { return backend < kDecodedBackend ? backend - kTileBackend : -1; }  // negative if none is named
};

template <class Format>
Status block_product(const Launch& launch, const BlockProduct& p);

// y[i, j] in f32, of rows of x quantised to q8_1: integer dot products of the blocks, at most eight rows.
struct BlockDots {
    int64_t m, n, k;
    const uint8_t *weights, *x;
    float* y;
};

template <class Format>
Status block_dots(const Launch& launch, const BlockDots& p);

}  // namespace bk
