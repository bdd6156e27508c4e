// SPDX-License-Identifier: Apache-2.0
// Stages of a warp-specialised Hopper GEMM in shared memory, and the loop by which a consumer warpgroup multiplies them. A
// producer warp loads a tile of A, kWgmmaRows rows, and one of B, kColumns columns, of 128 bytes along k for each stage.
#pragma once

#include <cstdint>

#include "core/intrinsics/pipeline_state.cuh"
#include "core/intrinsics/tma.cuh"
#include "core/intrinsics/wgmma.cuh"
#include "gemm/sm90/matmul_wgmma.h"
#include "gemm/sm90/matmul_wgmma_store.cuh"

namespace bk {

constexpr int kWarpgroupThreads = 128, kConsumers = 2, kBlockThreads = (kConsumers + 1) * kWarpgroupThreads;
constexpr int kStageBarriers = 2;
// Floats of a stage's block scales: those of the rows of A and of blocks of columns.
constexpr int kScalePitch = static_cast<int>(kWgmmaRows) + 4;

template <class T, int kColumns>
struct WgmmaTile {
    static constexpr bool kHasResiduals = std::is_same_v<T, tf32x3>;  // 3xTF32: a stage also holds the residuals
    static constexpr int kABytes = static_cast<int>(kWgmmaRows) * kSwizzleBytes, kBBytes = kColumns * kSwizzleBytes;
    static constexpr int kBytes = kABytes + kBBytes, kPitch = kHasResiduals ? 2 * kBytes : kBytes;
    static constexpr int kStages = kHasResiduals ? 2 : kColumns == 256 ? 4 : 6;
    static constexpr int kStagingBytes = kConsumers * kWarpgroupThreads / 32 * 16 * kStagingPitch * 4;
    static constexpr int kScaleBytes = kIsScaled<T> ? kStages * kScalePitch * 4 : 0;
    static constexpr int kShared =
        kStages * (kPitch + kStageBarriers * 8) + kStagingBytes + kScaleBytes + 1024;  // tiles are 1024-byte aligned
    static constexpr int kHalf = kColumns / 2;  // columns of the box of B, and of the gate
};

// Rounds a stage of f32 operands to TF32 in place, by both warpgroups together, and stores the residuals: wgmma would
// truncate.
template <class T, int kColumns>
BK_DEVICE void round_stage(char* stage) {
    using Tile = WgmmaTile<T, kColumns>;
    constexpr int kThreads = kConsumers * kWarpgroupThreads, kVectorsPerThread = Tile::kBytes / 16 / kThreads;
    uint4* const own = reinterpret_cast<uint4*>(stage) + threadIdx.x;
#pragma unroll 4
    for (int i = 0; i < kVectorsPerThread; ++i) {
        const uint4 four = own[i * kThreads];
        const uint4 rounded =
            make_uint4(round_to_tf32(four.x), round_to_tf32(four.y), round_to_tf32(four.z), round_to_tf32(four.w));
        own[i * kThreads] = rounded;
        if constexpr (Tile::kHasResiduals)
            own[i * kThreads + Tile::kBytes / 16] =
                make_uint4(tf32_residual(four.x, rounded.x), tf32_residual(four.y, rounded.y), tf32_residual(four.z, rounded.z),
                           tf32_residual(four.w, rounded.w));
    }
    fence_async_proxy();
    sync_consumers<kThreads>();
}

// Issues the wgmmas of one stage. 3xTF32 adds the residual products first.
template <class T, int kColumns, bool kAIsMnMajor, bool kBIsMnMajor, class Sum>
BK_DEVICE void issue_mma(Sum (&sums)[kColumns / 2], char* tiles, int stage_index, int warpgroup, bool accumulates) {
    using Tile = WgmmaTile<T, kColumns>;
    using Step = Wgmma<matmul_element_t<T>, kColumns>;
    constexpr int kAdvanceKMajor = 32, kAdvanceMnMajor = 16 * kSwizzleBytes, kAcross = 64 * kSwizzleBytes;
    const uint32_t stage = shared_address(tiles) + static_cast<uint32_t>(stage_index * Tile::kPitch);
    const uint32_t a = stage + static_cast<uint32_t>(warpgroup * 64 * kSwizzleBytes), b = stage + Tile::kABytes;
    const auto add = [&](uint32_t a_tile, uint32_t b_tile, bool adds_to) {
#pragma unroll
        for (int k_step = 0; k_step < kSwizzleBytes / 32; ++k_step)
            Step::template run<kAIsMnMajor, kBIsMnMajor>(
                sums, smem_descriptor(a_tile + k_step * (kAIsMnMajor ? kAdvanceMnMajor : kAdvanceKMajor), kAcross),
                smem_descriptor(b_tile + k_step * (kBIsMnMajor ? kAdvanceMnMajor : kAdvanceKMajor), kAcross),
                adds_to || k_step > 0);
    };
    wgmma_fence();
    if constexpr (Tile::kHasResiduals) {
        add(a + Tile::kBytes, b, accumulates);
        add(a, b + Tile::kBytes, true);
    }
    add(a, b, accumulates || Tile::kHasResiduals);
    wgmma_commit();
}

// Zeros K elements from `k_extent` on in the boxes of a stage, which belong to the next group; MN-major boxes have 128
// bytes for each.
template <class T, int kColumns>
BK_DEVICE void zero_k_tail(char* stage, int k_extent) {
    constexpr int kThreads = kConsumers * kWarpgroupThreads, kBoxK = 64,
                  kBoxes = WgmmaTile<T, kColumns>::kBytes / kSwizzleBytes / kBoxK;
    constexpr int kWords = kSwizzleBytes / 16;
    const int words = (kBoxK - k_extent) * kWords;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < kBoxes * words; i += kThreads) {
        const int word = (i / words * kBoxK + k_extent) * kWords + i % words;
        reinterpret_cast<uint4*>(stage)[word] = make_uint4(0, 0, 0, 0);
    }
    fence_async_proxy();
    sync_consumers<kThreads>();
}

// Main loop of a consumer warpgroup's 64 rows. The last stage has `k_tail` K elements if that is not 0.
template <class T, int kColumns, bool kAIsMnMajor, bool kBIsMnMajor, class Sum>
BK_DEVICE void mainloop(Sum (&sums)[kColumns / 2], char* tiles, uint64_t* full, uint64_t* empty, PipelineState& state,
                        int64_t steps, int k_tail, int warpgroup, int lane, int blocks) {
    using Tile = WgmmaTile<T, kColumns>;
    constexpr bool kIsRounded = std::is_same_v<matmul_element_t<T>, float>;
    const auto wait_full = [&] {
        wait_for_phase(full + state.stage, state.parity);
        if constexpr (kIsRounded) round_stage<T, kColumns>(tiles + state.stage * Tile::kPitch);
    };
    int previous = -1;
    if (kIsRounded && steps > 0) wait_full();
#pragma unroll 1
    for (int64_t step = 0; step < steps; ++step) {
        if (!kIsRounded) wait_full();
        if constexpr (kAIsMnMajor && kBIsMnMajor)
            if (k_tail != 0 && step + 1 == steps) zero_k_tail<T, kColumns>(tiles + state.stage * Tile::kPitch, k_tail);
        issue_mma<T, kColumns, kAIsMnMajor, kBIsMnMajor>(sums, tiles, state.stage, warpgroup, step > 0);
        wgmma_wait<1>();  // the previous stage's wgmma has retired: release its buffer
        if (previous >= 0) consumer_release(empty + previous, blocks, lane);
        previous = state.stage;
        state.advance(Tile::kStages);
        if (kIsRounded && step + 1 < steps) wait_full();  // while this stage's wgmma is in flight
    }
    wgmma_wait<0>();
    if (previous >= 0) consumer_release(empty + previous, blocks, lane);
}

}  // namespace bk
