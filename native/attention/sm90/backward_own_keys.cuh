// SPDX-License-Identifier: Apache-2.0
// Consumers of Hopper backward attention that have 64 keys each, with dK and dV in registers.
//
// Products run under the arithmetic of other steps: dP and dK of the step before under the exponentials, dV and dQ of the
// step before under dS, and S of the next step and dK under the copy of dQ.
#pragma once

#include <cstdint>
#include <type_traits>

#include "attention/sm90/backward_products.cuh"

namespace bk {

template <class T, class Tile>
BK_DEVICE void consume_own_keys(const BackwardWgmma<T>& g, const BackwardMemory<Tile>& memory) {
    constexpr int kRows = Tile::kRows, kKeys = Tile::kKeys, kSlots = Tile::kTileSlots;
    const AttentionForward<T>& f = g.p.forward;
    const int thread = static_cast<int>(threadIdx.x) % kWarpgroup, lane = thread % 32;
    const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
    const int key_in_tile = warpgroup * kWarpgroupRows + thread / 32 * 16 + lane / 4;
    const float log2_scale = f.rules.scale * kLog2E;
    const uint32_t q = shared_address(memory.q), dy = shared_address(memory.dy);
    const uint32_t own_k = shared_address(memory.k) + static_cast<uint32_t>(warpgroup * (kWarpgroupRows * kSwizzleBytes));
    const uint32_t own_v = shared_address(memory.v) + static_cast<uint32_t>(warpgroup * (kWarpgroupRows * kSwizzleBytes));
    const uint32_t ds = shared_address(memory.ds);
    const DqSegments<T, Tile> dq_segments(memory, warpgroup, thread);
    // Address of this thread's row of the stmatrix matrices: rows of 64 queries, their 16 bytes exchanged by the swizzle.
    const int matrix_row = warpgroup * kWarpgroupRows + thread / 32 * 16 + lane / 8 % 2 * 8 + lane % 8;
    const uint32_t ds_row = ds + static_cast<uint32_t>(matrix_row * kSwizzleBytes + ((lane / 16 ^ lane % 8) * 16));
    const auto release = [&](uint64_t* barrier) {
        if (lane == 0) arrive(barrier);
    };
    int count = 0, kv_parity = 0;  // steps so far; a stage is full for every second of them
    for (int tile_count = 0;; ++tile_count) {
        wait_for_phase(memory.tile_full + tile_count % kSlots, tile_count / kSlots % 2);
        const int number = *static_cast<volatile int*>(memory.tiles + tile_count % kSlots);
        if (number >= g.order.count) break;
        float dk[Tile::kDk / 2], dv[Tile::kDv / 2];
#pragma unroll
        for (int v = 0; v < Tile::kDk / 2; ++v) dk[v] = 0;
#pragma unroll
        for (int v = 0; v < Tile::kDv / 2; ++v) dv[v] = 0;
        const KeyTile<Tile> tile(g, number);
        const int steps = (tile.end - tile.first) * static_cast<int>(f.heads / f.kv_heads);
        if (steps > 0) {
            const int shift = static_cast<int>(band_shift(f.rules.band, tile.s)), q_len = static_cast<int>(tile.s.q_len);
            const int keys_left = static_cast<int>(tile.s.k_len) - tile.index * kKeys;
            const KeyBand band{tile.index * kKeys + warpgroup * kWarpgroupRows - shift,
                               tile.index * kKeys + key_in_tile - shift, keys_left - key_in_tile, g.left, g.right};
            const bool has_neighbour = tile.s.q_begin + q_len < f.lengths.total_q;
            float scores[kRows / 2], dp[kRows / 2], dq[Tile::kDqColumns / 2];
            uint32_t p[kRows / 4], ds[kRows / 4];
            uint32_t (&rounded)[kRows / 4] = Tile::kOverlaps ? ds : p;  // dS, in place of P where dV has been multiplied before
            // A step along the queries, and dQ of the step before.
            const auto run_step = [&](auto has_last) {
                constexpr bool kHasLast = decltype(has_last)::value;
                const int stage = count % 2, parity = count / 2 % 2;
                const uint32_t q_at = q + static_cast<uint32_t>(stage * Tile::kQBytes);
                const uint32_t dy_at = dy + static_cast<uint32_t>(stage * Tile::kDyBytes);
                const float2* const statistics =
                    reinterpret_cast<const float2*>(memory.statistics + stage * (2 * kRows)) + lane % 4;
                if constexpr (kHasLast) dq_segments.start(dq, count - 1, 0);
                wait_for_phase(memory.q_full + stage, parity);
                const int row = *static_cast<volatile int*>(memory.rows + stage);
                const bool has_tail = has_neighbour && row + kRows > q_len;
                if (has_tail) zero_tail<kRows, Tile::kQBoxes>(memory.q + stage * Tile::kQBytes, q_len - row, thread, warpgroup);
                start_product<T, Tile, Tile::kDk>(scores, recomputed(own_k), q_at);
                if constexpr (kHasLast) {
                    wgmma_wait<1>();
                    keep_order(dq);
                    dq_segments.store(dq, count - 1, 0);
                }
                wait_for_phase(memory.dy_full + stage, parity);
                if (has_tail)
                    zero_tail<kRows, Tile::kVBoxes>(memory.dy + stage * Tile::kDyBytes, q_len - row, thread, warpgroup);
                if constexpr (Tile::kOverlaps) {
                    start_product<T, Tile, Tile::kDv>(dp, recomputed(own_v), dy_at);
                    wgmma_wait<1>();
                } else {
                    wgmma_wait<0>();
                }
                keep_order(scores);
                if (band.has_edge(row, kRows, keys_left - warpgroup * kWarpgroupRows)) band.mask(scores, row + lane % 4 * 2);
#pragma unroll
                for (int i = 0; i < kRows / 8; ++i) {
                    const float2 lse = statistics[4 * i];
#pragma unroll
                    for (int r = 0; r < 2; ++r) {
                        const int v = 4 * i + 2 * r;
                        p[2 * i + r] = pack_pair<T>(exp2_approx(fmaf(scores[v], log2_scale, -lse.x)),
                                                    exp2_approx(fmaf(scores[v + 1], log2_scale, -lse.y)));
                    }
                }
                if constexpr (!Tile::kOverlaps) start_product<T, Tile, Tile::kDv>(dp, recomputed(own_v), dy_at);
                start_sum<T, Tile, Tile::kDv>(dv, p, dy_at);
                if constexpr (Tile::kOverlaps) {
                    wgmma_wait<1>();
                } else {
                    wgmma_wait<0>();
                    keep_order(p);
                    keep_order(dv);
                    release(memory.dy_empty + stage);
                }
                keep_order(dp);
                const uint32_t ds_at = ds_row + static_cast<uint32_t>(stage * Tile::kDsBytes);
                const auto store_ds = [&](int i) {
                    stmatrix_x4((ds_at + static_cast<uint32_t>(i / 4 * (kKeys * kSwizzleBytes))) ^ (i % 4 * 32u),
                                rounded[4 * i], rounded[4 * i + 1], rounded[4 * i + 2], rounded[4 * i + 3]);
                };
#pragma unroll
                for (int i = 0; i < kRows / 8; ++i) {
                    const float2 delta = statistics[kRows / 2 + 4 * i];
#pragma unroll
                    for (int r = 0; r < 2; ++r) {
                        const int v = 4 * i + 2 * r;
                        const float2 weight = unpack_pair<T>(p[2 * i + r]);
                        rounded[2 * i + r] = pack_pair<T>(weight.x * (dp[v] - delta.x), weight.y * (dp[v + 1] - delta.y));
                    }
                    if (!Tile::kOverlaps && i % 2 == 1) store_ds(i / 2);
                }
                if constexpr (Tile::kOverlaps) {
#pragma unroll
                    for (int i = 0; i < kRows / 16; ++i) store_ds(i);
                }
                fence_async_proxy();
                __syncwarp();
                release(memory.ds_full);
                start_sum<T, Tile, Tile::kDk>(dk, rounded, q_at);
                if constexpr (Tile::kOverlaps) {
                    wgmma_wait<1>();
                    keep_order(p);
                    release(memory.dy_empty + stage);
                }
                wgmma_wait<0>();
                keep_order(rounded);
                keep_order(dv);
                keep_order(dk);
                release(memory.q_empty + stage);
                if constexpr (!Tile::kOverlaps) {
#pragma unroll 1
                    for (int segment = 0; segment < Tile::segments_of(warpgroup); ++segment) {
                        dq_segments.start(dq, count, segment);
                        wgmma_wait<0>();
                        keep_order(dq);
                        dq_segments.store(dq, count, segment);
                    }
                }
                ++count;
            };
            wait_for_phase(memory.k_full, kv_parity);
            if (keys_left < kKeys) zero_tail<kKeys, Tile::kQBoxes>(memory.k, keys_left, thread, warpgroup);
            wait_for_phase(memory.v_full, kv_parity);
            if (keys_left < kKeys) zero_tail<kKeys, Tile::kVBoxes>(memory.v, keys_left, thread, warpgroup);
            kv_parity ^= 1;
            if constexpr (Tile::kOverlaps) {
                run_step(std::false_type());
#pragma unroll 1
                for (int left = steps - 1; left > 0; --left) run_step(std::true_type());
                dq_segments.start(dq, count - 1, 0);
                wgmma_wait<0>();
                keep_order(dq);
                release(memory.kv_empty);
                dq_segments.store(dq, count - 1, 0);
            } else {
#pragma unroll 1
                for (int left = steps; left > 0; --left) run_step(std::false_type());
                release(memory.kv_empty);
            }
        }
        const KeyTile<Tile> stored(g, *static_cast<volatile int*>(memory.tiles + tile_count % kSlots));
        const int64_t key = int64_t{stored.index} * kKeys + key_in_tile;
        Lengths memory_lengths = f.lengths;  // keys behind k_lens have gradients of 0
        memory_lengths.k_lens = nullptr;
        const int64_t end = sequence_of(memory_lengths, stored.batch).k_len;
        store_keys<T, Tile::kDv>(g.p.dv, dv, stored.batch, stored.kv_head, stored.s.k_begin + key, stored.s.k_begin + end, 1.0f,
                                 static_cast<int>(f.d_v), lane);
        store_keys<T, Tile::kDk>(g.p.dk, dk, stored.batch, stored.kv_head, stored.s.k_begin + key, stored.s.k_begin + end,
                                 f.rules.scale, static_cast<int>(f.d_k), lane);
        __syncwarp();
        release(memory.tile_empty + tile_count % kSlots);
    }
}

}  // namespace bk
