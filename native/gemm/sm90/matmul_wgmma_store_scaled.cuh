// SPDX-License-Identifier: Apache-2.0
// Vectorised epilogue of wgmma kernels for GEMM with scales: 16-bit results as in gemm/sm90/matmul_wgmma_store_rows.cuh, f32 in
// pairs that fill memory sectors.
#pragma once

#include <cstdint>

#include "core/types/vec.h"
#include "gemm/sm90/matmul_wgmma_store_rows.cuh"

namespace bk {

// Stores a warp's rows of a tile that lies inside the columns, as dtype U.
template <class T, class U, int kColumns>
BK_DEVICE void store_scaled_as(const Matmul<T>& p, const float (&sums)[kColumns / 2], const TileCoord& coord, int64_t row,
                               int lane) {
    constexpr int kEights = 4;  // of columns, each pass
    const Epilogue<T>& e = p.epilogue;
    const bool has_scales = !e.is_by_blocks();
    const int64_t first = row + lane / 4;
    U* const d = static_cast<U*>(e.d) + first * e.d_at.row;
    const U* const bias = static_cast<const U*>(e.bias);
    float row_scale[2];
    for (int half = 0; half < 2; ++half)
        row_scale[half] = has_scales ? e.scale_of_row(min(first + 8 * half, coord.row_end - 1)) : 1;
    // Column scales and bias are loaded one pass ahead.
    float scale[kEights][2], added[kEights][2];
    const auto load_column_operands = [&](int eights) {
#pragma unroll
        for (int i = 0; i < kEights; ++i)
            for (int v = 0; v < 2; ++v) {
                const int64_t column = coord.column + 8 * (eights + i) + lane % 4 * 2 + v;
                scale[i][v] = has_scales ? e.scale_of_column(column) : 1;
                added[i][v] = bias != nullptr ? widen(bias[column]) : 0;
            }
    };
    load_column_operands(0);
#pragma unroll
    for (int eights = 0; eights < kColumns / 8; eights += kEights) {
        Vec<U, 2> pair[2][kEights];
#pragma unroll
        for (int i = 0; i < kEights; ++i)
#pragma unroll
            for (int v = 0; v < 2; ++v)
                for (int half = 0; half < 2; ++half) {
                    const float x = e.alpha * sums[4 * (eights + i) + 2 * half + v] * (row_scale[half] * scale[i][v]);
                    pair[half][i].lane[v] = narrow<U>(x + added[i][v]);
                }
        if (eights + kEights < kColumns / 8) load_column_operands(eights + kEights);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            U* const to = d + 8 * half * e.d_at.row + coord.column + 8 * eights;
            const bool has = first + 8 * half < coord.row_end;
            if constexpr (sizeof(U) == 2) {
                uint32_t word[kEights];
                for (int i = 0; i < kEights; ++i) word[i] = bit_cast<uint32_t>(pair[half][i]);
                transpose_in_quad(word, lane);
                if (has) *reinterpret_cast<uint4*>(to + lane % 4 * 8) = make_uint4(word[0], word[1], word[2], word[3]);
            } else if (has) {
#pragma unroll
                for (int i = 0; i < kEights; ++i) store(to + 8 * i + lane % 4 * 2, pair[half][i]);
            }
        }
    }
}

template <class T, int kColumns>
BK_DEVICE void store_scaled_rows(const Matmul<T>& p, const float (&sums)[kColumns / 2], const TileCoord& coord, int64_t row,
                                 int lane) {
    switch (p.epilogue.type) {
        case FloatType::kF16: return store_scaled_as<T, f16, kColumns>(p, sums, coord, row, lane);
        case FloatType::kBf16: return store_scaled_as<T, bf16, kColumns>(p, sums, coord, row, lane);
        default: return store_scaled_as<T, float, kColumns>(p, sums, coord, row, lane);
    }
}

// Whether D is aligned to 16 bytes and is not read.
template <class T>
bool can_store_scaled_rows(const Epilogue<T>& e) {
    if (e.beta != 0) return false;
    return e.type == FloatType::kF32 ? is_aligned_by_16(static_cast<const float*>(e.d), e.d_at)
                                     : is_aligned_by_16(static_cast<const f16*>(e.d), e.d_at);
}

}  // namespace bk
