// SPDX-License-Identifier: Apache-2.0
// f32 GEMM on FMA: block tiles of 128 x 128 by four warps, 64 x 64 a warp, 16 x 8 a thread; or half of each extent.
// Operands arrive by cp.async, double-buffered, and keep their memory order in shared memory.
#pragma once

#include <cstdint>

#include "core/intrinsics/async_copy.cuh"
#include "gemm/tiled/matmul_mma.cuh"

namespace bk {

constexpr int kSimtSide = 128;  // of large block tiles
constexpr int kSimtThreads = 128;
constexpr int kSimtDepth = 32, kSimtStages = 2;         // K elements and stages: 73 KB of the 99 of sm_86
constexpr int kSimtRowLanes = 4, kSimtColumnLanes = 8;  // of a warp
constexpr int kSimtK = 4;  // K elements in registers at once, for all columns and four rows of a thread
constexpr int kSimtRowsAtOnce = 4;

// A tile of kSide rows of A or columns of B: kSide rows of kSimtDepth if K-major, else kSimtDepth rows of kSide. Rows
// are padded by four elements against bank conflicts.
template <LoadMode kMode, int kSide>
struct SimtTile {
    static constexpr bool kIsMnMajor = kMode == LoadMode::kMnMajor;
    static constexpr int kRowElements = kIsMnMajor ? kSide : kSimtDepth, kTileRows = kIsMnMajor ? kSimtDepth : kSide;
    static constexpr int kPitch = kRowElements + 4, kElements = kPitch * kTileRows;
    static constexpr int kVectors = kRowElements / 4;            // 16-byte vectors of a row
    static constexpr int kRowsAtOnce = kSimtThreads / kVectors;  // rows filled at once
    static constexpr int kPasses = kTileRows / kRowsAtOnce;

    // Row i of a thread in its warp's tile, one of kLanes threads: in groups of four, or every kLanes-th.
    template <int kLanes>
    static BK_HD int row(int lane, int i) {
        return kIsMnMajor ? i / 4 * kLanes * 4 + lane * 4 + i % 4 : i * kLanes + lane;
    }

    // Loads kSimtK K elements from k on of a thread's rows from `first` on; the tile starts at the warp's first
    // row.
    template <int kLanes, int kCount>
    static BK_DEVICE void load_k(float (&x)[kSimtK][kCount], const float* tile, int lane, int first, int k) {
        if constexpr (kIsMnMajor) {
#pragma unroll
            for (int t = 0; t < kSimtK; ++t)
#pragma unroll
                for (int i = 0; i < kCount; i += 4) {
                    const auto four = load<4>(tile + (k + t) * kPitch + row<kLanes>(lane, first + i));
                    for (int v = 0; v < 4; ++v) x[t][i + v] = four.lane[v];
                }
        } else {
#pragma unroll
            for (int i = 0; i < kCount; ++i) {
                const auto k_count = load<kSimtK>(tile + row<kLanes>(lane, first + i) * kPitch + k);
                for (int t = 0; t < kSimtK; ++t) x[t][i] = k_count.lane[t];
            }
        }
    }
};

// A thread's share of loading tiles; elements outside the operand are zeros. If `gate` is not null, the upper half of
// the tile's rows comes from it, beginning at `first` too.
template <LoadMode kMode, int kSide>
class SimtLoader {
    using Tile = SimtTile<kMode, kSide>;
    static constexpr int kHalf = kSide / 2;
    const float *lower_, *upper_, *valid_address_;    // first tile's rows in each half; an MN-major row is in one half
    int64_t row_step_, k_step_, k_left_;              // row stride, and K stride; K elements from the thread's first on
    int lower_rows_left_, upper_rows_left_, offset_;  // rows from the thread's first on
    int full_tiles_;                                  // tiles inside the operand for all threads

public:
    BK_DEVICE SimtLoader(const OperandView<float>& source, int64_t first, int thread, const float* gate = nullptr)
        : valid_address_(source.data),
          row_step_(Tile::kRowsAtOnce * (Tile::kIsMnMajor ? source.column : source.row)),
          k_step_(source.column) {
        const int tile_row = thread / Tile::kVectors, vector_start = thread % Tile::kVectors * 4;
        const int row = Tile::kIsMnMajor ? vector_start : tile_row, k = Tile::kIsMnMajor ? tile_row : vector_start;
        const int64_t rows = source.rows - first;
        k_left_ = source.depth - k;
        offset_ = tile_row * Tile::kPitch + vector_start;
        lower_ = upper_ = source.data + (first + row) * source.row + k * source.column;
        lower_rows_left_ = upper_rows_left_ = (rows < kSide ? static_cast<int>(rows) : kSide) - row;
        if (gate != nullptr) {
            upper_ = gate + (first + row - kHalf) * source.row + k * source.column;
            upper_rows_left_ += kHalf;
            if (Tile::kIsMnMajor && row >= kHalf) {
                lower_ = upper_;
                lower_rows_left_ = upper_rows_left_;
            }
        }
        const bool has_rows = kMode != LoadMode::kElements && rows >= (gate == nullptr ? kSide : kHalf);
        full_tiles_ = has_rows ? static_cast<int>(source.depth / kSimtDepth) : 0;
    }

    // Loads tile number `tile` along k.
    BK_DEVICE void fill(float* to, int64_t tile) const {
        const int64_t k0 = tile * kSimtDepth, k_left = k_left_ - k0;
        const int k_count = k_left < 4 ? static_cast<int>(k_left) : 4;
        if (kMode != LoadMode::kElements && tile < full_tiles_) {
#pragma unroll
            for (int i = 0; i < Tile::kPasses; ++i) {
                const bool is_upper = !Tile::kIsMnMajor && i >= Tile::kPasses / 2;
                start_copy_16(to + offset_ + i * Tile::kRowsAtOnce * Tile::kPitch,
                              (is_upper ? upper_ : lower_) + k0 * k_step_ + i * row_step_, 16);
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < Tile::kPasses; ++i) {
            const bool is_upper = !Tile::kIsMnMajor && i >= Tile::kPasses / 2;
            const float* const from = (is_upper ? upper_ : lower_) + k0 * k_step_ + i * row_step_;
            const int rows = (is_upper ? upper_rows_left_ : lower_rows_left_) - (Tile::kIsMnMajor ? 0 : i * Tile::kRowsAtOnce);
            const int count = Tile::kIsMnMajor ? (i * Tile::kRowsAtOnce < k_left ? rows : 0) : (rows > 0 ? k_count : 0);
            float* const dst = to + offset_ + i * Tile::kRowsAtOnce * Tile::kPitch;
            if constexpr (kMode == LoadMode::kElements) {
#pragma unroll
                for (int v = 0; v < 4; ++v) start_copy_4(dst + v, v < count ? from + v * k_step_ : valid_address_, v < count);
            } else {
                const int bytes = count <= 0 ? 0 : count < 4 ? count * 4 : 16;
                start_copy_16(dst, bytes == 0 ? valid_address_ : from, bytes);
            }
        }
    }
};

template <int kSide, LoadMode kModeA, LoadMode kModeB>
constexpr unsigned kSimtBytes = kSimtStages * (SimtTile<kModeA, kSide>::kElements + SimtTile<kModeB, kSide>::kElements) * 4;

template <class T, int kSide, LoadMode kModeA, LoadMode kModeB>
__global__ void __launch_bounds__(kSimtThreads, kSide == kSimtSide ? 2 : 4)
    matmul_simt_kernel(const __grid_constant__ Matmul<T> p, const __grid_constant__ SplitKOf<T> split, int64_t tiles_m,
                       int64_t tiles_n, bool in_pairs) {
    using A = SimtTile<kModeA, kSide>;
    using B = SimtTile<kModeB, kSide>;
    constexpr int kHalf = kSide / 2;                                                   // rows, and columns, of a warp tile
    constexpr int kRows = kHalf / kSimtRowLanes, kColumns = kHalf / kSimtColumnLanes;  // of a thread tile
    BK_LAUNCH_SHARED(float, scratch);
    float* const a_tiles = scratch;
    float* const b_tiles = scratch + kSimtStages * A::kElements;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int row_lane = lane / kSimtColumnLanes, column_lane = lane % kSimtColumnLanes;
    const int half_row = warp / 2 * kHalf, half_column = warp % 2 * kHalf;
    const TileCoord coord = coord_of_block(p, split, tiles_m, tiles_n, kSide, static_cast<int>(columns_of(p, kSide)));
    if (coord.row_end == 0) return;
    const SimtLoader<kModeA, kSide> a(
        {first_k_element(p.a, p.a_at, p.a_at.column, coord), coord.row_end, coord.k_extent, p.a_at.row, p.a_at.column},
        coord.row, thread);
    const SimtLoader<kModeB, kSide> b(
        {first_k_element(p.b, p.b_at, p.b_at.row, coord), coord.column_end, coord.k_extent, p.b_at.column, p.b_at.row},
        coord.column, thread, p.gate);
    const int tiles = static_cast<int>((coord.k_extent + kSimtDepth - 1) / kSimtDepth);
    const auto start_tile = [&](int tile, int stage) {
        if (tile < tiles) {
            a.fill(a_tiles + stage * A::kElements, tile);
            b.fill(b_tiles + stage * B::kElements, tile);
        }
        end_copy_group();
    };
    float sum[kRows][kColumns] = {};
    for (int tile = 0; tile < kSimtStages - 1; ++tile) start_tile(tile, tile);
    int stage = 0;
    for (int tile = 0; tile < tiles; ++tile) {
        wait_for_copies<kSimtStages - 2>();
        __syncthreads();
        start_tile(tile + kSimtStages - 1, stage == 0 ? kSimtStages - 1 : stage - 1);
        const float* const a_tile = a_tiles + stage * A::kElements + half_row * (A::kIsMnMajor ? 1 : A::kPitch);
        const float* const b_tile = b_tiles + stage * B::kElements + half_column * (B::kIsMnMajor ? 1 : B::kPitch);
        stage = stage == kSimtStages - 1 ? 0 : stage + 1;
#pragma unroll
        for (int k = 0; k < kSimtDepth; k += kSimtK) {
            float columns[kSimtK][kColumns];
            B::template load_k<kSimtColumnLanes>(columns, b_tile, column_lane, 0, k);
#pragma unroll
            for (int first = 0; first < kRows; first += kSimtRowsAtOnce) {
                float rows[kSimtK][kSimtRowsAtOnce];
                A::template load_k<kSimtRowLanes>(rows, a_tile, row_lane, first, k);
#pragma unroll
                for (int t = 0; t < kSimtK; ++t)
#pragma unroll
                    for (int i = 0; i < kSimtRowsAtOnce; ++i)
#pragma unroll
                        for (int next = 0; next < kColumns; ++next) {
                            // A serpentine order: the column at each end is read once.
                            const int j = i % 2 == 0 ? next : kColumns - 1 - next;
                            sum[first + i][j] = math::fma(rows[t][i], columns[t][j], sum[first + i][j]);
                        }
            }
        }
    }
    wait_for_copies<0>();
    __syncthreads();

    // Stages one row of each thread at a time in shared memory: the epilogue is compiled once, not for each result.
    constexpr int kStagedRows = 2 * kSimtRowLanes, kStagingPitch = kSide + 4;
    static_assert(kStagedRows * kStagingPitch <= kSimtStages * A::kElements);
    float* const own_row = scratch + (warp / 2 * kSimtRowLanes + row_lane) * kStagingPitch + half_column;
#pragma unroll 1
    for (int pass = 0; pass < kRows; ++pass) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            if (i != pass) continue;
#pragma unroll
            for (int j = 0; j < kColumns; ++j) own_row[B::template row<kSimtColumnLanes>(column_lane, j)] = sum[i][j];
        }
        __syncthreads();
#pragma unroll 1
        for (int index = thread; index < kStagedRows * kHalf; index += kSimtThreads) {
            const int tile_row = index / kHalf, at = index % kHalf * 2;
            const float* const staged = scratch + tile_row * kStagingPitch + at;
            const int in_half = A::template row<kSimtRowLanes>(tile_row % kSimtRowLanes, pass);
            const int64_t row = coord.row + tile_row / kSimtRowLanes * kHalf + in_half, column = coord.column + at;
            if (row >= coord.row_end || column >= coord.column_end || (p.gate != nullptr && at >= kHalf)) continue;
            if (p.gate != nullptr)
                for (int v = 0; v < 2 && column + v < coord.column_end; ++v)
                    p.epilogue.store_gated(row, column + v, staged[v], staged[v + kHalf]);
            else if (split.count > 1)
                store_partial(split, coord, p.m, p.n, row, column, staged[0], staged[1]);
            else
                store_pair(p.epilogue, coord.matrix, row, column, coord.column_end, staged[0], staged[1], in_pairs);
        }
        __syncthreads();
    }
}

template <int kSide, LoadMode kModeA, LoadMode kModeB, class T>
Status launch_fma(const Launch& launch, const Matmul<T>& p, const SplitKOf<T>& split) {
    int64_t tiles = 0;
    BK_TRY(count_blocks(p, split, kSide, &tiles));
    const Grid grid{dim3(static_cast<unsigned>(tiles)), dim3(kSimtThreads), 1, kSimtBytes<kSide, kModeA, kModeB>};
    return launch_kernel(launch, grid, matmul_simt_kernel<T, kSide, kModeA, kModeB>, p, split, ceil_div<int64_t>(p.m, kSide),
                         ceil_div<int64_t>(p.n, columns_of(p, kSide)), stores_pairs(p.epilogue));
}

template <int kSide, class T>
Status launch_fma_by_load_mode(const Launch& launch, const Matmul<T>& p, const SplitKOf<T>& split) {
    if (!a_is_aligned(p) || !b_is_aligned(p))
        return launch_fma<kSide, LoadMode::kElements, LoadMode::kElements>(launch, p, split);
    const bool b_k_major = p.b_at.row == 1;
    if (p.a_at.column == 1)
        return b_k_major ? launch_fma<kSide, LoadMode::kKMajor, LoadMode::kKMajor>(launch, p, split)
                         : launch_fma<kSide, LoadMode::kKMajor, LoadMode::kMnMajor>(launch, p, split);
    return b_k_major ? launch_fma<kSide, LoadMode::kMnMajor, LoadMode::kKMajor>(launch, p, split)
                     : launch_fma<kSide, LoadMode::kMnMajor, LoadMode::kMnMajor>(launch, p, split);
}

// Side of the block tiles. Small ones, a quarter of the results, run at 7 / 8 of the rate of large ones, two of which an
// SM computes in the time of one; they win if large ones leave SMs idle.
inline int fma_side(const MatmulShape& s, int64_t slices) {
    constexpr int64_t kManyWaves = 64;
    const auto waves_of = [&](int side, int64_t per_wave) {
        const int64_t tiles = count_row_tiles(s, side) * ceil_div<int64_t>(s.n, columns_of(s, side));
        int64_t blocks = 0;
        return __builtin_mul_overflow(tiles, s.matrices() * slices, &blocks) ? kManyWaves : ceil_div(blocks, per_wave);
    };
    const int64_t waves = waves_of(kSimtSide, 2 * kReferenceSms);
    if (waves >= kManyWaves) return kSimtSide;
    return waves_of(kSimtSide / 2, kReferenceSms) < 7 * waves ? kSimtSide / 2 : kSimtSide;
}

template <class T>
Status launch_fma_tiles(const Launch& launch, const Matmul<T>& p, const SplitKOf<T>& split, int side) {
    return side == kSimtSide ? launch_fma_by_load_mode<kSimtSide>(launch, p, split)
                             : launch_fma_by_load_mode<kSimtSide / 2>(launch, p, split);
}

}  // namespace bk
