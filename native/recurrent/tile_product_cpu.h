// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recurrent/tile_product.h"

namespace bk::recurrent {

BK_STEP void tile_product(const Team&, int m, int n, int k, Operand a, const float* b, int b_pitch, float* out, int out_pitch,
                          float alpha, bool adds) {
    constexpr int kRows = 4, kColumns = 16;
    with_vectors([=] {
        for (int i = 0; i < m; i += kRows)
            for (int j = 0; j < n; j += kColumns) {
                float sum[kRows][kColumns] = {};
                for (int x = 0; x < k; ++x) {
                    const float* const of_b = b + int64_t{x} * b_pitch + j;
                    const float* const of_a = a.data + int64_t{i} * a.row + int64_t{x} * a.column;
                    for (int r = 0; r < kRows; ++r)
                        for (int c = 0; c < kColumns; ++c) sum[r][c] += of_a[r * a.row] * of_b[c];
                }
                for (int r = 0; r < kRows; ++r) {
                    float* const to = out + int64_t{i + r} * out_pitch + j;
                    for (int c = 0; c < kColumns; ++c) to[c] = (adds ? to[c] : 0.0f) + alpha * sum[r][c];
                }
            }
    });
}

}  // namespace bk::recurrent
