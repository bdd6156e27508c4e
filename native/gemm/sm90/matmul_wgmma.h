// SPDX-License-Identifier: Apache-2.0
// Hopper wgmma GEMM: interface of gemm/sm90/matmul_sm90a.cu to the kernel choice.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/arch.h"
#include "gemm/tiled/matmul_mma.cuh"

namespace bk {

template <class T>
constexpr bool kHasWgmma =
    std::is_same_v<T, f16> || std::is_same_v<T, bf16> || std::is_same_v<T, int8_t> || std::is_same_v<T, uint8_t> ||
    std::is_same_v<T, i32_results<int8_t>> || std::is_same_v<T, i32_results<uint8_t>> || std::is_same_v<T, tf32> ||
    std::is_same_v<T, tf32x3> || std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2> || std::is_same_v<T, scaled<e4m3>> ||
    std::is_same_v<T, scaled<e5m2>> || std::is_same_v<T, scaled<e5m2_by_e4m3>>;

// Whether accumulators are promoted to f32 after each stage: fp8 wgmma keeps about 14 bits (arXiv 2412.19437, 3.3.2).
template <class T>
constexpr bool kIsPromoted = kHasFp8Factors<matmul_element_t<T>>;

// Computes a GEMM whose operands fit TMA by tiles of kWgmmaRows rows and `tile_n` columns.
template <class T>
Status matmul_sm90a(const Launch& launch, const Matmul<T>& p, int tile_n);

constexpr int64_t kWgmmaRows = 128, kMinWgmmaTiles = 64;  // 128 x 128 tiles from which wgmma pays

// Whether vertically adjacent tiles form clusters of two: an odd count leaves one block idle.
inline bool pairs_tiles(int64_t tiles_m) {
    constexpr int64_t kFewIdle = 16;
    return tiles_m > 1 && (tiles_m % 2 == 0 || tiles_m > kFewIdle);
}

template <class T>
auto wgmma_on(int arch) {
    return choose({BK_SM(90a, matmul_sm90a<T>)}, arch).run;
}

// Whether such a GEMM is large enough, on a chip that has these kernels.
template <class T>
bool suits_wgmma(const MatmulShape& s, int arch) {
    if constexpr (kHasWgmma<T>) {
        if (wgmma_on<T>(arch) == nullptr || s.k > MmaTraits<T>::kMaxK) return false;
        const int64_t tiles = ceil_div(s.m, kWgmmaRows) * ceil_div(s.is_gated ? 2 * s.n : s.n, kWgmmaRows);
        return std::min({s.m, s.n, s.k}) >= 64 && tiles >= ceil_div(kMinWgmmaTiles, s.matrices());
    }
    return false;
}

// Columns of the tiles: 256 read less, 128 leave fewer SMs idle. TF32 and integers have 256 alone.
template <class T>
int wgmma_columns(const MatmulShape& s) {
    if (sizeof(matmul_element_t<T>) != 2 && !kIsPromoted<T>) return 256;
    const int64_t wide_tiles = ceil_div<int64_t>(s.m, kWgmmaRows) * ceil_div<int64_t>(s.n, columns_of(s, 256));
    return s.n <= 128 || wide_tiles < ceil_div(kReferenceSms, s.matrices()) ? 128 : 256;
}

// Whether TMA can load an operand of `rows` rows of A or columns of B, aligned to 16 bytes, `row` apart and its K elements
// `column`: K-major, or MN-major of 16 bits; grouped along k it is MN-major. `step` is 0 if all matrices share it. Tensor
// maps need addresses on the host.
template <class T>
bool fits_tma(const MatrixStrides& at, int64_t row, int64_t column, int64_t rows, int64_t k, int64_t step, Grouped grouped) {
    constexpr int64_t kSize = sizeof(matmul_element_t<T>), kMaxBytes = int64_t(1) << 40;
    const bool is_k_major = column == 1;
    if (at.list != nullptr || at.step < 0 || (!is_k_major && kSize != 2) || (is_k_major && grouped == Grouped::kK))
        return false;
    const int64_t inner = is_k_major ? k : rows, outer = is_k_major ? rows : k, pitch = is_k_major ? row : column;
    const int64_t distance = step != 0 ? step : pitch * outer;
    return pitch > 0 && pitch >= inner && pitch < kMaxBytes / kSize && distance > 0 && distance < kMaxBytes / kSize;
}

}  // namespace bk
