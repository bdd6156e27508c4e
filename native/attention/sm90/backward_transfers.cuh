// SPDX-License-Identifier: Apache-2.0
// The producer's warps of Hopper backward attention: TMA loads of the operands, and the sums of dQ in global memory.
#pragma once

#include <cstdint>

#include "attention/sm90/backward_tile.cuh"
#include "core/intrinsics/pipeline_state.cuh"
#include "core/intrinsics/tma.cuh"

namespace bk {

// Loads what the consumers multiply.
template <class T, class Tile>
BK_DEVICE void load_operands(const BackwardWgmma<T>& g, const BackwardMemory<Tile>& memory) {
    constexpr int kRows = Tile::kRows, kKeys = Tile::kKeys;
    const AttentionForward<T>& f = g.p.forward;
    const BackwardMaps& maps = g.maps;
    const int group = static_cast<int>(f.heads / f.kv_heads);
    PipelineState slots, queries, outputs;
    int kv_parity = 1;
    for (;;) {
        const int number = atomicAdd(g.scratch.counter, 1);
        wait_for_phase(memory.tile_empty + slots.stage, slots.parity ^ 1);
        memory.tiles[slots.stage] = number;
        arrive(memory.tile_full + slots.stage);
        slots.advance(Tile::kTileSlots);
        if (number >= g.order.count) break;
        const KeyTile<Tile> tile(g, number);
        const int first_tile = first_query_tile(g, tile.s, tile.batch, kRows), begin = static_cast<int>(tile.s.q_begin);
        bool has_keys = false;
        for (int t = tile.end - 1; t >= tile.first; --t)
            for (int head = tile.kv_head * group; head < (tile.kv_head + 1) * group; ++head) {
                uint64_t* const q_full = memory.q_full + queries.stage;
                wait_for_phase(memory.q_empty + queries.stage, queries.parity ^ 1);
                memory.rows[queries.stage] = t * kRows;
                arrive_expecting(q_full, Tile::kQBytes + Tile::kStatisticsBytes);
                for (int box = 0; box < Tile::kQBoxes; ++box)
                    tma_load(memory.q + queries.stage * Tile::kQBytes + box * (kRows * kSwizzleBytes), maps.q,
                             box * kBoxElements, begin + t * kRows, head * maps.q_head, tile.batch * maps.q_batch, q_full);
                bulk_load(memory.statistics + queries.stage * (2 * kRows),
                          g.scratch.statistics + (head * g.scratch.q_tiles + first_tile + t) * (2 * kRows),
                          Tile::kStatisticsBytes, q_full);
                queries.advance(Tile::kQStages);
                if (!has_keys) {
                    const int key = static_cast<int>(tile.s.k_begin) + tile.index * kKeys;
                    has_keys = true;
                    wait_for_phase(memory.kv_empty, kv_parity);
                    kv_parity ^= 1;
                    arrive_expecting(memory.k_full, Tile::kKBytes);
                    for (int box = 0; box < Tile::kQBoxes; ++box)
                        tma_load(memory.k + box * (kKeys * kSwizzleBytes), maps.k, box * kBoxElements, key,
                                 tile.kv_head * maps.k_head, tile.batch * maps.k_batch, memory.k_full);
                    arrive_expecting(memory.v_full, Tile::kVBytes);
                    for (int box = 0; box < Tile::kVBoxes; ++box)
                        tma_load(memory.v + box * (kKeys * kSwizzleBytes), maps.v, box * kBoxElements, key,
                                 tile.kv_head * maps.v_head, tile.batch * maps.v_batch, memory.v_full);
                }
                uint64_t* const dy_full = memory.dy_full + outputs.stage;
                wait_for_phase(memory.dy_empty + outputs.stage, outputs.parity ^ 1);
                arrive_expecting(dy_full, Tile::kDyBytes);
                for (int box = 0; box < Tile::kVBoxes; ++box)
                    tma_load(memory.dy + outputs.stage * Tile::kDyBytes + box * (kRows * kSwizzleBytes), maps.dy,
                             box * kBoxElements, begin + t * kRows, head * maps.dy_head, tile.batch * maps.dy_batch, dy_full);
                outputs.advance(Tile::kDyStages);
            }
    }
}

BK_DEVICE int load_acquire(const int* from) {
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}
BK_DEVICE void store_release(int* to, int value) {
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
BK_DEVICE void fence_all_proxies() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Adds the consumers' dQ of every second step to global memory.
template <class T, class Tile>
BK_DEVICE void add_queries(const BackwardWgmma<T>& g, const BackwardMemory<Tile>& memory, int adder) {
    constexpr int kRows = Tile::kRows, kConsumers = Tile::kConsumers;
    const AttentionForward<T>& f = g.p.forward;
    const int group = static_cast<int>(f.heads / f.kv_heads), copies = g.scratch.copies;
    const int64_t slots_of_copy = f.heads * g.scratch.q_tiles;
    PipelineState slots;
    for (int step = 0;;) {
        wait_for_phase(memory.tile_full + slots.stage, slots.parity);
        const int number = *static_cast<volatile int*>(memory.tiles + slots.stage);
        arrive(memory.tile_empty + slots.stage);
        slots.advance(Tile::kTileSlots);
        if (number >= g.order.count) break;
        const KeyTile<Tile> tile(g, number);
        const int shift = static_cast<int>(band_shift(f.rules.band, tile.s));
        const int64_t first_slot = tile.index % copies * slots_of_copy + first_query_tile(g, tile.s, tile.batch, kRows);
        for (int t = tile.end - 1; t >= tile.first; --t)
            for (int head = tile.kv_head * group; head < (tile.kv_head + 1) * group; ++head, ++step) {
                if (step % Tile::kAdders != adder) continue;
                const int64_t at = first_slot + head * g.scratch.q_tiles + t;
                float* const dq = g.scratch.dq + at * (kRows * Tile::kDk);
                // Tiles of keys before this one that these queries see and that have the same copy.
                const int before = (tile.index - max(t * kRows + shift - g.left, 0) / Tile::kKeys) / copies;
                const bool is_first = g.is_ordered && before == 0;
                if (g.is_ordered && before > 0) {
                    while (load_acquire(g.scratch.semaphores + at) != before) {
                    }
                    fence_all_proxies();
                }
                const char* const buffer = memory.dq + step % Tile::kDqBuffers * Tile::kDqBytes;
#pragma unroll
                for (int round = 0; round < Tile::kMostSegments; ++round) {
#pragma unroll
                    for (int w = 0; w < kConsumers; ++w) {
                        if (round >= Tile::segments_of(w)) continue;
                        const int segment = Tile::first_segment_of(w) + round,
                                  bytes = Tile::octets_of(segment) * (kWarpgroup * 16);
                        wait_for_phase(memory.dq_full + memory.segment_barrier(adder, w),
                                       memory.segment_phase(step, w, round) % 2);
                        if (is_first)
                            bulk_store(dq + segment * Tile::kSegment, buffer + w * Tile::kSegmentBytes, bytes);
                        else
                            bulk_add(dq + segment * Tile::kSegment, buffer + w * Tile::kSegmentBytes, bytes);
                        end_store_group();
                    }
                    wait_for_store_reads<0>();
#pragma unroll
                    for (int w = 0; w < kConsumers; ++w)
                        if (round < Tile::segments_of(w)) arrive(memory.dq_empty + memory.segment_barrier(adder, w));
                }
                if (g.is_ordered) {
                    wait_for_stores<0>();
                    fence_all_proxies();
                    store_release(g.scratch.semaphores + at, before + 1);
                }
            }
    }
    wait_for_stores<0>();
}

}  // namespace bk
