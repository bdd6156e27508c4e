// SPDX-License-Identifier: Apache-2.0
// Persistent warp-specialised Hopper GEMM. sm_90a alone.
//
// A block computes 128-row tiles one after another: one producer warp issues TMA loads into a ring of kStages stages,
// another loads block scales, and two consumer warpgroups run wgmma on 64 rows each, with all columns of the tile in
// registers. Clusters of two blocks compute vertically adjacent tiles: each loads half of B and multicasts it. Each
// tile accumulates in the order of k.
#include <algorithm>
#include <cstdint>

#include "core/intrinsics/cluster.cuh"
#include "core/intrinsics/prefetch.cuh"
#include "core/intrinsics/tensor_map.h"
#include "gemm/sm90/matmul_wgmma_mainloop.cuh"

namespace bk {
namespace {

// Tensor maps, operand layouts and the cluster size, 1 or 2.
struct TmaOperands {
    TensorMap a, b, gate;
    bool a_is_mn_major, b_is_mn_major, a_has_batch, b_has_batch;
    int blocks;
};

// This block's tile, out of tile number `index` of its cluster.
template <class T>
BK_DEVICE TileCoord schedule_tile(const Matmul<T>& p, int64_t index, int64_t tiles_m, int64_t tiles_n, int columns, int blocks,
                                  int rank) {
    if (p.grouped == Grouped::kRows)
        return find_grouped_tile(p, static_cast<uint32_t>(index), static_cast<uint32_t>(tiles_n), kWgmmaRows, columns);
    TileCoord coord;
    coord.matrix = index / (tiles_m * tiles_n);
    set_tile(coord, index % (tiles_m * tiles_n), tiles_m, tiles_n, blocks * static_cast<int>(kWgmmaRows), columns);
    coord.row += rank * kWgmmaRows;
    coord.row_end = p.m;
    coord.k_extent = p.k;
    if (p.grouped == Grouped::kK) {
        coord.k_begin = group_offset(p.offsets, coord.matrix, p.k);
        const int64_t k_extent = group_offset(p.offsets, coord.matrix + 1, p.k) - coord.k_begin;
        coord.k_extent = k_extent < 0 ? 0 : k_extent;
    }
    return coord;
}

// Producer: one thread issues all TMA loads of a stage; in a cluster of two only its rank's half of B.
template <class T, int kColumns>
BK_DEVICE void load_stage(char* to, const TmaOperands& operands, const TileCoord& coord, bool is_gated, int k,
                          uint64_t* barrier, int rank) {
    using Tile = WgmmaTile<T, kColumns>;
    constexpr int kBox = 64 * kSwizzleBytes;  // of an MN-major operand
    const int a_matrix = operands.a_has_batch ? static_cast<int>(coord.matrix) : 0;
    const int b_matrix = operands.b_has_batch ? static_cast<int>(coord.matrix) : 0;
    const int row = static_cast<int>(coord.row), column = static_cast<int>(coord.column);
    arrive_expecting(barrier, Tile::kBytes);
    if (operands.a_is_mn_major) {
        tma_load(to, operands.a, row, k, a_matrix, barrier);
        tma_load(to + kBox, operands.a, row + 64, k, a_matrix, barrier);
    } else {
        tma_load(to, operands.a, k, row, a_matrix, barrier);
    }
    const bool is_shared = operands.blocks > 1;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (is_shared && half != rank) continue;
        const TensorMap& map = half == 1 && is_gated ? operands.gate : operands.b;
        const int first_row = half == 1 && !is_gated ? column + Tile::kHalf : column;
        char* const b = to + Tile::kABytes + half * (Tile::kBBytes / 2);
        const auto issue_load = [&](char* box_address, int inner, int outer) {
            if (is_shared)
                tma_load_multicast(box_address, map, inner, outer, b_matrix, barrier, 3);
            else
                tma_load(box_address, map, inner, outer, b_matrix, barrier);
        };
        if (operands.b_is_mn_major) {
#pragma unroll
            for (int i = 0; i < kColumns / 128; ++i) issue_load(b + i * kBox, first_row + 64 * i, k);
        } else {
            issue_load(b, k, first_row);
        }
    }
}

// Prefetches the C or residual tile into L2 during the main loop.
template <class T>
BK_DEVICE void prefetch_tile(const Matmul<T>& p, const matmul_result_t<T>* from, const MatrixStrides& strides,
                             const TileCoord& coord, int columns, int lane) {
    const Epilogue<T>& e = p.epilogue;
    const int bytes = e.is_wide ? static_cast<int>(sizeof(float)) : static_cast<int>(sizeof(matmul_result_t<T>));
    const int width = static_cast<int>(min(static_cast<int64_t>(columns), p.n - coord.column)) * bytes;
    const int rows = static_cast<int>(min(kWgmmaRows, coord.row_end - coord.row));  // none below the last row
    const char* const first = reinterpret_cast<const char*>(e.matrix(from, strides, coord.matrix)) + coord.column * bytes;
#pragma unroll 1
    for (int i = lane; i < rows; i += 32)
#pragma unroll 1
        for (int byte = 0; byte < width; byte += kCacheLineBytes)
            prefetch_cache_line(first + (coord.row + i) * strides.row * bytes + byte);
}

// Whether stages carry block scales.
template <class T>
BK_DEVICE bool has_block_scales(const Matmul<T>& p) {
    if constexpr (kIsScaled<T>) return p.epilogue.is_by_blocks();
    return false;
}

// One warp loads the scales of each stage of a tile into registers while it waits for the stage to be free.
template <class T, int kColumns>
BK_DEVICE void load_scales(const Matmul<T>& p, const TileCoord& coord, float* scales, uint64_t* full, uint64_t* empty,
                           PipelineState& state, int64_t steps, int lane) {
    constexpr int kRows = static_cast<int>(kWgmmaRows) / 32, kBlocks = kColumns / kScaleBlock;
    for (int64_t step = 0; step < steps; ++step) {
        float row_scale[kRows], block_scale = 0;
        for (int i = 0; i < kRows; ++i)
            row_scale[i] = p.epilogue.scale_of_row(min(coord.row + lane + 32 * i, coord.row_end - 1), step);
        if (lane < kBlocks) block_scale = p.epilogue.scale_of_column(min(coord.column + lane * kScaleBlock, p.n - 1), step);
        wait_for_phase(empty + state.stage, state.parity ^ 1);
        float* const to = scales + state.stage * kScalePitch;
        for (int i = 0; i < kRows; ++i) to[lane + 32 * i] = row_scale[i];
        if (lane < kBlocks) to[kWgmmaRows + lane] = block_scale;
        __syncwarp();
        if (lane == 0) arrive(full + state.stage);
        state.advance(WgmmaTile<T, kColumns>::kStages);
    }
}

// FP8 main loop: promotes the tensor-core accumulator to f32 every 128 K elements, applying block scales if present,
// 128 columns at a time. The warpgroups alternate, so that one promotes while the other's wgmma runs.
template <class T, int kColumns>
BK_DEVICE void mainloop_promoted(float (&totals)[kColumns / 2], const Matmul<T>& p, char* tiles, uint64_t* full,
                                 uint64_t* empty, const float* scales, PipelineState& state, int64_t steps, int warpgroup,
                                 int lane, int blocks) {
    using Tile = WgmmaTile<T, kColumns>;
    constexpr int kPanel = kScaleBlock, kPanels = kColumns / kPanel;
    static_assert(kSwizzleBytes == kScaleBlock && kColumns % kPanel == 0, "a stage is of one block of K elements");
    for (int v = 0; v < kColumns / 2; ++v) totals[v] = 0;
#pragma unroll 1
    for (int64_t step = 0; step < steps; ++step) {
        float row_scale[2] = {1, 1}, panel_scale[kPanels];
        for (int panel = 0; panel < kPanels; ++panel) panel_scale[panel] = 1;
        const uint32_t stage = shared_address(tiles) + static_cast<uint32_t>(state.stage * Tile::kPitch);
        const uint32_t a = stage + static_cast<uint32_t>(warpgroup * 64 * kSwizzleBytes), b = stage + Tile::kABytes;
        wait_for_phase(full + state.stage, state.parity);
        if (has_block_scales(p)) {
            const float* const stage_scales = scales + state.stage * kScalePitch;
            const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
            for (int half = 0; half < 2; ++half) row_scale[half] = stage_scales[row + 8 * half];
            for (int panel = 0; panel < kPanels; ++panel) panel_scale[panel] = stage_scales[kWgmmaRows + panel];
        }
#pragma unroll
        for (int panel = 0; panel < kPanels; ++panel) {
            float sums[kPanel / 2];
            order_barrier_wait<kConsumers * kWarpgroupThreads>(warpgroup);
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < kSwizzleBytes; i += 32)
                Wgmma<matmul_element_t<T>, kPanel>::template run<false, false>(
                    sums, smem_descriptor(a + i, 0), smem_descriptor(b + panel * (kPanel * kSwizzleBytes) + i, 0), i > 0);
            wgmma_commit();
            order_barrier_arrive<kConsumers * kWarpgroupThreads>(1 - warpgroup);
            wgmma_wait<0>();
            if (panel + 1 == kPanels) consumer_release(empty + state.stage, blocks, lane);
#pragma unroll
            for (int v = 0; v < kPanel / 2; ++v)
                totals[panel * (kPanel / 2) + v] += sums[v] * (row_scale[v / 2 % 2] * panel_scale[panel]);
        }
        state.advance(Tile::kStages);
    }
}

template <class T, int kColumns>
__global__ void __launch_bounds__(kBlockThreads, 1)
    wgmma_kernel(const __grid_constant__ Matmul<T> p, const __grid_constant__ TmaOperands operands, int64_t tiles_m,
                 int64_t tiles_n, int64_t count, const __grid_constant__ StoreMode stores) {
    using E = matmul_element_t<T>;
    using Tile = WgmmaTile<T, kColumns>;
    using Sum = typename Wgmma<E, kIsPromoted<T> ? kScaleBlock : kColumns>::Sum;
    constexpr int kDepth = kSwizzleBytes / static_cast<int>(sizeof(E));
    BK_LAUNCH_SHARED(uint4, shared_words);
    char* const base = reinterpret_cast<char*>(shared_words);
    char* const tiles = base + (1024 - shared_address(base) % 1024) % 1024;
    auto* const full = reinterpret_cast<uint64_t*>(tiles + Tile::kStages * Tile::kPitch);
    uint64_t* const empty = full + Tile::kStages;
    auto* const staging = reinterpret_cast<matmul_scalar_t<T>*>(empty + Tile::kStages);
    auto* const scales = reinterpret_cast<float*>(reinterpret_cast<char*>(staging) + Tile::kStagingBytes);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int columns = static_cast<int>(columns_of(p, kColumns)), blocks = operands.blocks, rank = rank_in_cluster() % blocks;
    if (thread == 0) {
        for (int stage = 0; stage < Tile::kStages; ++stage) {
            init_barrier(full + stage, has_block_scales(p) ? 2 : 1);
            init_barrier(empty + stage, blocks * kConsumers * kWarpgroupThreads / 32);
        }
        publish_barriers();
    }
    sync_cluster();

    PipelineState state;
    if (warp >= kConsumers * kWarpgroupThreads / 32) {
        reg_dealloc<40>();
        constexpr int kFirst = kConsumers * kWarpgroupThreads / 32;
        const bool is_producer = warp == kFirst;
        if constexpr (kIsScaled<T>)
            if (warp == kFirst + 1 && has_block_scales(p)) {
                for (int64_t index = blockIdx.x / blocks; index < count; index += gridDim.x / blocks) {
                    const TileCoord coord = schedule_tile(p, index, tiles_m, tiles_n, columns, blocks, rank);
                    if (coord.row_end != 0)
                        load_scales<T, kColumns>(p, coord, scales, full, empty, state, (coord.k_extent + kDepth - 1) / kDepth,
                                                 lane);
                }
            }
        for (int64_t index = blockIdx.x / blocks; is_producer && index < count; index += gridDim.x / blocks) {
            const TileCoord coord = schedule_tile(p, index, tiles_m, tiles_n, columns, blocks, rank);
            if (coord.row_end == 0) continue;
            const int64_t steps = (coord.k_extent + kDepth - 1) / kDepth;
            if constexpr (!kIsScaled<T>) {
                if (p.epilogue.residual != nullptr)
                    prefetch_tile(p, p.epilogue.residual, p.epilogue.residual_at, coord, columns, lane);
                if (p.epilogue.c != nullptr) prefetch_tile(p, p.epilogue.c, p.epilogue.c_at, coord, columns, lane);
            }
            for (int64_t step = 0; step < steps; ++step) {
                wait_for_phase(empty + state.stage, state.parity ^ 1);
                if (lane == 0)
                    load_stage<T, kColumns>(tiles + state.stage * Tile::kPitch, operands, coord,
                                            kMayBeGated<T> && p.gate != nullptr,
                                            static_cast<int>(coord.k_begin + step * kDepth), full + state.stage, rank);
                __syncwarp();
                state.advance(Tile::kStages);
            }
        }
    } else {
        reg_alloc<232>();
        const int warpgroup = warp / (kWarpgroupThreads / 32);
        auto* const warp_staging = staging + warp * 16 * kStagingPitch;
        if (kIsPromoted<T> && warpgroup == 1) order_barrier_arrive<kConsumers * kWarpgroupThreads>(0);
        for (int64_t index = blockIdx.x / blocks; index < count; index += gridDim.x / blocks) {
            const TileCoord coord = schedule_tile(p, index, tiles_m, tiles_n, columns, blocks, rank);
            if (coord.row_end == 0) continue;
            const int64_t steps = (coord.k_extent + kDepth - 1) / kDepth;
            Sum sums[kColumns / 2];
            if (steps == 0)
                for (int v = 0; v < kColumns / 2; ++v) sums[v] = 0;
            const int64_t row = coord.row + 16 * warp;
            if constexpr (kIsPromoted<T>) {
                mainloop_promoted<T, kColumns>(sums, p, tiles, full, empty, scales, state, steps, warpgroup, lane, blocks);
            } else if constexpr (sizeof(E) == 2) {
                const int k_tail = p.grouped == Grouped::kK ? static_cast<int>(coord.k_extent % kDepth) : 0;
                const auto add = [&](auto a_is_mn_major, auto b_is_mn_major) {
                    mainloop<T, kColumns, decltype(a_is_mn_major)::value, decltype(b_is_mn_major)::value>(
                        sums, tiles, full, empty, state, steps, k_tail, warpgroup, lane, blocks);
                };
                constexpr std::true_type kMnMajor;
                constexpr std::false_type kKMajor;
                if (operands.a_is_mn_major)
                    operands.b_is_mn_major ? add(kMnMajor, kMnMajor) : add(kMnMajor, kKMajor);
                else
                    operands.b_is_mn_major ? add(kKMajor, kMnMajor) : add(kKMajor, kKMajor);
            } else {
                mainloop<T, kColumns, false, false>(sums, tiles, full, empty, state, steps, 0, warpgroup, lane, blocks);
            }
            store_sums<T, kColumns>(p, sums, warp_staging, coord, row, lane, stores);
        }
        if (kIsPromoted<T> && warpgroup == 0)
            order_barrier_wait<kConsumers * kWarpgroupThreads>(0);  // the other warpgroup's last arrival
    }
    sync_cluster();  // peers may still arrive at this block's barriers
}

template <class E>
Status map_operand(TensorMap* map, const E* data, int64_t rows, int64_t k, int64_t pitch, int64_t batch, int64_t step,
                   bool is_mn_major, int box) {
    const int64_t inner = is_mn_major ? rows : k, outer = is_mn_major ? k : rows;
    const bool has_batch = batch > 1 && step != 0;
    if (make_tensor_map(map, data, inner, outer, pitch, has_batch ? batch : 1, has_batch ? step : pitch * outer,
                        is_mn_major ? 64 : box))
        return Status::kOk;
    return fail(Status::kInternal, "the driver makes no tensor map of a %lld x %lld operand with a pitch of %lld",
                static_cast<long long>(outer), static_cast<long long>(inner), static_cast<long long>(pitch));
}

template <class T, int kColumns>
Status launch_wgmma(const Launch& launch, const Matmul<T>& p) {
    using E = matmul_element_t<T>;
    using Tile = WgmmaTile<T, kColumns>;
    const bool a_is_mn_major = p.a_at.column != 1, b_is_mn_major = p.b_at.row != 1;
    const int64_t a_batch = p.grouped == Grouped::kRows ? 1 : p.batch;
    const bool has_batch = p.grouped != Grouped::kK && p.batch > 1;
    const int64_t a_pitch = a_is_mn_major ? p.a_at.column : p.a_at.row, b_pitch = b_is_mn_major ? p.b_at.row : p.b_at.column;
    TmaOperands operands;
    operands.a_is_mn_major = a_is_mn_major;
    operands.b_is_mn_major = b_is_mn_major;
    operands.a_has_batch = has_batch && p.grouped != Grouped::kRows && p.a_at.step != 0;
    operands.b_has_batch = has_batch && p.b_at.step != 0;
    const int64_t a_count = operands.a_has_batch ? p.batch : 1, b_count = operands.b_has_batch ? p.batch : 1;
    BK_TRY(map_operand(&operands.a, p.a, p.m, p.k, a_pitch, a_count, p.a_at.step, a_is_mn_major, kWgmmaRows));
    BK_TRY(map_operand(&operands.b, p.b, p.n, p.k, b_pitch, b_count, p.b_at.step, b_is_mn_major, Tile::kHalf));
    operands.gate = operands.b;
    if (p.gate != nullptr)
        BK_TRY(map_operand(&operands.gate, p.gate, p.n, p.k, b_pitch, b_count, p.b_at.step, b_is_mn_major, Tile::kHalf));
    const int64_t tiles_down = ceil_div<int64_t>(p.m, kWgmmaRows);
    operands.blocks = p.grouped != Grouped::kRows && pairs_tiles(tiles_down) ? 2 : 1;
    const int64_t tiles_m = ceil_div<int64_t>(tiles_down, operands.blocks);
    const int64_t tiles_n = ceil_div<int64_t>(p.n, columns_of(p, kColumns));
    int64_t count = 0;
    BK_TRY(count_tiles(operands.blocks > 1 ? tiles_m : count_row_tiles(p, kWgmmaRows), tiles_n, a_batch, &count));
    const auto kernel = wgmma_kernel<T, kColumns>;
    const int64_t clusters = std::min(count, device_sms() / operands.blocks);
    Grid grid{dim3(static_cast<unsigned>(clusters * operands.blocks)), dim3(kBlockThreads)};
    grid.cluster = static_cast<unsigned>(operands.blocks);
    grid.shared = Tile::kShared;
    return launch_kernel(launch, grid, kernel, p, operands, tiles_m, tiles_n, count, store_mode_of(p));
}

}  // namespace

template <class T>
Status matmul_sm90a(const Launch& launch, const Matmul<T>& p, int tile_n) {
    if constexpr (sizeof(matmul_element_t<T>) == 2 || kIsPromoted<T>)
        if (tile_n == 128) return launch_wgmma<T, 128>(launch, p);
    return launch_wgmma<T, 256>(launch, p);
}

template Status matmul_sm90a(const Launch&, const Matmul<f16>&, int);
template Status matmul_sm90a(const Launch&, const Matmul<bf16>&, int);
template Status matmul_sm90a(const Launch&, const Matmul<tf32>&, int);
template Status matmul_sm90a(const Launch&, const Matmul<tf32x3>&, int);
template Status matmul_sm90a(const Launch&, const Matmul<e4m3>&, int);
template Status matmul_sm90a(const Launch&, const Matmul<e5m2>&, int);
template Status matmul_sm90a(const Launch&, const Matmul<scaled<e4m3>>&, int);
template Status matmul_sm90a(const Launch&, const Matmul<scaled<e5m2>>&, int);
template Status matmul_sm90a(const Launch&, const Matmul<scaled<e5m2_by_e4m3>>&, int);
template Status matmul_sm90a(const Launch&, const Matmul<int8_t>&, int);
template Status matmul_sm90a(const Launch&, const Matmul<uint8_t>&, int);
template Status matmul_sm90a(const Launch&, const Matmul<i32_results<int8_t>>&, int);
template Status matmul_sm90a(const Launch&, const Matmul<i32_results<uint8_t>>&, int);

}  // namespace bk
