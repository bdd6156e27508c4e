// SPDX-License-Identifier: Apache-2.0
// Type tag and epilogue of 8-bit GEMM with scales.
//
// Scales are per matrix, per row of A and column of B, or per block: 1 x 128 of A and 128 x 128 of B, as in DeepSeek-V3
// (arXiv 2412.19437, 3.3.2). The sum over a block is scaled, then accumulated.
#pragma once

#include <cstdint>

#include "gemm/matmul.h"

namespace bk {

// T is e4m3, e5m2, e5m2_by_e4m3 or int8_t; the dtype of D is known at run time.
template <class T>
struct scaled {};
template <class T>
struct MatmulType<scaled<T>> {
    using Element = T;
    using Result = float;
    using Scalar = float;
};

template <class T>
constexpr bool kIsScaled = false;
template <class T>
constexpr bool kIsScaled<scaled<T>> = true;

enum class Scaling : int32_t { kTensor, kRows, kBlocks };
enum class FloatType : int32_t { kF32, kF16, kBf16 };

constexpr int kScaleShift = 7, kScaleBlock = 1 << kScaleShift;  // K elements of a block, and columns

// d = alpha a_scale b_scale sum + beta d + bias[j]; scales and bias may be null. Sums with block scales arrive scaled.
template <class T>
struct Epilogue<scaled<T>> {
    void* d;
    const void* bias;
    MatrixStrides d_at;
    FloatType type;  // of d and bias
    float alpha, beta;
    Scaling scaling;
    const float *a_scale, *b_scale;
    int64_t blocks;  // along k

    BK_HD bool has_steps() const { return false; }
    BK_HD bool is_by_blocks() const { return scaling == Scaling::kBlocks; }

    // Scale of row i of A and of column j of B, in block `block` along k if scales are by blocks.
    BK_HD float scale_of_row(int64_t i, int64_t block = 0) const {
        if (a_scale == nullptr) return 1;
        return a_scale[is_by_blocks() ? i * blocks + block : scaling == Scaling::kRows ? i : 0];
    }
    BK_HD float scale_of_column(int64_t j, int64_t block = 0) const {
        if (b_scale == nullptr) return 1;
        return b_scale[is_by_blocks() ? (j >> kScaleShift) * blocks + block : scaling == Scaling::kRows ? j : 0];
    }

    BK_HD float read(const void* from, int64_t at) const {
        switch (type) {
            case FloatType::kF16: return widen(static_cast<const f16*>(from)[at]);
            case FloatType::kBf16: return widen(static_cast<const bf16*>(from)[at]);
            default: return static_cast<const float*>(from)[at];
        }
    }

    BK_HD float result(int64_t i, int64_t j, float sum) const {
        float x = alpha * sum;
        if (!is_by_blocks()) x *= scale_of_row(i) * scale_of_column(j);
        if (beta != 0) x += beta * read(d, i * d_at.row + j);
        if (bias != nullptr) x += read(bias, j);
        return x;
    }

    BK_HD void write(int64_t at, float x) const {
        switch (type) {
            case FloatType::kF16: static_cast<f16*>(d)[at] = narrow<f16>(x); break;
            case FloatType::kBf16: static_cast<bf16*>(d)[at] = narrow<bf16>(x); break;
            default: static_cast<float*>(d)[at] = x;
        }
    }

    BK_HD void store_one(int64_t i, int64_t j, float sum) const { write(i * d_at.row + j, result(i, j, sum)); }
};

}  // namespace bk
