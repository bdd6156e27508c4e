// SPDX-License-Identifier: Apache-2.0
// int4-weight GEMM on the GPU by mma.sync. Columns of the weights are the rows of the mma, rows of the activations its
// columns, as in gemm/skinny/matmul_skinny_mma.cuh. Weights are dequantised to f16 in registers; small M is bandwidth-bound
// on them. The warps of a block share its columns and split K.
#pragma once

#include <cstdint>

#include "core/intrinsics/async_copy.cuh"
#include "core/intrinsics/tensor_core.cuh"
#include "core/types/vec.h"
#include "gemm/skinny/matmul_skinny_mma.cuh"
#include "gemm/sm90/w4_wgmma.h"
#include "gemm/tiled/w4_dequantize.cuh"
#include "gemm/w4.h"

namespace bk {

constexpr int kW4Warps = 8, kW4Columns = 64, kW4TileK = 128;  // columns of a block; K elements of a warp's tile
constexpr int kW4Stride = kW4Warps * kW4TileK;                // K elements from a warp's tile to its next
constexpr int kW4Bytes = 96 << 10;  // of shared memory for the stages: two blocks per SM on sm_90, one on sm_86

// Element `at` of packed f16 words.
template <int N>
BK_DEVICE f16 half_of(const uint32_t (&words)[N], int at) {
    return f16{static_cast<uint16_t>(words[at / 2] >> at % 2 * 16)};
}

// Loads words from a 16-byte aligned (`aligned`) or 2-byte aligned address; zeros if not `inside`.
template <int N>
BK_DEVICE void load_words_masked(uint32_t (&words)[N], const void* from, bool aligned, bool inside) {
    if (!inside) {
        for (int w = 0; w < N; ++w) words[w] = 0;
    } else if (aligned) {
        const auto vector = load<N>(static_cast<const uint32_t*>(from));
        for (int w = 0; w < N; ++w) words[w] = vector.lane[w];
    } else {
        const f16* const halves = static_cast<const f16*>(from);
        for (int w = 0; w < N; ++w) words[w] = halves[2 * w].bits | static_cast<uint32_t>(halves[2 * w + 1].bits) << 16;
    }
}

// Copies 16 unaligned bytes to shared memory.
BK_DEVICE void gather_16(uint4* to, const void* from) {
    uint32_t words[4];
    load_words_masked(words, from, false, true);
    *to = uint4{words[0], words[1], words[2], words[3]};
}

// Reorders eight f16 to pairs 0 and 4, 1 and 5, 2 and 6, 3 and 7, raised_pair's order.
BK_DEVICE void pair_by_fourths(uint32_t (&eight)[4]) {
    const uint32_t first = eight[0], second = eight[1], third = eight[2], fourth = eight[3];
    eight[0] = low_halves(first, third);
    eight[1] = high_halves(first, third);
    eight[2] = low_halves(second, fourth);
    eight[3] = high_halves(second, fourth);
}

// Adds the partial sums of a block's warps, in order, and stores them. Lane (g, t) holds, for row block r and column
// block q, rows 2t and 2t + 1 of columns g and g + 8. `buffer` is shared memory without copies in flight.
template <int kRowBlocks>
BK_DEVICE void store_w4(const float (&sum)[kW4Columns / 16][kRowBlocks][4], void* buffer, f16* d, int64_t m, int64_t n,
                        int64_t row, int64_t column) {
    constexpr int kRows = 8 * kRowBlocks, kPitch = kW4Columns + 4;  // padding against bank conflicts
    static_assert(kW4Warps * kRows * kPitch * sizeof(float) <= kW4Bytes, "partials overwrite the stages");
    float (*const partials)[kRows][kPitch] = static_cast<float (*)[kRows][kPitch]>(buffer);
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
    __syncthreads();  // every warp has read its stages
#pragma unroll
    for (int q = 0; q < kW4Columns / 16; ++q)
#pragma unroll
        for (int r = 0; r < kRowBlocks; ++r)
#pragma unroll
            for (int v = 0; v < 4; ++v) partials[warp][8 * r + 2 * t + v % 2][16 * q + g + v / 2 * 8] = sum[q][r][v];
    __syncthreads();
    for (int index = static_cast<int>(threadIdx.x); index < kRows * kW4Columns; index += 32 * kW4Warps) {
        const int i = index / kW4Columns, j = index % kW4Columns;
        if (row + i >= m) break;
        float total = partials[0][i][j];
#pragma unroll
        for (int w = 1; w < kW4Warps; ++w) total += partials[w][i][j];
        d[(row + i) * n + column + j] = narrow<f16>(total);
    }
}

// Operands that are aligned to 16 bytes.
struct W4Aligned {
    bool a, weights, scales;
};

// Half a warp tile in shared memory: the lanes' words for each 16 K elements, and eight 16-byte vectors of each row,
// XOR-swizzled by row % 8 against bank conflicts.
template <int kRowBlocks>
struct MarlinStage {
    static constexpr int kStageK = kW4TileK / 2, kSteps = kStageK / 16, kVectors = kStageK / 8, kRows = 8 * kRowBlocks;
    uint4 words[kSteps][32];
    uint4 rows[kRows][kVectors];
};

template <int kRowBlocks>
constexpr int kMarlinStages = kW4Bytes / (kW4Warps * static_cast<int>(sizeof(MarlinStage<kRowBlocks>)));

// Loads the scales of columns g, g + 8, ... of 64 from `column` on, in the group of the warp tile.
BK_DEVICE void load_marlin_scales(uint32_t (&scales)[4], const MarlinProduct& p, uint32_t tile_k, int64_t column, int g,
                                  bool aligned) {
    const f16* const own = p.scales + marlin_scale_index(column + g, p.by_groups);
    if (p.by_groups) {
        load_words_masked(scales, own + tile_k / kW4TileK * p.n, aligned, true);
        return;
    }
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        const int at = w / 2 * 32 + w % 2 * 4;  // of column 16w + g; that of eight columns on is the second next
        scales[w] = own[at].bits | static_cast<uint32_t>(own[at + 2].bits) << 16;
    }
}

// Computes 64 columns by 8 kRowBlocks rows on exact q - 8; a group's sum is scaled in f32. Each warp has its own ring
// of cp.async stages.
template <int kRowBlocks>
__global__ void __launch_bounds__(32 * kW4Warps, kRowBlocks <= 2 ? 2 : 1)
    marlin_kernel(const __grid_constant__ MarlinProduct p, W4Aligned aligned) {
    using Stage = MarlinStage<kRowBlocks>;
    constexpr int kTiles = kW4Columns / 16, kStages = kMarlinStages<kRowBlocks>;
    BK_LAUNCH_SHARED(uint4, shared_words);
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4;
    Stage* const stages = reinterpret_cast<Stage*>(shared_words) + warp * kStages;
    const int64_t column = static_cast<int64_t>(blockIdx.x) * kW4Columns, row = static_cast<int64_t>(blockIdx.y) * Stage::kRows,
                  pitch = 2 * p.n;
    // A lane copies its own words, and vector c of rows own_row, own_row + kLaneRows and so on.
    constexpr int kLaneRows = 32 / Stage::kVectors;
    const uint32_t k_extent = static_cast<uint32_t>(p.k);  // at most INT32_MAX, so that adding a stride does not overflow
    const int own_row = lane / Stage::kVectors, c = lane % Stage::kVectors;
    const int own_rows = static_cast<int>(min(p.m - row, static_cast<int64_t>(Stage::kRows))) - own_row;
    const int32_t* weights = p.weights + warp * (kW4TileK / 16) * pitch + column * 2 + lane * 4;
    const f16* a = p.a + (row + own_row) * p.k + warp * kW4TileK + 8 * c;
    uint32_t next = static_cast<uint32_t>(warp * kW4TileK);  // K index of `weights` and `a`
    const auto fill = [&](Stage& stage) {
        const auto slot = [&](int x) { return &stage.rows[own_row + kLaneRows * x][c ^ (own_row + kLaneRows * x) % 8]; };
        constexpr int kCopies = Stage::kRows / kLaneRows;
        if (aligned.a && aligned.weights && next + Stage::kStageK <= k_extent) {
#pragma unroll
            for (int s = 0; s < Stage::kSteps; ++s) start_copy_16(&stage.words[s][lane], weights + s * pitch, kVectorBytes);
#pragma unroll
            for (int x = 0; x < kCopies; ++x)
                if (kLaneRows * x < own_rows) start_copy_16(slot(x), a + kLaneRows * x * p.k, kVectorBytes);
        } else if (next < k_extent) {
#pragma unroll 1
            for (int s = 0; s < Stage::kSteps && next + 16 * s < k_extent; ++s)
                gather_16(&stage.words[s][lane], weights + s * pitch);
#pragma unroll 1
            for (int x = 0; x < kCopies; ++x)
                if (kLaneRows * x < own_rows && next + 8 * c < k_extent) gather_16(slot(x), a + kLaneRows * x * p.k);
        }
        end_copy_group();
        // Two half tiles in sequence, then the warp's next tile.
        const uint32_t step = next % kW4TileK == 0 ? Stage::kStageK : kW4Stride - Stage::kStageK;
        next += step;
        a += step;
        weights += step / 16 * pitch;
    };
#pragma unroll 1  // not unrolled: code that runs once takes longer to fetch than to execute
    for (int stage = 0; stage < kStages - 1; ++stage) fill(stages[stage]);
    float total[kTiles][kRowBlocks][4] = {};
    int stage = 0;
    for (uint32_t tile_k = static_cast<uint32_t>(warp * kW4TileK); tile_k < k_extent; tile_k += kW4Stride) {
        uint32_t scales[4];
        load_marlin_scales(scales, p, tile_k, column, g, aligned.scales);
        float sum[kTiles][kRowBlocks][4] = {};
#pragma unroll 1
        for (uint32_t k = tile_k; k < tile_k + kW4TileK; k += Stage::kStageK) {
            wait_for_copies<kStages - 2>();
            __syncwarp();  // all lanes' copies have arrived, and all have read the stage before
            fill(stages[stage == 0 ? kStages - 1 : stage - 1]);
            const Stage& current = stages[stage];
            stage = stage + 1 == kStages ? 0 : stage + 1;
#pragma unroll
            for (int pair = 0; pair < Stage::kSteps / 2; ++pair) {
                if (k + 32 * pair >= k_extent) break;
                uint32_t row_words[kRowBlocks][4];  // of two mma K steps
#pragma unroll
                for (int r = 0; r < kRowBlocks; ++r)
                    ldmatrix_x4(row_words[r], &current.rows[8 * r + lane % 8][(4 * pair + lane / 8) ^ lane % 8]);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    if (k + 32 * pair + 16 * half >= k_extent) break;
                    const uint4 four = current.words[2 * pair + half][lane];
                    const uint32_t words[kTiles] = {four.x, four.y, four.z, four.w};
#pragma unroll
                    for (int q = 0; q < kTiles; ++q) {
                        uint32_t columns[4];
                        marlin_fragment(columns, words[q]);
#pragma unroll
                        for (int r = 0; r < kRowBlocks; ++r) {
                            const uint32_t own[2] = {row_words[r][2 * half], row_words[r][2 * half + 1]};
                            Mma<f16>::run(sum[q][r], columns, own);
                        }
                    }
                }
            }
        }
#pragma unroll
        for (int q = 0; q < kTiles; ++q)
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                const float scale = widen(half_of(scales, 2 * q + v / 2));
#pragma unroll
                for (int r = 0; r < kRowBlocks; ++r) total[q][r][v] = math::fma(scale, sum[q][r][v], total[q][r][v]);
            }
    }
    wait_for_copies<0>();
    store_w4<kRowBlocks>(total, shared_words, p.d, p.m, p.n, row, column);
}

// A warp tile of AWQ's weights: words of columns g, g + 8, ..., by the lane that copies them.
struct AwqStage {
    uint4 words[kW4Columns / 8][32];
};
constexpr int kAwqStages = kW4Bytes / (kW4Warps * static_cast<int>(sizeof(AwqStage)));

// Computes 64 columns by 8 kRowBlocks rows. Lane t takes K elements from 32t on of each 128. The four lanes of a column
// hold the packed scales and zero points of four groups, and exchange them by shuffles.
template <int kRowBlocks>
__global__ void __launch_bounds__(32 * kW4Warps, kRowBlocks <= 2 ? 2 : 1)
    awq_kernel(const __grid_constant__ AwqProduct p, W4Aligned aligned) {
    constexpr int kTiles = kW4Columns / 16, kEights = 2 * kTiles;
    BK_LAUNCH_SHARED(uint4, shared_words);
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
    AwqStage* const stages = reinterpret_cast<AwqStage*>(shared_words) + warp * kAwqStages;
    const int64_t column = static_cast<int64_t>(blockIdx.x) * kW4Columns,
                  row = static_cast<int64_t>(blockIdx.y) * (8 * kRowBlocks), pitch = p.k / 8;
    const int32_t* weights = p.weights + (column + g) * pitch + (warp * kW4TileK + 32 * t) / 8;
    const f16* const a = p.a + (row + g) * p.k + 32 * t;
    const int own_rows = static_cast<int>(min(p.m - row, int64_t{8 * kRowBlocks})) - g;  // from g on
    const uint32_t k_extent = static_cast<uint32_t>(p.k);  // at most INT32_MAX, so that adding a stride does not overflow
    const int groups_per_tile = static_cast<int>(kW4TileK / p.group);
    uint32_t next = static_cast<uint32_t>(warp * kW4TileK + 32 * t);
    const auto fill = [&](AwqStage& stage) {  // groups have at least 64 K elements: a lane's 32 are all inside, or none
        if (next < k_extent && aligned.weights) {
#pragma unroll
            for (int e = 0; e < kEights; ++e) start_copy_16(&stage.words[e][lane], weights + 8 * e * pitch, kVectorBytes);
        } else if (next < k_extent) {
#pragma unroll 1
            for (int e = 0; e < kEights; ++e) gather_16(&stage.words[e][lane], weights + 8 * e * pitch);
        }
        end_copy_group();
        next += kW4Stride;
        weights += kW4Stride / 8;
    };
#pragma unroll 1  // not unrolled: code that runs once takes longer to fetch than to execute
    for (int stage = 0; stage < kAwqStages - 1; ++stage) fill(stages[stage]);
    float sum[kTiles][kRowBlocks][4] = {};
    uint32_t cached[kEights];
    int stage = 0, group = 0;  // of the four in `cached`
    for (uint32_t tile_k = static_cast<uint32_t>(warp * kW4TileK); tile_k < k_extent; tile_k += kW4Stride) {
        uint32_t rows[4][kRowBlocks][4];  // of eight K elements, pairs 0 and 4, 1 and 5, 2 and 6, 3 and 7
#pragma unroll
        for (int w = 0; w < 4; ++w)
#pragma unroll
            for (int r = 0; r < kRowBlocks; ++r)
                load_words_masked(rows[w][r], a + 8 * r * p.k + tile_k + 8 * w, aligned.a,
                                  tile_k + 32 * t < k_extent && 8 * r < own_rows);
        if (group == 0) {
            const uint32_t ahead = static_cast<uint32_t>(t / groups_per_tile * kW4Stride),
                           group_k = static_cast<uint32_t>(p.group);
            const AwqGroup own(p, column + g, (tile_k + ahead) / group_k + static_cast<uint32_t>(t % groups_per_tile));
#pragma unroll
            for (int e = 0; e < kEights; ++e) cached[e] = own.scale_and_zero(8 * e);
        }
        const int source_lane = lane / 4 * 4 + group + t * groups_per_tile / 4;
        group = (group + groups_per_tile) % 4;
        wait_for_copies<kAwqStages - 2>();
        fill(stages[stage == 0 ? kAwqStages - 1 : stage - 1]);
        const AwqStage& current = stages[stage];
        stage = stage + 1 == kAwqStages ? 0 : stage + 1;
#pragma unroll
        for (int w = 0; w < 4; ++w)
#pragma unroll
            for (int r = 0; r < kRowBlocks; ++r) pair_by_fourths(rows[w][r]);
#pragma unroll
        for (int q = 0; q < kTiles; ++q) {
            uint32_t words[2][4], scale[2], zero[2][2];  // zero points plus 1024 and plus 64
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int e = 2 * q + half;
                const uint32_t packed = __shfl_sync(~0u, cached[e], source_lane);
                scale[half] = low_halves(packed, packed);
                zero[half][0] = 0x64006400u + (packed >> 16) * 0x00010001u;
                zero[half][1] = 0x54005400u + (packed >> 16) * 0x00100010u;
                const uint4 four = current.words[e][lane];
                words[half][0] = four.x, words[half][1] = four.y, words[half][2] = four.z, words[half][3] = four.w;
            }
#pragma unroll
            for (int w = 0; w < 4; ++w)
#pragma unroll
                for (int step = 0; step < 2; ++step) {
                    uint32_t columns[4];
#pragma unroll
                    for (int v = 0; v < 4; ++v) {
                        const int half = v % 2, odd = v / 2;
                        const uint32_t weight = sub_f16x2(raised_pair(words[half][w], 2 * step + odd), zero[half][odd]);
                        columns[v] = mul_f16x2(weight, scale[half]);
                    }
#pragma unroll
                    for (int r = 0; r < kRowBlocks; ++r) {
                        const uint32_t row_words[2] = {rows[w][r][2 * step], rows[w][r][2 * step + 1]};
                        Mma<f16>::run(sum[q][r], columns, row_words);
                    }
                }
        }
    }
    wait_for_copies<0>();
    store_w4<kRowBlocks>(sum, shared_words, p.d, p.m, p.n, row, column);
}

// Dequantises one word a thread.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) awq_dequantize_kernel(const __grid_constant__ AwqProduct p, bool aligned) {
    const int64_t words = p.k / 8, w = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (w >= words) return;
    for (int64_t j = blockIdx.y; j < p.n; j += gridDim.y) {
        const int64_t g = 8 * w / p.group;
        const float scale = widen(p.scale_of(j, g)), zero = p.zero_of(j, g);
        const uint32_t word = static_cast<uint32_t>(p.weights[j * words + w]);
        Vec<f16, 8> eight;
#pragma unroll
        for (int e = 0; e < 8; ++e) eight.lane[e] = narrow<f16>(scale * (static_cast<float>(word >> 4 * e & 15u) - zero));
        f16* const to = p.d + j * p.k + 8 * w;
        if (aligned)
            store(to, eight);
        else
            for (int e = 0; e < 8; ++e) to[e] = eight.lane[e];
    }
}

constexpr int kW4MaxRowBlocks = 4;  // of eight rows

// Rows of a block's tile, and whether wgmma computes it.
struct W4Choice {
    bool is_wgmma;
    int tile_m;
};

// wgmma computes more than 16 rows, if the chip has it and TMA can load the operands: 128-row tiles read weights less
// often, 64-row ones leave fewer SMs idle.
template <class P>
W4Choice choose_w4(const P& p, bool has_wgmma) {
    constexpr int64_t kMaxBytes = int64_t(1) << 40;
    const bool fits_tma = is_aligned(p.a, 16) && is_aligned(p.weights, 16) && is_aligned(p.d, 16) && p.k >= kW4WgmmaK &&
                          p.m * p.k < kMaxBytes / 2 && p.n * (p.k / 2) < kMaxBytes;
    if (p.m <= 8) return {false, 8};
    if (p.m <= 16) return {false, 16};
    if (!has_wgmma || !fits_tma) return {false, 8 * kW4MaxRowBlocks};
    const int64_t large = ceil_div<int64_t>(p.m, 128) * ceil_div<int64_t>(p.n, kW4WgmmaColumns);
    return {true, p.m <= 64 || 2 * large <= kReferenceSms ? 64 : 128};
}

// `kernels` compute tiles of 8, 16 and 8 kW4MaxRowBlocks rows.
template <class P>
Status launch_w4(const Launch& launch, const P& p, void (*const (&kernels)[3])(P, W4Aligned),
                 const Variant<Status (*)(const Launch&, const P&, int)>& wgmma) {
    const W4Choice choice = choose_w4(p, wgmma.run != nullptr);
    if (choice.is_wgmma) return wgmma.run(launch, p, choice.tile_m);
    const W4Aligned aligned{is_aligned(p.a, 16), is_aligned(p.weights, 16), is_aligned(p.scales, 16)};
    const int64_t rows = choice.tile_m, most = rows * kMaxGridY;
    for (int64_t first = 0; first < p.m; first += most) {
        P slab = p;
        slab.m = p.m - first < most ? p.m - first : most;
        slab.a += first * p.k;
        slab.d += first * p.n;
        Grid grid{dim3(static_cast<unsigned>(p.n / kW4Columns), static_cast<unsigned>(ceil_div(slab.m, rows))),
                  dim3(32 * kW4Warps)};
        grid.shared = kW4Bytes;
        BK_TRY(launch_kernel(launch, grid, kernels[rows == 8 ? 0 : rows == 16 ? 1 : 2], slab, aligned));
    }
    return Status::kOk;
}

inline Status marlin_product(const Launch& launch, const MarlinProduct& p) {
    return launch_w4(launch, p, {marlin_kernel<1>, marlin_kernel<2>, marlin_kernel<kW4MaxRowBlocks>},
                     choose({BK_SM(90a, marlin_sm90a)}, device_arch()));
}

inline Status awq_product(const Launch& launch, const AwqProduct& p) {
    return launch_w4(launch, p, {awq_kernel<1>, awq_kernel<2>, awq_kernel<kW4MaxRowBlocks>},
                     choose({BK_SM(90a, awq_sm90a)}, device_arch()));
}

inline Status awq_dequantize(const Launch& launch, const AwqProduct& p) {
    const unsigned rows = static_cast<unsigned>(p.n < kMaxGridY ? p.n : kMaxGridY);
    constexpr int kThreads = 256;
    const dim3 blocks(static_cast<unsigned>(ceil_div<int64_t>(p.k / 8, kThreads)), rows);
    return launch_kernel(launch, {blocks, dim3(kThreads)}, awq_dequantize_kernel<kThreads>, p, is_aligned(p.d, 16));
}

}  // namespace bk
