// SPDX-License-Identifier: Apache-2.0
// Tensor-core GEMM for sm_80 and newer: mma.sync on tiles that cp.async loads, in a ring of kMatmulStages stages.
//
// A block of four warps computes a kSide x kSide tile, each warp a quarter of it in registers. The order of additions
// depends on the kernel and k alone.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/intrinsics/fp8_factors.cuh"
#include "core/reference_chip.h"
#include "core/types/vec.h"
#include "gemm/scaled_epilogue.h"
#include "gemm/tiled/matmul_store_pairs.cuh"
#include "gemm/tiled/matmul_tile.cuh"
#include "gemm/tiled/matmul_tile_scheduler.cuh"

namespace bk {

// The mma of T, and the K elements whose sum cannot overflow its accumulators.
template <class T>
struct MmaTraits {
    using E = matmul_element_t<T>;
    using Step = Mma<E>;
    using Sum = typename Step::Sum;
    static constexpr bool kIsInteger = std::is_integral_v<Sum> && !std::is_same_v<E, b1x8>;
    static constexpr int64_t kMaxK = kIsInteger ? 32768 : INT64_MAX;  // products of bytes are at most 2^16

    // Converts an accumulator over `depth` K elements to the epilogue's input.
    template <class S>
    static BK_DEVICE matmul_scalar_t<T> finalize(S sum, int64_t depth) {
        if constexpr (std::is_same_v<E, b1x8>) {  // differing bits, out of all bits of the tiles, zero padding included
            const int64_t bits = (depth + kMatmulDepth - 1) / kMatmulDepth * kMatmulDepth * kElementsPerByte<E>;
            return static_cast<int32_t>((bits - sum) / 2);
        } else if constexpr (kWidenScale<E> != 1) {
            return static_cast<matmul_scalar_t<T>>(sum / (kWidenScale<E> * kWidenScale<E>));
        } else if constexpr (std::is_integral_v<matmul_scalar_t<T>>) {
            return saturated_sum(sum);
        } else {
            return static_cast<matmul_scalar_t<T>>(sum);
        }
    }
};

template <int kSide>
constexpr int kMatmulStages = kSide == 128 ? 3 : 4;

template <int kSide>
constexpr int kMatmulBytes = 2 * kMatmulStages<kSide> * kSide * kMatmulDepth;

// Columns of a tile: gated tiles have half as many of each B, those of the gate in the second half.
template <class T>
BK_HD int64_t columns_of(const Matmul<T>& p, int side) {
    return kMayBeGated<T> && p.gate != nullptr ? side / 2 : side;
}
inline int64_t columns_of(const MatmulShape& s, int side) { return s.is_gated ? side / 2 : side; }

// A warp's quarter of the tile's accumulators.
template <class T, int kSide>
struct WarpAccumulators {
    using Kind = MmaTraits<T>;
    using Sum = typename Kind::Sum;
    static constexpr int kRows = kSide / 2 / 16, kColumns = kSide / 2 / 8;
    // Integer sums that may overflow 32 bits are promoted to 64, in small tiles, where registers allow it.
    static constexpr bool kPromotesTo64 = Kind::kIsInteger && kSide == 64;
    // Sums over scale blocks are promoted too, once scaled.
    static constexpr bool kHasTotals = kPromotesTo64 || (kIsScaled<T> && kSide == 64);
    Sum sum[kRows][kColumns][4];
    std::conditional_t<kIsScaled<T>, float, int64_t> total[kHasTotals ? kRows : 1][kHasTotals ? kColumns : 1][4];

    BK_DEVICE void clear() {
        for (int i = 0; i < kRows; ++i)
            for (int j = 0; j < kColumns; ++j)
                for (int v = 0; v < 4; ++v) {
                    sum[i][j][v] = 0;
                    if constexpr (kHasTotals) total[i][j][v] = 0;
                }
    }

    BK_DEVICE void promote() {
        for (int i = 0; i < kRows; ++i)
            for (int j = 0; j < kColumns; ++j)
                for (int v = 0; v < 4; ++v) {
                    total[i][j][v] += sum[i][j][v];
                    sum[i][j][v] = 0;
                }
    }

    // `row_scales` are those of the lane's rows, two for each mma.
    BK_DEVICE void promote_scaled(const float (&row_scales)[kRows][2], float column_scale) {
        for (int i = 0; i < kRows; ++i)
            for (int j = 0; j < kColumns; ++j)
                for (int v = 0; v < 4; ++v) {
                    total[i][j][v] += static_cast<float>(sum[i][j][v]) * (row_scales[i][v / 2] * column_scale);
                    sum[i][j][v] = 0;
                }
    }

    BK_DEVICE matmul_scalar_t<T> result(int i, int j, int v, int64_t depth) const {
        if constexpr (kIsScaled<T> && kHasTotals)
            return total[i][j][v] + static_cast<float>(sum[i][j][v]);
        else if constexpr (kPromotesTo64)
            return Kind::finalize(total[i][j][v] + sum[i][j][v], depth);
        else
            return Kind::finalize(sum[i][j][v], depth);
    }
};

// Pitch of staged rows, padded against bank conflicts.
template <int kSide>
constexpr int kStagedPitch = kSide + 8;

// Stages 16 rows of each warp's results, those of pass number `pass`: 32 rows of the tile, the upper half's first.
template <class T, int kSide>
BK_DEVICE void stage_rows(matmul_scalar_t<T>* staging, const WarpAccumulators<T, kSide>& sums, int pass, int warp_row,
                          int warp_column, int lane, int64_t depth) {
    constexpr int kPitch = kStagedPitch<kSide>;
    static_assert(32 * kPitch * sizeof(matmul_scalar_t<T>) <= kMatmulBytes<kSide>, "two row blocks fit where the tiles were");
    const int warp_staged_row = warp_row == 0 ? 0 : 16;
#pragma unroll
    for (int i = 0; i < WarpAccumulators<T, kSide>::kRows; ++i) {
        if (i != pass) continue;
#pragma unroll
        for (int j = 0; j < WarpAccumulators<T, kSide>::kColumns; ++j)
            for (int v = 0; v < 4; ++v)
                staging[(warp_staged_row + lane / 4 + v / 2 * 8) * kPitch + warp_column + 8 * j + lane % 4 * 2 + v % 2] =
                    sums.result(i, j, v, depth);
    }
}

// Row of the tile that a staged row holds.
template <int kSide>
BK_DEVICE int tile_row_of(int staged_row, int pass) {
    return staged_row / 16 * (kSide / 2) + 16 * pass + staged_row % 16;
}

// Stages the block's results in shared memory, 16 rows of each warp at a time, so that the epilogue goes along rows.
template <class T, int kSide>
BK_DEVICE void store_sums(const Matmul<T>& p, const SplitK<matmul_scalar_t<T>>& split, const WarpAccumulators<T, kSide>& sums,
                          char* shared, const TileCoord& coord, int warp_row, int warp_column, int thread, bool in_pairs) {
    using S = matmul_scalar_t<T>;
    constexpr int kPitch = kStagedPitch<kSide>, kPasses = WarpAccumulators<T, kSide>::kRows, kPairs = kSide / 2;
    S* const staging = reinterpret_cast<S*>(shared);
    const int lane = thread % 32;
#pragma unroll 1
    for (int pass = 0; pass < kPasses; ++pass) {
        __syncthreads();
        stage_rows<T, kSide>(staging, sums, pass, warp_row, warp_column, lane, p.k);
        __syncthreads();
#pragma unroll 1
        for (int index = thread; index < 32 * kPairs; index += kMatmulThreads) {
            const int staged_row = index / kPairs, at = index % kPairs * 2;
            const int64_t row = coord.row + tile_row_of<kSide>(staged_row, pass), column = coord.column + at;
            if (row >= coord.row_end || column >= coord.column_end) continue;
            const S* const pair = staging + staged_row * kPitch + at;
            if constexpr (kMayBeGated<T>)
                if (p.gate != nullptr) {
                    if (at >= kSide / 2) continue;
                    for (int v = 0; v < 2 && column + v < coord.column_end; ++v)
                        p.epilogue.store_gated(row, column + v, pair[v], pair[v + kSide / 2]);
                    continue;
                }
            if (split.count > 1)
                store_partial(split, coord, p.m, p.n, row, column, pair[0], pair[1]);
            else
                store_pair(p.epilogue, coord.matrix, row, column, coord.column_end, pair[0], pair[1], in_pairs);
        }
    }
}

// TF32 residual of x, x - tf32(x), itself rounded to TF32.
BK_DEVICE uint32_t tf32_residual(uint32_t bits, uint32_t rounded) {
    if ((rounded & 0x7f800000u) == 0x7f800000u) return 0;
    return round_to_tf32(bit_cast<uint32_t>(bit_cast<float>(bits) - bit_cast<float>(rounded)));
}

// Splits words into TF32 values and their residuals.
template <int N>
BK_DEVICE void split_tf32(uint32_t (&words)[N], uint32_t (&residual)[N]) {
#pragma unroll
    for (int v = 0; v < N; ++v) {
        const uint32_t rounded = round_to_tf32(words[v]);
        residual[v] = tf32_residual(words[v], rounded);
        words[v] = rounded;
    }
}

template <class T, int kSide, bool kAIsMnMajor, bool kBIsMnMajor>
BK_DEVICE void add_tile(WarpAccumulators<T, kSide>& sums, const char* a_tile, const char* b_tile, int row, int column,
                        int lane) {
    using Kind = MmaTraits<T>;
    using E = typename Kind::E;
    constexpr int kRows = WarpAccumulators<T, kSide>::kRows, kColumns = WarpAccumulators<T, kSide>::kColumns;
#pragma unroll
    for (int step = 0; step < kMatmulSteps; ++step) {
        uint32_t a[kRows][4], b[kColumns][2];
#pragma unroll
        for (int i = 0; i < kRows; ++i) load_a<E, kSide, kAIsMnMajor>(a[i], a_tile, row + 16 * i, step, lane);
#pragma unroll
        for (int j = 0; j < kColumns; j += 2) {
            uint32_t pair[2][2];
            load_b<E, kSide, kBIsMnMajor>(pair, b_tile, column + 8 * j, step, lane);
            for (int v = 0; v < 4; ++v) b[j + v / 2][v % 2] = pair[v / 2][v % 2];
        }
        if constexpr (std::is_same_v<T, tf32>) {
#pragma unroll
            for (int i = 0; i < kRows; ++i)
                for (int v = 0; v < 4; ++v) a[i][v] = round_to_tf32(a[i][v]);
#pragma unroll
            for (int j = 0; j < kColumns; ++j)
                for (int v = 0; v < 2; ++v) b[j][v] = round_to_tf32(b[j][v]);
        }
        if constexpr (std::is_same_v<T, tf32x3>) {
            uint32_t a_residual[kRows][4], b_residual[kColumns][2];
#pragma unroll
            for (int i = 0; i < kRows; ++i) split_tf32(a[i], a_residual[i]);
#pragma unroll
            for (int j = 0; j < kColumns; ++j) split_tf32(b[j], b_residual[j]);
#pragma unroll
            for (int i = 0; i < kRows; ++i)
#pragma unroll
                for (int j = 0; j < kColumns; ++j) Kind::Step::run(sums.sum[i][j], a_residual[i], b[j]);
#pragma unroll
            for (int i = 0; i < kRows; ++i)
#pragma unroll
                for (int j = 0; j < kColumns; ++j) Kind::Step::run(sums.sum[i][j], a[i], b_residual[j]);
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i)
#pragma unroll
            for (int j = 0; j < kColumns; ++j) Kind::Step::run(sums.sum[i][j], a[i], b[j]);
    }
}

// Scales and promotes the sums over scale block `block`; the tile's columns are in one block, and `row` is the warp's
// first.
template <class T, int kSide>
BK_DEVICE void promote_block(WarpAccumulators<T, kSide>& sums, const Matmul<T>& p, const TileCoord& coord, int64_t row,
                             int64_t block, int lane) {
    constexpr int kRows = WarpAccumulators<T, kSide>::kRows;
    float row_scales[kRows][2];
    for (int i = 0; i < kRows; ++i)
        for (int half = 0; half < 2; ++half) {
            const int64_t r = row + 16 * i + 8 * half + lane / 4;
            row_scales[i][half] = p.epilogue.scale_of_row(r < coord.row_end ? r : coord.row_end - 1, block);
        }
    sums.promote_scaled(row_scales, p.epilogue.scale_of_column(coord.column, block));
}

// Minimum resident blocks per SM: five of the small tiles of 16-bit and TF32 operands fit.
template <class T, int kSide>
constexpr int kMatmulBlocks = kSide == 64 && (sizeof(matmul_element_t<T>) == 2 || std::is_same_v<T, tf32>) ? 5 : 1;

template <class T, int kSide, LoadMode kModeA, LoadMode kModeB>
__global__ void __launch_bounds__(kMatmulThreads, (kMatmulBlocks<T, kSide>))
    matmul_kernel(const __grid_constant__ Matmul<T> p, const __grid_constant__ SplitK<matmul_scalar_t<T>> split,
                  int64_t tiles_m, int64_t tiles_n, bool in_pairs) {
    using E = matmul_element_t<T>;
    using Kind = MmaTraits<T>;
    constexpr int kStages = kMatmulStages<kSide>, kBytes = kSide * kMatmulDepth;
    constexpr int64_t kDepth = kMatmulDepth / static_cast<int>(sizeof(E)), kPromoteEvery = Kind::kMaxK / kDepth;
    BK_LAUNCH_SHARED(uint4, shared_words);
    char* const shared = reinterpret_cast<char*>(shared_words);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int warp_row = warp / 2 * (kSide / 2), warp_column = warp % 2 * (kSide / 2);
    const TileCoord coord = coord_of_block(p, split, tiles_m, tiles_n, kSide, static_cast<int>(columns_of(p, kSide)));
    if (coord.row_end == 0) return;
    const OperandView<E> a{first_k_element(p.a, p.a_at, p.a_at.column, coord), coord.row_end, coord.k_extent, p.a_at.row,
                           p.a_at.column};
    const OperandView<E> b{first_k_element(p.b, p.b_at, p.b_at.row, coord), coord.column_end, coord.k_extent, p.b_at.column,
                           p.b_at.row};
    TileLoader<E, kSide, kModeA> a_loader(a, coord.row, thread);
    TileLoader<E, kSide, kModeB, kMayBeGated<T>> b_loader(b, coord.column, thread, p.gate);
    const int64_t tiles = (coord.k_extent + kDepth - 1) / kDepth;
    const auto fill = [&](int64_t tile) {
        char* const stage = shared + tile % kStages * (2 * kBytes);
        if (tile < tiles) {
            a_loader.fill(stage, tile);
            b_loader.fill(stage + kBytes, tile);
        }
        end_copy_group();  // an empty group keeps the count
    };

    WarpAccumulators<T, kSide> sums;
    sums.clear();
    for (int64_t tile = 0; tile < kStages - 1; ++tile) fill(tile);
    for (int64_t tile = 0; tile < tiles; ++tile) {
        wait_for_copies<kStages - 2>();
        __syncthreads();  // the tile has arrived for all, and all have read the one before
        fill(tile + kStages - 1);
        const char* const stage = shared + tile % kStages * (2 * kBytes);
        add_tile<T, kSide, kModeA == LoadMode::kMnMajor, kModeB == LoadMode::kMnMajor>(sums, stage, stage + kBytes, warp_row,
                                                                                       warp_column, lane);
        if constexpr (kIsScaled<T> && WarpAccumulators<T, kSide>::kHasTotals) {
            constexpr int64_t kBlock = kScaleBlock / kDepth;
            if (p.epilogue.is_by_blocks() && (tile % kBlock == kBlock - 1 || tile == tiles - 1))
                promote_block(sums, p, coord, coord.row + warp_row, coord.k_begin / kScaleBlock + tile / kBlock, lane);
        }
        if constexpr (WarpAccumulators<T, kSide>::kPromotesTo64)
            if (tile % kPromoteEvery == kPromoteEvery - 1) sums.promote();
    }
    wait_for_copies<0>();

    store_sums(p, split, sums, shared, coord, warp_row, warp_column, thread, in_pairs);
}

// --- choice of tile and load mode ---

// Whether 16-byte copies along the contiguous axis are aligned.
template <class E>
bool is_aligned_by_16(const E* data, const MatrixStrides& at) {
    const int64_t pitch = at.row == 1 ? at.column : at.row, lanes = kCopyBytes / static_cast<int64_t>(sizeof(E));
    const bool begins = at.list != nullptr ? at.list_is_aligned : is_aligned(data, kCopyBytes) && at.step % lanes == 0;
    return begins && pitch % lanes == 0;
}

inline Status count_tiles(int64_t tiles_m, int64_t tiles_n, int64_t batch, int64_t* tiles) {
    if (!__builtin_mul_overflow(tiles_m * tiles_n, batch, tiles) && *tiles <= kMaxGridX) return Status::kOk;
    return fail(Status::kUnsupported, "%lld products of %lld x %lld tiles are more than a grid has blocks",
                static_cast<long long>(batch), static_cast<long long>(tiles_m), static_cast<long long>(tiles_n));
}

// Blocks of a grid with one side x side tile each.
template <class T, class S>
Status count_blocks(const Matmul<T>& p, const SplitK<S>& split, int side, int64_t* blocks) {
    const int64_t matrices = p.grouped == Grouped::kRows ? 1 : p.batch * split.count;
    return count_tiles(count_row_tiles(p, side), ceil_div<int64_t>(p.n, columns_of(p, side)), matrices, blocks);
}

template <class T>
using SplitKOf = SplitK<matmul_scalar_t<T>>;

template <class T, int kSide, LoadMode kModeA, LoadMode kModeB>
Status launch_tiles(const Launch& launch, const Matmul<T>& p, const SplitKOf<T>& split) {
    int64_t tiles = 0;
    BK_TRY(count_blocks(p, split, kSide, &tiles));
    Grid grid{dim3(static_cast<unsigned>(tiles)), dim3(kMatmulThreads)};
    grid.shared = kMatmulBytes<kSide>;
    return launch_kernel(launch, grid, matmul_kernel<T, kSide, kModeA, kModeB>, p, split, ceil_div<int64_t>(p.m, kSide),
                         ceil_div<int64_t>(p.n, columns_of(p, kSide)), stores_pairs(p.epilogue));
}

// Load modes of tiles of A and B.
struct LoadModes {
    LoadMode a, b;
};

template <class E>
constexpr LoadModes load_modes(const KMajor& k_major, bool is_aligned) {
    if (is_aligned) {
        if (k_major.a && k_major.b) return {LoadMode::kKMajor, LoadMode::kKMajor};
        if (sizeof(E) > 1 && k_major.a) return {LoadMode::kKMajor, LoadMode::kMnMajor};
        if (sizeof(E) > 1 && !k_major.b) return {LoadMode::kMnMajor, LoadMode::kMnMajor};
        if (sizeof(E) == 2) return {LoadMode::kMnMajor, LoadMode::kKMajor};
    }
    return {LoadMode::kElements, LoadMode::kElements};
}

template <class T>
KMajor k_major_of(const Matmul<T>& p) {
    return {p.a_at.column == 1, p.b_at.row == 1 && p.b_at.column != 0};
}

// Whether A, B and the gate are loaded by 16-byte copies.
template <class T>
bool a_is_aligned(const Matmul<T>& p) {
    return is_aligned_by_16(p.a, p.a_at);
}
template <class T>
bool b_is_aligned(const Matmul<T>& p) {
    return is_aligned_by_16(p.b, p.b_at) && (p.gate == nullptr || is_aligned_by_16(p.gate, p.b_at));
}

template <class T, int kSide>
Status launch_by_load_mode(const Launch& launch, const Matmul<T>& p, const SplitKOf<T>& split = {}) {
    using E = matmul_element_t<T>;
    const LoadModes modes = load_modes<E>(k_major_of(p), a_is_aligned(p) && b_is_aligned(p));
    if (modes.a == LoadMode::kKMajor && modes.b == LoadMode::kKMajor)
        return launch_tiles<T, kSide, LoadMode::kKMajor, LoadMode::kKMajor>(launch, p, split);
    if constexpr (sizeof(E) > 1) {
        if (modes.a == LoadMode::kKMajor)
            return launch_tiles<T, kSide, LoadMode::kKMajor, LoadMode::kMnMajor>(launch, p, split);
        if (modes.b == LoadMode::kMnMajor)
            return launch_tiles<T, kSide, LoadMode::kMnMajor, LoadMode::kMnMajor>(launch, p, split);
        if constexpr (sizeof(E) == 2)
            if (modes.b == LoadMode::kKMajor)
                return launch_tiles<T, kSide, LoadMode::kMnMajor, LoadMode::kKMajor>(launch, p, split);
    }
    return launch_tiles<T, 64, LoadMode::kElements, LoadMode::kElements>(launch, p, split);
}

// Whether a GEMM may have 128-wide tiles: f64 and 3xTF32 fill the registers with small ones.
template <class T>
constexpr bool kHasLargeTiles = sizeof(matmul_element_t<T>) < 8 && !std::is_same_v<T, tf32x3>;

// Side of the block tiles. 128-wide ones read less; 64-wide ones leave fewer SMs idle, are split along K, promote long
// integer sums and those over scale blocks, whose accumulators would not fit twice in registers, and load elements.
template <class T>
int mma_side(const MatmulShape& s, int64_t slices) {
    using E = matmul_element_t<T>;
    const bool loads_elements = load_modes<E>(s.k_major, s.a.is_aligned && s.b.is_aligned).a == LoadMode::kElements;
    if (!kHasLargeTiles<T> || slices > 1 || s.has_block_scales || loads_elements) return 64;
    if (s.k > MmaTraits<T>::kMaxK || s.average_rows() <= 64 || s.n <= 64) return 64;
    const int64_t large = ceil_div<int64_t>(s.m, 128) * ceil_div<int64_t>(s.n, columns_of(s, 128));
    return large >= ceil_div(kReferenceSms, s.matrices()) ? 128 : 64;
}

template <class T>
Status launch_mma_tiles(const Launch& launch, const Matmul<T>& p, const SplitKOf<T>& split, int side) {
    if constexpr (kHasLargeTiles<T>)
        if (side == 128) return launch_by_load_mode<T, 128>(launch, p, split);
    return launch_by_load_mode<T, 64>(launch, p, split);
}

}  // namespace bk
