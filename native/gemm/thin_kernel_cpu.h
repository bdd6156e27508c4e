// Microkernels of skinny GEMM on the CPU: up to 8 rows of one operand times many of the other.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk {

constexpr int kThin = 8, kThinLanes = 16;

// sums[i * pitch + j] += sum over r of factors[r][i] rows[r][j] for i < skinny, j < count. Factors and sums are padded
// to 1, 4 or 8 values of i, with zero factors.
void add_rows(int thin, const float* const (&rows)[kThin], const float (&factors)[kThin][kThin], float* sums, int64_t pitch,
              int64_t count);
void add_rows(int thin, const double* const (&rows)[kThin], const double (&factors)[kThin][kThin], double* sums, int64_t pitch,
              int64_t count);

// axpy_rows() of bf16, `count` a multiple of kPairBlock; each block of sums has the even columns first.
constexpr int kPairBlock = 2 * kThinLanes;
void add_rows(int thin, const uint16_t* const (&rows)[kThin], const float (&factors)[kThin][kThin], float* sums, int64_t pitch,
              int64_t count);

// partials[l][i] += rows[l][k] skinny_rows[i][k], in lanes of k, for all 8 rows and i < skinny, padded to 1, 4 or 8.
// `count` is a multiple of kSkinnyLanes.
template <class S>
struct ThinParts {
    alignas(64) S at[kThin][kThin][kThinLanes];

    // Reduces the lanes to sums[i * pitch + l] of the first `count` rows.
    BK_HD void finish(int64_t thin, int64_t count, S* sums, int64_t pitch) {
        for (int64_t l = 0; l < count; ++l)
            for (int64_t i = 0; i < thin; ++i) {
                S(&part)[kThinLanes] = at[l][i];
                for (int half = kThinLanes / 2; half > 0; half /= 2)
                    for (int x = 0; x < half; ++x) part[x] += part[x + half];
                sums[i * pitch + l] = part[0];
            }
    }
};
void add_lines(int thin, const float* const (&lines)[kThin], const float* const (&thin_lines)[kThin], int64_t count,
               ThinParts<float>& parts);
void add_lines(int thin, const double* const (&lines)[kThin], const double* const (&thin_lines)[kThin], int64_t count,
               ThinParts<double>& parts);

// dot_rows() of bf16, `count` a multiple of 2 kSkinnyLanes; skinny_rows have the even K elements before the odd ones.
void add_pairs(int thin, const uint16_t* const (&lines)[kThin], const float* const (&thin_lines)[kThin], int64_t count,
               ThinParts<float>& parts);

// dot_rows() of bf16 in both operands by AVX-512. `min_abs` is min_abs_skinny() of the skinny rows: min_abs_bf16(), or
// 0 without such instructions. Returns false, with nothing added, if the instructions might flush products to zero.
int32_t least_thin(const void* few, int64_t line, int thin, int64_t count);
bool add_dots(int thin, const uint16_t* const (&lines)[kThin], const uint16_t* const (&thin_lines)[kThin], int32_t least,
              int64_t count, ThinParts<float>& parts);

}  // namespace bk
