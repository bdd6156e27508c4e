// SPDX-License-Identifier: Apache-2.0
// Microtiles of 4 rows and 4 vectors, whose accumulators fill the registers of AVX-512; half as wide with shorter vectors.
// A sum has the same order in every microtile.
#pragma once

#include "core/abi/vector_width_cpu.h"
#include "recurrent/tile_product.h"

namespace bk::recurrent {

template <int kBytes, int kRows, int kVectors>
BK_HD void microtile(int k, Operand a, const float* b, int b_pitch, float* out, int out_pitch, float alpha, bool adds) {
    BK_FUSE_PRODUCTS
    typedef float Vector __attribute__((vector_size(kBytes), aligned(4), may_alias));
    constexpr int kLanes = kBytes / 4;
    Vector sum[kRows][kVectors] = {};
    for (int x = 0; x < k; ++x) {
        const float* const of_b = b + int64_t{x} * b_pitch;
        const float* const of_a = a.data + int64_t{x} * a.column;
        Vector row[kVectors];
        for (int v = 0; v < kVectors; ++v) row[v] = *reinterpret_cast<const Vector*>(of_b + v * kLanes);
        for (int r = 0; r < kRows; ++r)
            for (int v = 0; v < kVectors; ++v) sum[r][v] += of_a[r * a.row] * row[v];
    }
    for (int r = 0; r < kRows; ++r)
        for (int v = 0; v < kVectors; ++v) {
            Vector& to = *reinterpret_cast<Vector*>(out + int64_t{r} * out_pitch + v * kLanes);
            to = adds ? to + alpha * sum[r][v] : alpha * sum[r][v];
        }
}

template <int kBytes>
__attribute__((noinline)) void tile_product_with(int m, int n, int k, Operand a, const float* b, int b_pitch, float* out,
                                                 int out_pitch, float alpha, bool adds) {
    constexpr int kLanes = kBytes / 4, kVectors = kBytes == 64 ? 4 : 2, kWide = kVectors * kLanes;
    run_fused<kBytes>([=] {
        for (int j = 0; j < n;) {
            const bool is_wide = n - j >= kWide;
            for (int i = 0; i < m;) {
                const Operand rows{a.data + int64_t{i} * a.row, a.row, a.column};
                float* const to = out + int64_t{i} * out_pitch + j;
                if (m - i < 4) {
                    if (is_wide)
                        microtile<kBytes, 1, kVectors>(k, rows, b + j, b_pitch, to, out_pitch, alpha, adds);
                    else
                        microtile<kBytes, 1, 1>(k, rows, b + j, b_pitch, to, out_pitch, alpha, adds);
                    ++i;
                } else {
                    if (is_wide)
                        microtile<kBytes, 4, kVectors>(k, rows, b + j, b_pitch, to, out_pitch, alpha, adds);
                    else
                        microtile<kBytes, 4, 1>(k, rows, b + j, b_pitch, to, out_pitch, alpha, adds);
                    i += 4;
                }
            }
            j += is_wide ? kWide : kLanes;
        }
    });
}

BK_STEP void tile_product(const Team&, int m, int n, int k, Operand a, const float* b, int b_pitch, float* out, int out_pitch,
                          float alpha, bool adds) {
#if BK_ISA_DISPATCH
    if (vector_bytes() == 64) return tile_product_with<64>(m, n, k, a, b, b_pitch, out, out_pitch, alpha, adds);
    if (vector_bytes() == 32) return tile_product_with<32>(m, n, k, a, b, b_pitch, out, out_pitch, alpha, adds);
#endif
    tile_product_with<16>(m, n, k, a, b, b_pitch, out, out_pitch, alpha, adds);
}

}  // namespace bk::recurrent
