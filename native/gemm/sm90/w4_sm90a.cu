// SPDX-License-Identifier: Apache-2.0
// Persistent warp-specialised Hopper GEMM with int4 weights, for many rows: wgmma takes weights from registers, where
// they are dequantised to f16, and activations from shared memory. sm_90a alone.
//
// A block computes 128-column tiles one after another: one producer warp issues TMA loads of activations and weights,
// 128 K elements a stage; two consumer warpgroups have 64 columns each, with all rows of the tile. Clusters of two
// blocks compute horizontally adjacent tiles: each loads half of the rows and multicasts them. Each tile accumulates in
// the order of k.
#include <algorithm>
#include <cstdint>

#include "core/intrinsics/cluster.cuh"
#include "core/intrinsics/pipeline_state.cuh"
#include "core/intrinsics/tensor_map.h"
#include "core/intrinsics/tma.cuh"
#include "core/intrinsics/wgmma.cuh"
#include "core/types/vec.h"
#include "gemm/sm90/w4_wgmma.h"
#include "gemm/tiled/matmul_mma.cuh"
#include "gemm/tiled/w4_dequantize.cuh"

namespace bk {
namespace {

constexpr int kWarpgroupThreads = 128, kConsumers = 2, kWarps = kConsumers * kWarpgroupThreads / 32;
constexpr int kTileColumns = kW4WgmmaColumns, kStageK = kW4WgmmaK, kHalfK = kStageK / 2;  // 128 bytes of a row
constexpr int kSteps = kHalfK / 16;
constexpr int kWeightBytes = kTileColumns * kStageK / 2;

template <int kRows>
struct W4Tile {
    static constexpr int kHalfBytes = kRows * kSwizzleBytes, kRowBytes = 2 * kHalfBytes, kPitch = kRowBytes + kWeightBytes;
    static constexpr int kStages = kRows == 128 ? 5 : 8;
    static constexpr int kStagingRows = 32, kStagingPitch = 24;  // elements, of which 16 are used
    static constexpr int kStagingBytes = kWarps * kStagingRows * kStagingPitch * 2;
    static constexpr int kShared = kStages * (kPitch + 2 * 8) + kStagingBytes + 1024;  // stages are 1024-byte aligned
};

struct W4Operands {
    TensorMap rows, weights;  // AWQ's weights; Marlin's are contiguous rows
    int blocks;               // of a cluster, 1 or 2
};

using Fragments = uint32_t[kSteps][4];

// Dequantises Marlin's weights to A fragments of a consumer thread. A stage is in one scale group, so its sums are
// scaled.
struct MarlinColumns {
    static constexpr bool kScalesAccumulators = true;
    const MarlinProduct& p;
    int64_t scale_index, upper_scale_index;  // of the scales of columns 16 w + g and 16 w + g + 8
    int word;                                // the thread's in 16 K elements

    BK_DEVICE MarlinColumns(const MarlinProduct& product, int64_t column, int warpgroup, int warp, int lane)
        : p(product), word(warpgroup * 128 + lane * 4 + warp) {
        const int64_t own = min(column, p.n - 64) + 16 * warp + lane / 4;  // a warpgroup beyond the last column stores nothing
        scale_index = marlin_scale_index(own, p.by_groups);
        upper_scale_index = marlin_scale_index(own + 8, p.by_groups);
    }

    BK_DEVICE void load_scales(float (&scale)[2], int step) const {
        const f16* const scales = p.scales + (p.by_groups ? step * p.n : 0);
        scale[0] = widen(scales[scale_index]);
        scale[1] = widen(scales[upper_scale_index]);
    }

    BK_DEVICE void make(Fragments& fragments, const char* weights, int, int half) {
        const uint32_t* const words = reinterpret_cast<const uint32_t*>(weights) + half * kSteps * (2 * kTileColumns) + word;
#pragma unroll
        for (int s = 0; s < kSteps; ++s) marlin_fragment(fragments[s], words[s * 2 * kTileColumns]);
    }

    static BK_DEVICE int bytes_of_stage(const MarlinProduct& p, int64_t column, int k) {
        return static_cast<int>(min(static_cast<int64_t>(kStageK), p.k - k)) / 16 * row_bytes(p, column);
    }
    static BK_DEVICE int row_bytes(const MarlinProduct& p, int64_t column) {
        return static_cast<int>(min(static_cast<int64_t>(kTileColumns), p.n - column)) * 8;
    }
    static BK_DEVICE void load_weights(char* to, const MarlinProduct& p, const W4Operands&, int64_t column, int k,
                                       uint64_t* barrier) {
        const int bytes = row_bytes(p, column);
        const int32_t* from = p.weights + k / 16 * (2 * p.n) + 2 * column;
#pragma unroll 1
        for (int s = 0; s < kStageK / 16 && k + 16 * s < p.k; ++s, from += 2 * p.n)
            bulk_load(to + s * (8 * kTileColumns), from, bytes, barrier);
    }
};

// Dequantises elements 2t and 2t + 1 of a word. `zero` is the zero point plus 1024 in the low half and plus 64 in the
// high one, as raised_pair raises even and odd elements.
BK_DEVICE uint32_t awq_pair(uint32_t word, uint32_t t, uint32_t zero, uint32_t scale) {
    const uint32_t bytes = __byte_perm(word, word, t * 0x1111u);
    return mul_f16x2(sub_f16x2(masked_with<0x00f0000fu, 0x54006400u>(bytes), zero), scale);
}

// Dequantises AWQ's weights. The four lanes of a column hold packed scales and zero points of four groups, and prefetch
// the next four.
struct AwqColumns {
    static constexpr bool kScalesAccumulators = false;
    const AwqProduct& p;
    int64_t own;  // column 16 w + g
    int lane, byte, groups_of_stage;
    uint32_t cached[2], prefetched[2];

    BK_DEVICE AwqColumns(const AwqProduct& product, int64_t column, int warpgroup, int warp, int warp_lane)
        : p(product), lane(warp_lane), groups_of_stage(static_cast<int>(kStageK / product.group)) {
        own = min(column, p.n - 64) + 16 * warp + lane / 4;
        byte = (warpgroup * 64 + 16 * warp + lane / 4) * (kStageK / 2);
        prefetch_group(0);
    }

    BK_DEVICE void prefetch_group(int group) {
        const AwqGroup next(p, own, static_cast<uint32_t>(group + lane % 4));
#pragma unroll
        for (int side = 0; side < 2; ++side) prefetched[side] = next.scale_and_zero(8 * side);
    }

    BK_DEVICE void make(Fragments& fragments, const char* weights, int step, int half) {
        const int group = step * groups_of_stage + half * groups_of_stage / 2, t = lane % 4;
        if (group % 4 == 0 && half * (2 - groups_of_stage) == 0) {
            cached[0] = prefetched[0], cached[1] = prefetched[1];
            prefetch_group(group + 4);
        }
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const uint32_t packed = __shfl_sync(~0u, cached[side], lane / 4 * 4 + group % 4);
            const uint32_t scale = (packed & 0xffffu) * 0x00010001u, zero = 0x54006400u + (packed >> 16) * 0x00100001u;
            const char* const from = weights + byte + side * 8 * (kStageK / 2) + half * (kHalfK / 2);
#pragma unroll
            for (int quarter = 0; quarter < 2; ++quarter) {
                const auto four = load<4>(reinterpret_cast<const uint32_t*>(from) + 4 * quarter);
#pragma unroll
                for (int w = 0; w < 4; ++w)  // lane t has elements 2t and 2t + 1, byte t, of each word
                    fragments[2 * quarter + w / 2][w % 2 * 2 + side] =
                        awq_pair(four.lane[w], static_cast<uint32_t>(t), zero, scale);
            }
        }
    }

    static BK_DEVICE int bytes_of_stage(const AwqProduct&, int64_t, int) { return kWeightBytes; }
    static BK_DEVICE void load_weights(char* to, const AwqProduct&, const W4Operands& operands, int64_t column, int k,
                                       uint64_t* barrier) {
        tma_load(to, operands.weights, k / 2, static_cast<int>(column), 0, barrier);
    }
};

// Producer: one thread issues all loads of a stage; in a cluster of two only its rank's half of the rows.
template <class Columns, int kRows, class P>
BK_DEVICE void load_stage(char* to, const P& p, const W4Operands& operands, int64_t row, int64_t column, int k,
                          uint64_t* barrier, int rank) {
    using Tile = W4Tile<kRows>;
    arrive_expecting(barrier, Tile::kRowBytes + Columns::bytes_of_stage(p, column, k));
    const int box_rows = kRows / operands.blocks, first = static_cast<int>(row) + rank * box_rows;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        char* const box = to + half * Tile::kHalfBytes + rank * box_rows * kSwizzleBytes;
        if (operands.blocks > 1)
            tma_load_multicast(box, operands.rows, k + half * kHalfK, first, 0, barrier, 3);
        else
            tma_load(box, operands.rows, k + half * kHalfK, first, 0, barrier);
    }
    Columns::load_weights(to + Tile::kRowBytes, p, operands, column, k, barrier);
}

template <int kRows>
BK_DEVICE void issue_mma(float (&sums)[kRows / 2], const Fragments& fragments, uint32_t rows, bool accumulates) {
    constexpr uint32_t kAcross = 64 * kSwizzleBytes;  // not used by K-major operands
    wgmma_fence();
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
        WgmmaRs<f16, kRows>::run(sums, fragments[s], smem_descriptor(rows + s * 32, kAcross), accumulates || s > 0);
    wgmma_commit();
}

// Stores a warp's 16 columns of the tile, transposed through shared memory 32 rows at a time.
template <int kRows>
BK_DEVICE void store_columns(const float (&sums)[kRows / 2], f16* warp_staging, f16* d, int64_t rows, int64_t pitch, int lane) {
    using Tile = W4Tile<kRows>;
    constexpr int kEights = Tile::kStagingRows / 8;
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int pass = 0; pass < kRows / Tile::kStagingRows; ++pass) {
#pragma unroll
        for (int e = 0; e < kEights; ++e)
#pragma unroll
            for (int v = 0; v < 4; ++v)
                warp_staging[(8 * e + 2 * t + v % 2) * Tile::kStagingPitch + g + v / 2 * 8] =
                    narrow<f16>(sums[(pass * kEights + e) * 4 + v]);
        __syncwarp();
        const int64_t i = pass * Tile::kStagingRows + lane;
        if (i < rows) {
#pragma unroll
            for (int half = 0; half < 2; ++half)
                store(d + i * pitch + 8 * half, load<8>(warp_staging + lane * Tile::kStagingPitch + 8 * half));
        }
        __syncwarp();
    }
}

template <class Columns, int kRows, class P>
__global__ void __launch_bounds__((kConsumers + 1) * kWarpgroupThreads, 1)
    w4_wgmma_kernel(const __grid_constant__ P p, const __grid_constant__ W4Operands operands, int64_t tiles_m, int64_t count) {
    using Tile = W4Tile<kRows>;
    BK_LAUNCH_SHARED(uint4, shared_words);
    char* const base = reinterpret_cast<char*>(shared_words);
    char* const stages = base + (1024 - shared_address(base) % 1024) % 1024;
    auto* const full = reinterpret_cast<uint64_t*>(stages + Tile::kStages * Tile::kPitch);
    uint64_t* const empty = full + Tile::kStages;
    auto* const staging = reinterpret_cast<f16*>(empty + Tile::kStages);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int blocks = operands.blocks, rank = rank_in_cluster() % blocks;
    const int steps = static_cast<int>((p.k + kStageK - 1) / kStageK);
    if (thread == 0) {
        for (int stage = 0; stage < Tile::kStages; ++stage) {
            init_barrier(full + stage, 1);
            init_barrier(empty + stage, blocks * kWarps);
        }
        publish_barriers();
    }
    sync_cluster();

    PipelineState state;
    if (warp >= kWarps) {
        reg_dealloc<40>();
        for (int64_t index = blockIdx.x / blocks; warp == kWarps && index < count; index += gridDim.x / blocks) {
            const int64_t row = index % tiles_m * kRows, column = (index / tiles_m * blocks + rank) * kTileColumns;
            for (int step = 0; step < steps; ++step) {
                wait_for_phase(empty + state.stage, state.parity ^ 1);
                if (lane == 0)
                    load_stage<Columns, kRows>(stages + state.stage * Tile::kPitch, p, operands, row, column, step * kStageK,
                                               full + state.stage, rank);
                __syncwarp();
                state.advance(Tile::kStages);
            }
        }
    } else {
        reg_alloc<232>();
        const int warpgroup = warp / 4;
        for (int64_t index = blockIdx.x / blocks; index < count; index += gridDim.x / blocks) {
            const int64_t row = index % tiles_m * kRows,
                          column = (index / tiles_m * blocks + rank) * kTileColumns + warpgroup * 64;
            Columns columns(p, column, warpgroup, warp % 4, lane);
            Fragments first, second;
            float sums[kRows / 2], totals[Columns::kScalesAccumulators ? kRows / 2 : 1] = {}, scale[2];
            const auto wait_full = [&](int step) {
                wait_for_phase(full + state.stage, state.parity);
                columns.make(first, stages + state.stage * Tile::kPitch + Tile::kRowBytes, step, 0);
            };
            wait_full(0);
#pragma unroll 1
            for (int step = 0; step < steps; ++step) {
                const char* const stage = stages + state.stage * Tile::kPitch;
                const uint32_t rows = shared_address(stage);
                if constexpr (Columns::kScalesAccumulators) columns.load_scales(scale, step);
                issue_mma<kRows>(sums, first, rows, !Columns::kScalesAccumulators && step > 0);
                columns.make(second, stage + Tile::kRowBytes, step, 1);
                issue_mma<kRows>(sums, second, rows + Tile::kHalfBytes, true);
                wgmma_wait<1>();  // `first` may change
                const int previous = state.stage;
                state.advance(Tile::kStages);
                if (step + 1 < steps) wait_full(step + 1);
                wgmma_wait<0>();
                consumer_release(empty + previous, blocks, lane);
                if constexpr (Columns::kScalesAccumulators) {
#pragma unroll
                    for (int v = 0; v < kRows / 2; ++v) totals[v] = math::fma(scale[v / 2 % 2], sums[v], totals[v]);
                }
            }
            if (column >= p.n) continue;
            const auto store = [&](const auto& results) {
                store_columns<kRows>(results, staging + warp * Tile::kStagingRows * Tile::kStagingPitch,
                                     p.d + row * p.n + column + 16 * (warp % 4), p.m - row, p.n, lane);
            };
            if constexpr (Columns::kScalesAccumulators)
                store(totals);
            else
                store(sums);
        }
    }
    sync_cluster();  // peers may still arrive at this block's barriers
}

template <class Columns, int kRows, class P>
Status launch_wgmma(const Launch& launch, const P& p) {
    using Tile = W4Tile<kRows>;
    const int64_t tiles_m = ceil_div<int64_t>(p.m, kRows), tiles_n = ceil_div<int64_t>(p.n, kTileColumns);
    W4Operands operands;
    operands.blocks = tiles_n % 2 == 0 ? 2 : 1;
    bool has_maps = make_tensor_map(&operands.rows, p.a, p.k, p.m, p.k, 1, p.m * p.k, kRows / operands.blocks);
    operands.weights = operands.rows;
    if (!Columns::kScalesAccumulators)
        has_maps = has_maps && make_tensor_map(&operands.weights, reinterpret_cast<const uint8_t*>(p.weights), p.k / 2, p.n,
                                               p.k / 2, 1, p.n * (p.k / 2), kTileColumns, kStageK / 2);
    if (!has_maps) return fail(Status::kInternal, "the driver makes no tensor map of the operands");
    const int64_t count = tiles_m * (tiles_n / operands.blocks), clusters = std::min(count, device_sms() / operands.blocks);
    Grid grid{dim3(static_cast<unsigned>(clusters * operands.blocks)), dim3((kConsumers + 1) * kWarpgroupThreads)};
    grid.cluster = static_cast<unsigned>(operands.blocks);
    grid.shared = Tile::kShared;
    return launch_kernel(launch, grid, w4_wgmma_kernel<Columns, kRows, P>, p, operands, tiles_m, count);
}

template <class Columns, class P>
Status launch_tile(const Launch& launch, const P& p, int tile_m) {
    return tile_m == 64 ? launch_wgmma<Columns, 64>(launch, p) : launch_wgmma<Columns, 128>(launch, p);
}

}  // namespace

Status marlin_sm90a(const Launch& launch, const MarlinProduct& p, int tile_m) {
    return launch_tile<MarlinColumns>(launch, p, tile_m);
}

Status awq_sm90a(const Launch& launch, const AwqProduct& p, int tile_m) { return launch_tile<AwqColumns>(launch, p, tile_m); }

}  // namespace bk
