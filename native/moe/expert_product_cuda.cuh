// SPDX-License-Identifier: Apache-2.0
// Products of experts on the GPU. Segments: tensor-core tiles of 64 positions of an expert by 64 columns, with rows of A
// gathered by cp.async and weights copied, or decoded into shared memory; results are scattered. Positions: a warp for each
// result, on f32 rows.
#pragma once

#include "core/abi/launch_cuda.h"
#include "core/collectives/shuffle.cuh"
#include "gemm/tiled/matmul_mma.cuh"
#include "moe/expert_product.h"
#include "moe/sort_cuda.cuh"

namespace bk::moe {

constexpr int kSide = 64, kHistogramThreads = 256, kPositionWarps = 8;

// A thread's share of loading tiles of gathered rows; rows of no id are zeros.
template <class E>
class GatheredLoader {
    static constexpr int kLanes = kCopyBytes / static_cast<int>(sizeof(E)), kVectors = kMatmulDepth / kCopyBytes;
    static constexpr int kRowsAtOnce = kMatmulThreads / kVectors, kCopies = kSide / kRowsAtOnce;

public:
    BK_DEVICE GatheredLoader(const ExpertProduct& p, const TileCoord& coord, int thread)
        : base_(static_cast<const E*>(p.x)),
          depth_(coord.k_extent),
          row_(thread / kVectors),
          vector_(thread % kVectors),
          is_aligned_(reinterpret_cast<uintptr_t>(p.x) % kCopyBytes == 0 && p.k % kLanes == 0) {
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
            const int64_t position = coord.row + row_ + i * kRowsAtOnce;
            const int32_t id = position < coord.row_end ? p.ids[position] : -1;
            from_[i] = p.has(id) ? base_ + p.row_of(id) * p.k : nullptr;
        }
    }

    BK_DEVICE void fill(char* to, int64_t tile) const {
        const int64_t k = tile * (kMatmulDepth / static_cast<int64_t>(sizeof(E))) + vector_ * kLanes;
        const int bytes = bytes_left(depth_ - k, sizeof(E));
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
            char* const vector = to + k_major_offset(row_ + i * kRowsAtOnce, vector_);
            const E* const from = from_[i] == nullptr ? nullptr : from_[i] + k;
            if (is_aligned_) {
                start_copy_16(vector, from == nullptr || bytes == 0 ? base_ : from, from == nullptr ? 0 : bytes);
                continue;
            }
#pragma unroll 1
            for (int lane = 0; lane < kLanes; ++lane)
                reinterpret_cast<E*>(vector)[lane] = from != nullptr && k + lane < depth_ ? from[lane] : E{};
        }
    }

private:
    const E *base_, *from_[kCopies];
    int64_t depth_;
    int row_, vector_;
    bool is_aligned_;
};

// A thread decodes 16 K elements of a column for each tile.
template <class E>
class DecodingLoader {
    static constexpr int kLanes = kCopyBytes / static_cast<int>(sizeof(E)), kEach = 2 * kLanes;

public:
    BK_DEVICE DecodingLoader(const ExpertProduct& p, const TileCoord& coord, int thread)
        : format_(p.format), depth_(coord.k_extent), column_(thread / 2), half_(thread % 2) {
        const int64_t j = coord.column + column_;
        row_ = j < coord.column_end ? p.weight_row(coord.matrix, j) : nullptr;
    }

    BK_DEVICE void fill(char* to, int64_t tile) const {
        const int64_t k = tile * (2 * kEach) + half_ * kEach;  // blocks hold whole tiles
        E value[kEach];
        if (row_ == nullptr || k >= depth_) {
#pragma unroll
            for (int e = 0; e < kEach; ++e) value[e] = E{};
        } else {
            with_format(format_, [&](auto codec) {
                using Format = decltype(codec);
                const uint8_t* const block = row_ + k / Format::kBlock * Format::kBytes;
                const int first = static_cast<int>(k % Format::kBlock);
#pragma unroll
                for (int e = 0; e < kEach; e += 4) {
                    float four[4];
                    codec::values4<Format>(block, first + e, four);
                    for (int v = 0; v < 4; ++v) value[e + v] = narrow<E>(four[v]);
                }
            });
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            Vec<E, kLanes> vector;
            for (int lane = 0; lane < kLanes; ++lane) vector.lane[lane] = value[half * kLanes + lane];
            store(reinterpret_cast<E*>(to + k_major_offset(column_, half_ * 2 + half)), vector);
        }
    }

private:
    const uint8_t* row_;
    WeightFormat format_;
    int64_t depth_;
    int column_, half_;
};

// The weights' loader: copies of a dense [n, k] matrix, whatever its alignment, or decoded blocks.
template <class T, bool kIsDense>
BK_DEVICE auto weight_loader(const ExpertProduct& p, const TileCoord& coord, int thread) {
    if constexpr (kIsDense) {
        const OperandView<T> view{reinterpret_cast<const T*>(p.weight_row(coord.matrix, 0)), coord.column_end, coord.k_extent,
                                  p.k, 1};
        return TileLoader<T, kSide, LoadMode::kElements>(view, coord.column, thread);
    } else {
        return DecodingLoader<T>(p, coord, thread);
    }
}

// A lane's results of a row, two adjacent columns at a time.
template <class Out, class Sums>
BK_DEVICE void scatter_results(const ExpertProduct& p, const Sums& sums, const TileCoord& coord, int warp_row, int warp_column,
                               int lane) {
#pragma unroll
    for (int i = 0; i < Sums::kRows; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int64_t position = coord.row + warp_row + 16 * i + 8 * half + lane / 4;
            const int32_t id = position < coord.row_end ? p.ids[position] : -1;
            if (!p.has(id)) continue;
            const float weight = p.weight_of(id);
            Out* const row = static_cast<Out*>(p.out) + id * p.n;
#pragma unroll
            for (int j = 0; j < Sums::kColumns; ++j)
                for (int v = 0; v < 2; ++v) {
                    const int64_t column = coord.column + warp_column + 8 * j + lane % 4 * 2 + v;
                    if (column < coord.column_end) row[column] = narrow<Out>(weight * sums.sum[i][j][2 * half + v]);
                }
        }
}

template <class T, bool kIsDense>
__global__ void __launch_bounds__(kMatmulThreads)
    segments_kernel(const __grid_constant__ ExpertProduct p, const __grid_constant__ Matmul<T> groups, int64_t tiles_n) {
    constexpr int kStages = kMatmulStages<kSide>, kBytes = kSide * kMatmulDepth;
    constexpr int64_t kDepth = kMatmulDepth / static_cast<int>(sizeof(T));
    BK_LAUNCH_SHARED(uint4, shared_words);
    char* const shared = reinterpret_cast<char*>(shared_words);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int warp_row = warp / 2 * (kSide / 2), warp_column = warp % 2 * (kSide / 2);
    const TileCoord coord = find_grouped_tile(groups, blockIdx.x, static_cast<uint32_t>(tiles_n), kSide, kSide);
    if (coord.row_end == 0 || coord.k_extent == 0) return;  // no tile, or one of positions without an expert
    const GatheredLoader<T> rows(p, coord, thread);
    auto weights = weight_loader<T, kIsDense>(p, coord, thread);
    const int64_t tiles = (coord.k_extent + kDepth - 1) / kDepth;
    const auto fill = [&](int64_t tile) {
        char* const stage = shared + tile % kStages * (2 * kBytes);
        if (tile < tiles) {
            rows.fill(stage, tile);
            weights.fill(stage + kBytes, tile);
        }
        end_copy_group();
    };
    WarpAccumulators<T, kSide> sums;
    sums.clear();
    for (int64_t tile = 0; tile < kStages - 1; ++tile) fill(tile);
    for (int64_t tile = 0; tile < tiles; ++tile) {
        wait_for_copies<kStages - 2>();
        __syncthreads();
        fill(tile + kStages - 1);
        const char* const stage = shared + tile % kStages * (2 * kBytes);
        add_tile<T, kSide, false, false>(sums, stage, stage + kBytes, warp_row, warp_column, lane);
    }
    wait_for_copies<0>();
    using Out = std::conditional_t<kIsDense, T, float>;
    scatter_results<Out>(p, sums, coord, warp_row, warp_column, lane);
}

// Each range of equal adjacent experts adds its length at once.
template <class Count>
__global__ void __launch_bounds__(kHistogramThreads) count_experts_kernel(ExpertProduct p, Count* counts) {
    const int64_t i = int64_t{blockIdx.x} * kHistogramThreads + threadIdx.x;
    if (i >= p.m) return;
    const int32_t e = p.expert_of[i];
    if (e < 0 || e >= p.experts) return;
    const bool begins = i == 0 || p.expert_of[i - 1] != e, ends = i + 1 == p.m || p.expert_of[i + 1] != e;
    const Count change = (ends ? static_cast<Count>(i) + 1 : 0) - (begins ? static_cast<Count>(i) : 0);
    if (change != 0) atomicAdd(counts + e, change);
}

template <class Count>
__global__ void __launch_bounds__(kScanThreads) scan_counts_kernel(const Count* counts, int64_t experts, Count* offsets) {
    __shared__ uint32_t shared[32];
    store_offsets(counts, experts, offsets, shared);
}

template <class T, bool kIsDense>
Status launch_segments(const Launch& launch, const ExpertProduct& p, const int32_t* offsets) {
    Matmul<T> groups{};
    groups.m = p.m;
    groups.n = p.n;
    groups.k = p.k;
    groups.batch = p.experts;
    groups.grouped = Grouped::kRows;
    groups.offsets = offsets;
    const int64_t tiles_n = ceil_div<int64_t>(p.n, kSide);
    int64_t tiles = 0;
    BK_TRY(count_tiles(count_row_tiles(groups, kSide), tiles_n, 1, &tiles));
    Grid grid{dim3(static_cast<unsigned>(tiles)), dim3(kMatmulThreads)};
    grid.shared = kMatmulBytes<kSide>;
    return launch_kernel(launch, grid, segments_kernel<T, kIsDense>, p, groups, tiles_n);
}

// A warp computes one result.
template <class Row>
__global__ void __launch_bounds__(kPositionWarps * 32)
    positions_kernel(const __grid_constant__ ExpertProduct p, int64_t tiles_n) {
    const int64_t position = blockIdx.x / tiles_n;
    const int64_t j = blockIdx.x % tiles_n * kPositionWarps + threadIdx.x / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int32_t id = p.ids[position], e = p.expert_of[position];
    if (j >= p.n || e < 0 || e >= p.experts || !p.has(id)) return;
    const Row* const x = static_cast<const Row*>(p.x) + p.row_of(id) * p.k;
    const uint8_t* const row = p.weight_row(e, j);
    float sum = 0;
    with_format(p.format, [&](auto codec) {
        using Format = decltype(codec);
        for (int64_t k = lane * 4; k < p.k; k += 128) {
            float four[4];
            codec::values4<Format>(row + k / Format::kBlock * Format::kBytes, static_cast<int>(k % Format::kBlock), four);
            for (int v = 0; v < 4; ++v) sum = math::fma(widen(x[k + v]), four[v], sum);
        }
    });
    for (int distance = 16; distance > 0; distance /= 2) sum += shuffle_xor(sum, distance);
    if (lane == 0) static_cast<float*>(p.out)[id * p.n + j] = p.weight_of(id) * sum;
}

inline Status product_by_segments(const Launch& launch, const ExpertProduct& p, int32_t* counts, int32_t* offsets) {
    BK_TRY(fill_bytes(launch, counts, 0, sizeof(int32_t) * static_cast<size_t>(p.experts)));
    const Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(p.m, kHistogramThreads))), dim3(kHistogramThreads)};
    BK_TRY(launch_kernel(launch, grid, count_experts_kernel<uint32_t>, p, reinterpret_cast<uint32_t*>(counts)));
    BK_TRY(launch_kernel(launch, Grid{dim3(1), dim3(kScanThreads)}, scan_counts_kernel<int32_t>, counts, p.experts, offsets));
    const bool is_dense = p.format == WeightFormat::kDense;
    if (p.x_type == RowType::kF16)
        return is_dense ? launch_segments<f16, true>(launch, p, offsets) : launch_segments<f16, false>(launch, p, offsets);
    return is_dense ? launch_segments<bf16, true>(launch, p, offsets) : launch_segments<bf16, false>(launch, p, offsets);
}

inline Status product_by_positions(const Launch& launch, const ExpertProduct& p) {
    const int64_t tiles_n = ceil_div<int64_t>(p.n, kPositionWarps);
    int64_t blocks = 0;
    BK_TRY(count_tiles(p.m, tiles_n, 1, &blocks));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPositionWarps * 32)}, positions_kernel<float>, p,
                         tiles_n);
}

}  // namespace bk::moe
