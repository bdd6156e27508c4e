// The innermost loops of products with a thin factor on the CPU: up to 8 lines (rows of A, or columns of B) by many.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk {

constexpr int kThin = 8, kThinLanes = 16;

// sums[i * pitch + j] += sum over r of factors[r][i] rows[r][j] for i < thin, j < count; sums of up to 8 lines are there,
// whatever `thin` is, and factors of those behind it are zeros.
void add_rows(int thin, const float* const (&rows)[kThin], const float (&factors)[kThin][kThin], float* sums, int64_t pitch,
              int64_t count);
void add_rows(int thin, const double* const (&rows)[kThin], const double (&factors)[kThin][kThin], double* sums, int64_t pitch,
              int64_t count);

// add_rows() of bf16 as it lies, `count` a multiple of kPairBlock: in each block of as many sums the even ones stand first.
constexpr int kPairBlock = 2 * kThinLanes;
void add_rows(int thin, const uint16_t* const (&rows)[kThin], const float (&factors)[kThin][kThin], float* sums, int64_t pitch,
              int64_t count);

// parts[l][i] += lines[l][k] thin_lines[i][k], in lanes of k, for all 8 lines and i < thin; parts of up to 8 i are there.
// `count` is a multiple of kThinLanes.
template <class S>
struct ThinParts {
    alignas(64) S at[kThin][kThin][kThinLanes];

    // sums[i * pitch + l] of the first `count` lines.
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

// add_lines() for lines of bf16, `count` a multiple of 2 kThinLanes: of thin_lines the even terms stand before the odd ones.
void add_pairs(int thin, const uint16_t* const (&lines)[kThin], const float* const (&thin_lines)[kThin], int64_t count,
               ThinParts<float>& parts);

// add_pairs() of thin lines of bf16 that lie along k, too, by instructions of AVX-512 for which `least` is not 0: what
// least_of_bf16() says of the thin lines, 0 where the processor has none. False, and nothing is added, where these
// instructions might take products for zeros.
int32_t least_thin(const void* few, int64_t line, int thin, int64_t count);
bool add_dots(int thin, const uint16_t* const (&lines)[kThin], const uint16_t* const (&thin_lines)[kThin], int32_t least,
              int64_t count, ThinParts<float>& parts);

}  // namespace bk
