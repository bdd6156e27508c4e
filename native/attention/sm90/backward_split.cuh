// SPDX-License-Identifier: Apache-2.0
// Consumers of Hopper backward attention of heads of more than 128 elements: dK and dV of 64 keys fill the registers of two
// warpgroups, which share the work by products. The first computes S, P and dV, the second dP, dS and dK; both add dQ of
// the step before, each for its columns.
//
// P goes from one to the other through shared memory in the order of the fragments, dS as the operand of dQ. One copy of P
// is enough: the first warpgroup waits for dS of a step, and so for the second to have read P, before it stores the next.
#pragma once

#include <cstdint>
#include <type_traits>

#include "attention/sm90/backward_products.cuh"

namespace bk {

BK_DEVICE uint4 load_shared(uint32_t from) {
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(from)
                 : "memory");
    return words;
}

// kWarpgroupOf is 0 for P and dV, 1 for dS and dK.
template <class T, class Tile, int kWarpgroupOf>
BK_DEVICE void consume_products(const BackwardWgmma<T>& g, const BackwardMemory<Tile>& memory) {
    constexpr bool kHasDv = kWarpgroupOf == 0;
    constexpr int kRows = Tile::kRows, kKeys = Tile::kKeys, kSlots = Tile::kTileSlots, kD = kHasDv ? Tile::kDv : Tile::kDk;
    constexpr int kSegments = Tile::segments_of(kWarpgroupOf), kDyStages = Tile::kDyStages;
    static_assert(kRows == kWarpgroupRows && kKeys == kWarpgroupRows && kSegments >= 1 && kSegments <= 2, "64 x 64 scores");
    const AttentionForward<T>& f = g.p.forward;
    const int thread = static_cast<int>(threadIdx.x) % kWarpgroup, lane = thread % 32;
    const int key_in_tile = thread / 32 * 16 + lane / 4;
    const float log2_scale = f.rules.scale * kLog2E;
    const uint32_t k = shared_address(memory.k), v = shared_address(memory.v);
    const uint32_t q = shared_address(memory.q), dy = shared_address(memory.dy);
    const uint32_t p_at = shared_address(memory.p) + static_cast<uint32_t>(thread * 16);
    const DqSegments<T, Tile> dq_segments(memory, kWarpgroupOf, thread);
    // Address of this thread's row of the stmatrix matrices: rows of 64 queries, their 16 bytes exchanged by the swizzle.
    const int matrix_row = thread / 32 * 16 + lane / 8 % 2 * 8 + lane % 8;
    const uint32_t ds_row =
        shared_address(memory.ds) + static_cast<uint32_t>(matrix_row * kSwizzleBytes + ((lane / 16 ^ lane % 8) * 16));
    const auto release = [&](uint64_t* barrier) {
        if (lane == 0) arrive(barrier);
    };
    int count = 0, kv_parity = 0;  // steps so far
    for (int tile_count = 0;; ++tile_count) {
        wait_for_phase(memory.tile_full + tile_count % kSlots, tile_count / kSlots % 2);
        const int number = *static_cast<volatile int*>(memory.tiles + tile_count % kSlots);
        if (number >= g.order.count) break;
        float sums[kD / 2];  // dV or dK
#pragma unroll
        for (int i = 0; i < kD / 2; ++i) sums[i] = 0;
        const KeyTile<Tile> tile(g, number);
        const int steps = (tile.end - tile.first) * static_cast<int>(f.heads / f.kv_heads);
        if (steps > 0) {
            const int shift = static_cast<int>(band_shift(f.rules.band, tile.s)), q_len = static_cast<int>(tile.s.q_len);
            const int keys_left = static_cast<int>(tile.s.k_len) - tile.index * kKeys;
            const KeyBand band{tile.index * kKeys - shift, tile.index * kKeys + key_in_tile - shift, keys_left - key_in_tile,
                               g.left, g.right};
            const bool has_neighbour = tile.s.q_begin + q_len < f.lengths.total_q;
            float products[kRows / 2], dq[Tile::kDqColumns / 2];  // S or dP, and a segment of dQ
            uint32_t weights[kRows / 4];                          // P or dS
            // A step along the queries, and dQ of the step before.
            const auto run_step = [&](auto has_last) {
                constexpr bool kHasLast = decltype(has_last)::value;
                const int stage = count % 2, dy_stage = count % kDyStages;
                wait_for_phase(memory.q_full + stage, count / 2 % 2);
                const int row = *static_cast<volatile int*>(memory.rows + stage);
                const bool has_tail = has_neighbour && row + kRows > q_len;
                if (has_tail)
                    zero_tail<kRows, Tile::kQBoxes>(memory.q + stage * Tile::kQBytes, q_len - row, thread, kWarpgroupOf);
                const uint32_t q_at = q + static_cast<uint32_t>(stage * Tile::kQBytes);
                const uint32_t dy_at = dy + static_cast<uint32_t>(dy_stage * Tile::kDyBytes);
                const float2* const statistics =
                    reinterpret_cast<const float2*>(memory.statistics + stage * (2 * kRows)) + lane % 4;
                const auto wait_for_dy = [&] {
                    wait_for_phase(memory.dy_full + dy_stage, count / kDyStages % 2);
                    if (has_tail)
                        zero_tail<kRows, Tile::kVBoxes>(memory.dy + dy_stage * Tile::kDyBytes, q_len - row, thread,
                                                        kWarpgroupOf);
                };
                if constexpr (kHasDv) {
                    start_product<T, Tile, Tile::kDk>(products, recomputed(k), q_at);
                } else {
                    wait_for_dy();
                    start_product<T, Tile, Tile::kDv>(products, recomputed(v), dy_at);
                }
                if constexpr (kHasLast) {
                    dq_segments.start(dq, count - 1, 0);
                    wgmma_wait<1>();
                } else {
                    wgmma_wait<0>();
                }
                keep_order(products);
                if constexpr (kHasDv) {
                    if (band.has_edge(row, kRows, keys_left)) band.mask(products, row + lane % 4 * 2);
#pragma unroll
                    for (int i = 0; i < kRows / 8; ++i) {
                        const float2 lse = statistics[4 * i];
#pragma unroll
                        for (int r = 0; r < 2; ++r) {
                            const int x = 4 * i + 2 * r;
                            weights[2 * i + r] = pack_pair<T>(exp2_approx(fmaf(products[x], log2_scale, -lse.x)),
                                                              exp2_approx(fmaf(products[x + 1], log2_scale, -lse.y)));
                        }
                    }
#pragma unroll
                    for (int i = 0; i < kRows / 16; ++i)
                        store_shared(p_at + static_cast<uint32_t>(i * kWarpgroup * 16), weights[4 * i], weights[4 * i + 1],
                                     weights[4 * i + 2], weights[4 * i + 3]);
                    __syncwarp();
                    release(memory.p_full);
                    release(memory.q_empty + stage);
                    wait_for_dy();
                    start_sum<T, Tile, kD>(sums, weights, dy_at);
                } else {
                    release(memory.dy_empty + dy_stage);
                    wait_for_phase(memory.p_full, count % 2);
                    sync_warpgroup(kWarpgroupOf);  // all of its warps have multiplied the dS that was here
                    const uint32_t ds_at = ds_row + static_cast<uint32_t>(stage * Tile::kDsBytes);
#pragma unroll
                    for (int j = 0; j < kRows / 16; ++j) {
                        const uint4 four = load_shared(p_at + static_cast<uint32_t>(j * kWarpgroup * 16));
                        const uint32_t p[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                        for (int i = 2 * j; i < 2 * j + 2; ++i) {
                            const float2 delta = statistics[kRows / 2 + 4 * i];
#pragma unroll
                            for (int r = 0; r < 2; ++r) {
                                const int x = 4 * i + 2 * r;
                                const float2 weight = unpack_pair<T>(p[(2 * i + r) % 4]);
                                weights[2 * i + r] =
                                    pack_pair<T>(weight.x * (products[x] - delta.x), weight.y * (products[x + 1] - delta.y));
                            }
                        }
                        stmatrix_x4(ds_at ^ (j * 32u), weights[4 * j], weights[4 * j + 1], weights[4 * j + 2],
                                    weights[4 * j + 3]);
                    }
                    fence_async_proxy();
                    __syncwarp();
                    release(memory.ds_full);
                    start_sum<T, Tile, kD>(sums, weights, q_at);
                }
                if constexpr (kHasLast) {
                    wgmma_wait<1>();
                    keep_order(dq);
                    dq_segments.store(dq, count - 1, 0);
                }
                if constexpr (kHasLast && kSegments == 2) {
                    dq_segments.start(dq, count - 1, 1);
                    wgmma_wait<1>();
                } else {
                    wgmma_wait<0>();
                }
                keep_order(weights);
                keep_order(sums);
                release(kHasDv ? memory.dy_empty + dy_stage : memory.q_empty + stage);
                if constexpr (kHasLast && kSegments == 2) {
                    wgmma_wait<0>();
                    keep_order(dq);
                    dq_segments.store(dq, count - 1, 1);
                }
                ++count;
            };
            wait_for_phase(memory.k_full, kv_parity);
            if (keys_left < kKeys) zero_tail<kKeys, Tile::kQBoxes>(memory.k, keys_left, thread, kWarpgroupOf);
            if constexpr (!kHasDv) {
                wait_for_phase(memory.v_full, kv_parity);
                if (keys_left < kKeys) zero_tail<kKeys, Tile::kVBoxes>(memory.v, keys_left, thread, kWarpgroupOf);
            }
            kv_parity ^= 1;
            run_step(std::false_type());
#pragma unroll 1
            for (int left = steps - 1; left > 0; --left) run_step(std::true_type());
#pragma unroll
            for (int segment = 0; segment < kSegments; ++segment) {
                dq_segments.start(dq, count - 1, segment);
                wgmma_wait<0>();
                keep_order(dq);
                if (segment == kSegments - 1) release(memory.kv_empty);
                dq_segments.store(dq, count - 1, segment);
            }
        }
        const KeyTile<Tile> stored(g, *static_cast<volatile int*>(memory.tiles + tile_count % kSlots));
        const int64_t key = stored.s.k_begin + int64_t{stored.index} * kKeys + key_in_tile;
        Lengths memory_lengths = f.lengths;  // keys behind k_lens have gradients of 0
        memory_lengths.k_lens = nullptr;
        const int64_t end = stored.s.k_begin + sequence_of(memory_lengths, stored.batch).k_len;
        store_keys<T, kD>(kHasDv ? g.p.dv : g.p.dk, sums, stored.batch, stored.kv_head, key, end, kHasDv ? 1.0f : f.rules.scale,
                          static_cast<int>(kHasDv ? f.d_v : f.d_k), lane);
        __syncwarp();
        release(memory.tile_empty + tile_count % kSlots);
    }
}

}  // namespace bk
