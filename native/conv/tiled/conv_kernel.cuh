// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM for sm_80 and newer: the block tiles, pipeline and warp tiles of gemm/tiled/matmul_mma.cuh on operands whose
// addresses are computed (gathered_tile.cuh). f32 runs on FMA in the same tiles.
//
// A block of four warps computes a kSide x kSide tile of one phase, group and slice of K. The order of additions depends on
// the kernel, K and the slices alone.
#pragma once

#include <cstdint>
#include <type_traits>

#include "conv/tiled/conv_gemm.h"
#include "conv/tiled/conv_store.cuh"
#include "conv/tiled/gathered_tile.cuh"
#include "core/math/math.h"
#include "gemm/tiled/matmul_mma.cuh"
#include "gemm/tiled/matmul_tile_scheduler.cuh"

namespace bk {

// Index maps that a block adjusts for its phase, in shared memory.
struct ConvBlockMaps {
    IndexMap a, b;                                          // along k
    int32_t row_shift[kConvAxes], result_shift[kConvAxes];  // coordinates of row 0
    int64_t row_offset, result_offset, depth;
};

// Shared memory of a block in bytes: stages, two tables for each operand, the maps, and the offsets of staged rows.
template <class E, int kSide, LoadMode kModeA, LoadMode kModeB>
constexpr unsigned kConvBytes =
    kMatmulBytes<kSide> + 2 * (kGatherEntries<E, kModeA> + kGatherEntries<E, kModeB>)*static_cast<int>(sizeof(IndexPosition)) +
    static_cast<int>(sizeof(ConvBlockMaps)) + 32 * static_cast<int>(sizeof(int64_t));

// Sets the maps of the phase with number `phase`; by one thread, behind a copy of the maps along k. Coordinates fit 32 bits.
BK_DEVICE void set_phase(ConvBlockMaps* maps, const ConvPhases& phases, uint32_t phase) {
    maps->depth = phases.channels;
    for (int d = kConvAxes; d-- > 0;) {
        const ConvPhaseAxis& axis = phases.axis[d];
        const uint32_t count = static_cast<uint32_t>(phases.along[d]);
        const int32_t first = static_cast<int32_t>(phase % count), from = first + axis.pad, remainder = from % axis.step;
        phase /= count;
        const int32_t candidates = axis.taps < axis.tap_step ? axis.taps : axis.tap_step;
        int32_t tap = 0, reached = 0;  // the first tap of the phase, and tap * dilation mod step
        while (tap < candidates && reached != remainder) {
            ++tap;
            reached = static_cast<int32_t>((int64_t{reached} + axis.dilation) % axis.step);
        }
        const bool has_taps = tap < candidates;
        const int32_t taps = has_taps ? (axis.taps - 1 - tap) / axis.tap_step + 1 : 0;
        const int32_t begin = has_taps ? (from - tap * axis.dilation) / axis.step : 0;
        maps->depth *= taps;
        maps->a.extent[d] = maps->b.extent[d] = taps == axis.most ? axis.count : axis.count_less;
        maps->row_shift[d] = begin;
        maps->row_offset += begin * axis.y_stride;
        maps->b.base += tap * axis.w_stride;
        maps->result_shift[d] = first;
        maps->result_offset += first * axis.x_stride;
    }
}

// f32 by FMA: the results of a lane are those that it has of mma.
template <int kSide, bool kAIsMnMajor, bool kBIsMnMajor>
BK_DEVICE void add_fma_tile(WarpAccumulators<float, kSide>& sums, const char* a_tile, const char* b_tile, int row, int column,
                            int lane) {
    constexpr int kRows = 2 * WarpAccumulators<float, kSide>::kRows, kColumns = WarpAccumulators<float, kSide>::kColumns;
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int vector = 0; vector < kMatmulDepth / kCopyBytes; ++vector) {
        float a[kRows][4];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            const int r = row + 8 * i + g;
            if constexpr (kAIsMnMajor) {
#pragma unroll
                for (int v = 0; v < 4; ++v)
                    a[i][v] = *reinterpret_cast<const float*>(mn_major_element<float, kSide>(a_tile, 4 * vector + v, r));
            } else {
                const auto four = load<4>(reinterpret_cast<const float*>(a_tile + k_major_offset(r, vector)));
#pragma unroll
                for (int v = 0; v < 4; ++v) a[i][v] = four.lane[v];
            }
        }
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
            float b[2][4];
            const int c = column + 8 * j + 2 * t;
            if constexpr (kBIsMnMajor) {
#pragma unroll
                for (int v = 0; v < 4; ++v) {
                    const auto pair =
                        load<2>(reinterpret_cast<const float*>(mn_major_element<float, kSide>(b_tile, 4 * vector + v, c)));
                    b[0][v] = pair.lane[0];
                    b[1][v] = pair.lane[1];
                }
            } else {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const auto four = load<4>(reinterpret_cast<const float*>(b_tile + k_major_offset(c + e, vector)));
#pragma unroll
                    for (int v = 0; v < 4; ++v) b[e][v] = four.lane[v];
                }
            }
#pragma unroll
            for (int v = 0; v < 4; ++v)
#pragma unroll
                for (int i = 0; i < kRows; ++i)
#pragma unroll
                    for (int e = 0; e < 2; ++e) {
                        float& sum = sums.sum[i / 2][j][i % 2 * 2 + e];
                        sum = math::fma(a[i][v], b[e][v], sum);
                    }
        }
    }
}

// Resident blocks that registers must allow: small integer tiles have 64-bit sums beside those of 32 bits.
template <class T, int kSide, LoadMode kMode>
constexpr int conv_blocks() {
    constexpr int kSize = static_cast<int>(sizeof(matmul_element_t<T>));
    if (kSide == 128) return 1;
    if (kSize == 1 || kSize == 8) return 2;
    return kSize == 4 || kMode == LoadMode::kElements ? 3 : 4;
}

template <class T, int kSide, LoadMode kModeA, LoadMode kModeB>
__global__ void __launch_bounds__(kMatmulThreads, (conv_blocks<T, kSide, kModeA>()))
    conv_kernel(const __grid_constant__ ConvGemm<T> p, const __grid_constant__ ConvStore<T> to,
                const __grid_constant__ SplitK<matmul_scalar_t<T>> split, int64_t tiles_m, int64_t tiles_n) {
    using E = matmul_element_t<T>;
    using Kind = MmaTraits<T>;
    constexpr int kStages = kMatmulStages<kSide>, kBytes = kSide * kMatmulDepth;
    constexpr int kEntriesA = kGatherEntries<E, kModeA>, kEntriesB = kGatherEntries<E, kModeB>;
    constexpr int64_t kDepth = kMatmulDepth / static_cast<int>(sizeof(E)), kPromoteEvery = Kind::kMaxK / kDepth;
    BK_LAUNCH_SHARED(uint4, shared_words);
    char* const shared = reinterpret_cast<char*>(shared_words);
    IndexPosition* const a_tables = reinterpret_cast<IndexPosition*>(shared + kMatmulBytes<kSide>);
    IndexPosition* const b_tables = a_tables + 2 * kEntriesA;
    ConvBlockMaps* const maps = reinterpret_cast<ConvBlockMaps*>(b_tables + 2 * kEntriesB);
    int64_t* const row_offsets = reinterpret_cast<int64_t*>(maps + 1);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int warp_row = warp / 2 * (kSide / 2), warp_column = warp % 2 * (kSide / 2);

    TileCoord coord;
    const int64_t tiles_of_group = tiles_m * tiles_n, block = blockIdx.x;
    set_tile(coord, block % tiles_of_group, tiles_m, tiles_n, kSide, kSide);
    int64_t rest = block / tiles_of_group;
    coord.slice = rest % split.count;
    rest /= split.count;
    coord.matrix = rest % p.groups;
    const int64_t phase = rest / p.groups;
    if (thread == 0) {
        maps->a = p.a.k;
        maps->b = p.b.k;
        for (int d = 0; d < kConvAxes; ++d) maps->row_shift[d] = maps->result_shift[d] = 0;
        maps->row_offset = maps->result_offset = 0;
        maps->depth = p.k;
        if (p.phases.is_phased) set_phase(maps, p.phases, static_cast<uint32_t>(phase));
    }
    __syncthreads();
    coord.k_begin = coord.slice * split.slice_k;
    coord.k_extent = maps->depth - coord.k_begin;
    if (split.count > 1 && coord.k_extent > split.slice_k) coord.k_extent = split.slice_k;
    const int64_t k_end = coord.k_begin + coord.k_extent;
    const int tiles = static_cast<int>((coord.k_extent + kDepth - 1) / kDepth);

    constexpr int32_t kNoShift[kConvAxes] = {0, 0, 0};
    // The operand of x or y's pixels has coordinates: A, but in a gradient of w B.
    constexpr bool kIsFilter = kModeA == LoadMode::kMnMajor, kIsPlainB = kModeB != LoadMode::kElements && !kIsFilter;
    const GatherLoader<E, kSide, kModeA, kIsFilter> a_loader(p.a, p.a.data + coord.matrix * p.a.group, maps->row_offset,
                                                             maps->row_shift, coord.row, p.m, thread);
    const GatherLoader<E, kSide, kModeB, kIsPlainB> b_loader(p.b, p.b.data + coord.matrix * p.b.group, 0, kNoShift,
                                                             coord.column, p.n, thread);
    const auto write_tables = [&](int tile) {
        const int64_t first = coord.k_begin + tile * kDepth;
        if (tile >= tiles) return;
        if (warp == 0) write_gather_table<E, kModeA>(a_tables + tile % 2 * kEntriesA, maps->a, first, k_end, lane);
        if (warp == 1) write_gather_table<E, kModeB>(b_tables + tile % 2 * kEntriesB, maps->b, first, k_end, lane);
    };
    const auto fill = [&](int tile) {
        char* const stage = shared + tile % kStages * (2 * kBytes);
        if (tile < tiles) {
            a_loader.fill(stage, a_tables + tile % 2 * kEntriesA);
            b_loader.fill(stage + kBytes, b_tables + tile % 2 * kEntriesB);
        }
        end_copy_group();  // an empty group keeps the count
    };

    WarpAccumulators<T, kSide> sums;
    sums.clear();
    write_tables(0);
    for (int tile = 0; tile < kStages - 1; ++tile) {
        __syncthreads();  // the tile's table is there, and the one before the last is read
        fill(tile);
        write_tables(tile + 1);
    }
    for (int tile = 0; tile < tiles; ++tile) {
        wait_for_copies<kStages - 2>();
        __syncthreads();  // the tile and the next table have arrived for all, and all have read those before
        fill(tile + kStages - 1);
        write_tables(tile + kStages);
        const char* const stage = shared + tile % kStages * (2 * kBytes);
        constexpr bool kAIsMnMajor = kModeA == LoadMode::kMnMajor, kBIsMnMajor = kModeB == LoadMode::kMnMajor;
        if constexpr (std::is_same_v<T, float>)
            add_fma_tile<kSide, kAIsMnMajor, kBIsMnMajor>(sums, stage, stage + kBytes, warp_row, warp_column, lane);
        else
            add_tile<T, kSide, kAIsMnMajor, kBIsMnMajor>(sums, stage, stage + kBytes, warp_row, warp_column, lane);
        if constexpr (WarpAccumulators<T, kSide>::kPromotesTo64)
            if (tile % kPromoteEvery == kPromoteEvery - 1) sums.promote();
    }
    wait_for_copies<0>();
    store_conv_tile<T, kSide>(p, to, split, sums, *maps, coord, shared, row_offsets, warp_row, warp_column, thread);
}

}  // namespace bk
