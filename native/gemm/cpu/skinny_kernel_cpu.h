// SPDX-License-Identifier: Apache-2.0
// Microkernels of skinny GEMM on the CPU: up to 8 rows of one operand times many of the other.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk {

constexpr int kSkinny = 8, kSkinnyLanes = 16;

// sums[i * pitch + j] += sum over r of factors[r][i] rows[r][j] for i < skinny, j < count. Factors and sums are padded
// to 1, 4 or 8 values of i, with zero factors.
void axpy_rows(int skinny, const float* const (&rows)[kSkinny], const float (&factors)[kSkinny][kSkinny], float* sums,
               int64_t pitch, int64_t count);
void axpy_rows(int skinny, const double* const (&rows)[kSkinny], const double (&factors)[kSkinny][kSkinny], double* sums,
               int64_t pitch, int64_t count);

// axpy_rows() of bf16, `count` a multiple of kPairBlock; each block of sums has the even columns first.
constexpr int kPairBlock = 2 * kSkinnyLanes;
void axpy_rows(int skinny, const uint16_t* const (&rows)[kSkinny], const float (&factors)[kSkinny][kSkinny], float* sums,
               int64_t pitch, int64_t count);

// lane_sums[l][i] += rows[l][k] skinny_rows[i][k], in lanes of k, for all 8 rows and i < skinny, padded to 1, 4 or 8.
// `count` is a multiple of kSkinnyLanes.
template <class S>
struct SkinnyLaneSums {
    alignas(64) S at[kSkinny][kSkinny][kSkinnyLanes];

    // Reduces the lanes to sums[i * pitch + l] of the first `count` rows.
    BK_HD void finish(int64_t skinny, int64_t count, S* sums, int64_t pitch) {
        for (int64_t l = 0; l < count; ++l)
            for (int64_t i = 0; i < skinny; ++i) {
                S(&lanes)[kSkinnyLanes] = at[l][i];
                for (int half = kSkinnyLanes / 2; half > 0; half /= 2)
                    for (int x = 0; x < half; ++x) lanes[x] += lanes[x + half];
                sums[i * pitch + l] = lanes[0];
            }
    }
};
void dot_rows(int skinny, const float* const (&rows)[kSkinny], const float* const (&skinny_rows)[kSkinny], int64_t count,
              SkinnyLaneSums<float>& lane_sums);
void dot_rows(int skinny, const double* const (&rows)[kSkinny], const double* const (&skinny_rows)[kSkinny], int64_t count,
              SkinnyLaneSums<double>& lane_sums);

// dot_rows() of bf16, `count` a multiple of 2 kSkinnyLanes; skinny_rows have the even K elements before the odd ones.
void dot_bf16_rows(int skinny, const uint16_t* const (&rows)[kSkinny], const float* const (&skinny_rows)[kSkinny],
                   int64_t count, SkinnyLaneSums<float>& lane_sums);

// dot_rows() of bf16 in both operands by AVX-512. `min_abs` is min_abs_skinny() of the skinny rows: min_abs_bf16(), or
// 0 without such instructions. Returns false, with nothing added, if the instructions might flush products to zero.
int32_t min_abs_skinny(const void* small, int64_t pitch, int skinny, int64_t count);
bool dot_bf16_avx512(int skinny, const uint16_t* const (&rows)[kSkinny], const uint16_t* const (&skinny_rows)[kSkinny],
                     int32_t min_abs, int64_t count, SkinnyLaneSums<float>& lane_sums);

}  // namespace bk
