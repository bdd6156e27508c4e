// The innermost loops of products with a thin factor on the CPU: up to 8 lines (rows of A, or columns of B) by many.
#pragma once

#include <cstdint>

namespace bk {

constexpr int kThin = 8, kThinLanes = 16;

// sums[i * pitch + j] += sum over r of factors[r][i] rows[r][j] for i < thin, j < count; sums of up to 8 lines are there,
// whatever `thin` is, and factors of those behind it are zeros.
void add_rows(int thin, const float* const (&rows)[kThin], const float (&factors)[kThin][kThin], float* sums, int64_t pitch,
              int64_t count);
void add_rows(int thin, const double* const (&rows)[kThin], const double (&factors)[kThin][kThin], double* sums, int64_t pitch,
              int64_t count);

// parts[l][i] += lines[l][k] thin_lines[i][k], in lanes of k, for all 8 lines and i < thin; parts of up to 8 i are there.
// `count` is a multiple of kThinLanes.
template <class S>
struct ThinParts {
    alignas(64) S at[kThin][kThin][kThinLanes];
};
void add_lines(int thin, const float* const (&lines)[kThin], const float* const (&thin_lines)[kThin], int64_t count,
               ThinParts<float>& parts);
void add_lines(int thin, const double* const (&lines)[kThin], const double* const (&thin_lines)[kThin], int64_t count,
               ThinParts<double>& parts);

}  // namespace bk
