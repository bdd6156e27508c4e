// SPDX-License-Identifier: Apache-2.0
// Tiles of Hopper backward attention: extents, shared memory, and which queries see which keys.
#pragma once

#include <cstdint>

#include "attention/flash/scores.h"
#include "attention/sm90/backward_wgmma.h"
#include "attention/sm90/forward_wgmma.cuh"
#include "attention/sm90/tile_order.h"
#include "core/intrinsics/tensor_map.h"
#include "core/intrinsics/transaction_barrier.cuh"
#include "core/intrinsics/wgmma.cuh"
#include "core/platform.h"

namespace bk {

// Extents of a tile of two consumer warpgroups: queries of a step, and the padded head dimensions.
//
// Up to 128 elements a head each warpgroup has 64 keys of its own. Above, dK and dV of 64 keys fill the registers of both:
// the first computes P and dV, the second dS and dK, of the same 64 keys.
template <int kRowsOf, int kDkOf, int kDvOf, bool kSplitsProductsOf = (kDkOf > 128)>
struct BackwardTile {
    static constexpr int kConsumers = 2, kRows = kRowsOf, kDk = kDkOf, kDv = kDvOf;
    static constexpr bool kSplitsProducts = kSplitsProductsOf;
    // dQ of a step under S of the next, and dP under the exponentials, if the registers hold them beside dK and dV.
    static constexpr bool kOverlaps = kSplitsProducts || kDk + kDv <= 256;
    static constexpr int kKeys = kSplitsProducts ? kWarpgroupRows : kConsumers * kWarpgroupRows;
    static constexpr int kThreads = (kConsumers + 1) * kWarpgroup, kConsumerThreads = kConsumers * kWarpgroup;
    static constexpr int kQStages = 2, kDyStages = kDv > 192 ? 1 : 2;
    static constexpr int kQBoxes = (kDk + kBoxElements - 1) / kBoxElements, kVBoxes = (kDv + kBoxElements - 1) / kBoxElements;
    static constexpr int kKBytes = kQBoxes * kKeys * kSwizzleBytes, kVBytes = kVBoxes * kKeys * kSwizzleBytes;
    static constexpr int kQBytes = kQBoxes * kRows * kSwizzleBytes, kDyBytes = kVBoxes * kRows * kSwizzleBytes;
    static constexpr int kStatisticsBytes = 2 * kRows * 4, kDsBytes = kRows * kKeys * 2;
    static constexpr int kPBytes = kSplitsProducts ? kRows * kKeys * 2 : 0;

    // dQ of a step is in segments of 64 rows and up to 64 columns; a warpgroup has one after another in its buffer of the step.
    static constexpr bool kSplitsRows = kRows > kWarpgroupRows;
    static constexpr int kDqColumns = kBoxElements, kSegments = kSplitsRows ? kRows / kWarpgroupRows : kQBoxes;
    static constexpr int kSegment = kWarpgroupRows * kDqColumns, kSegmentBytes = kSegment * 4;
    static constexpr int kMostSegments = (kSegments + kConsumers - 1) / kConsumers;  // of a warpgroup
    BK_HD static constexpr int segments_of(int warpgroup) { return warpgroup == 0 ? kMostSegments : kSegments - kMostSegments; }
    BK_HD static constexpr int first_segment_of(int warpgroup) { return warpgroup == 0 ? 0 : kMostSegments; }
    BK_HD static constexpr int octets_of(int segment) {  // of columns
        return (kSplitsRows || kDk - segment * kDqColumns >= kDqColumns ? kDqColumns : kDk - segment * kDqColumns) / 8;
    }

    // Steps alternate between two warps that add dQ to global memory, and between buffers where two fit.
    static constexpr int kAdders = 2, kTileSlots = 2;
    static constexpr int kBarriers = 3 + 2 * (kQStages + kDyStages + kAdders * kConsumers + kTileSlots) + 2;
    static constexpr int kSharedWithoutDq = kKBytes + kVBytes + kQStages * (kQBytes + kStatisticsBytes) + kDyStages * kDyBytes +
                                            2 * kDsBytes + kPBytes + kBarriers * 8 + (kTileSlots + kQStages) * 4 + 1024;
    static constexpr int kMostShared = 227 << 10, kDqBytes = kConsumers * kSegmentBytes;  // of a buffer
    static constexpr int kDqBuffers = kMostSegments == 1 && kSharedWithoutDq + 2 * kDqBytes <= kMostShared ? 2 : 1;
    static constexpr int kShared = kSharedWithoutDq + kDqBuffers * kDqBytes;
    // Registers of a thread: together no more than the launch's, or setmaxnreg would wait for ever.
    static constexpr int kProducerRegisters = kOverlaps ? 40 : 24, kConsumerRegisters = kOverlaps ? 232 : 240;
    static_assert(kRows == kWarpgroupRows || (kRows == kConsumers * kWarpgroupRows && kDk == kDqColumns), "whole segments");
    static_assert(!kOverlaps || kSplitsProducts || kSegments == kConsumers, "a segment of each warpgroup");
    static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <= (kConsumers + 1) * (65536 / kThreads / 8 * 8),
                  "setmaxnreg takes from the block's registers");
    static_assert(kShared <= kMostShared, "a block's shared memory");
};

struct BackwardMaps {
    TensorMap q, k, v, dy;
    // Coordinates are multiplied by these: 0 along broadcast axes.
    int q_batch, q_head, k_batch, k_head, v_batch, v_head, dy_batch, dy_head;
};

// Arguments of the kernels.
template <class T>
struct BackwardWgmma {
    AttentionBackward<T> p;
    BackwardScratch scratch;
    BackwardMaps maps;
    TileOrder order;     // tiles of keys of the key-value heads
    int left, right;     // of the band
    int sequence_tiles;  // of queries, without offsets
    bool is_ordered;     // dq is summed in the order of the keys
};

// The first of a sequence's tiles of queries in the scratch.
template <class T>
BK_DEVICE int first_query_tile(const BackwardWgmma<T>& g, const Sequence& s, int b, int rows) {
    return g.p.forward.lengths.q_offsets != nullptr ? static_cast<int>(s.q_begin) / rows + b : b * g.sequence_tiles;
}

// A tile of keys, and the tiles of queries that see some of them.
template <class Tile>
struct KeyTile {
    int batch, kv_head, index;
    int first, end;  // tiles of queries
    Sequence s;

    template <class T>
    BK_DEVICE KeyTile(const BackwardWgmma<T>& g, int number) {
        const QueryTile tile = g.order.tile(number);
        batch = tile.batch;
        kv_head = tile.head;
        index = g.order.tiles - 1 - tile.index;  // the first keys first: a causal mask gives them the most queries
        s = sequence_of(g.p.forward.lengths, batch);
        const int64_t key = int64_t{index} * Tile::kKeys, last = min(key + Tile::kKeys, s.k_len) - 1;
        const KeyRange rows = last >= key ? rows_of_keys(g.p.forward.rules.band, s, key, last) : KeyRange{0, 0};
        first = static_cast<int>(rows.first / Tile::kRows);
        end = rows.end <= rows.first ? first : static_cast<int>((rows.end + Tile::kRows - 1) / Tile::kRows);
    }
};

// Shared memory of a block.
template <class Tile>
struct BackwardMemory {
    char *k, *v, *q, *dy, *ds, *p, *dq;
    float* statistics;
    uint64_t *k_full, *v_full, *kv_empty, *q_full, *q_empty, *dy_full, *dy_empty, *p_full, *ds_full, *dq_full, *dq_empty,
        *tile_full, *tile_empty;
    int *tiles, *rows;  // numbers of the next tiles, and the first query of each stage

    BK_DEVICE explicit BackwardMemory(char* base) {
        k = base + (1024 - shared_address(base) % 1024) % 1024;
        v = k + Tile::kKBytes;
        q = v + Tile::kVBytes;
        dy = q + Tile::kQStages * Tile::kQBytes;
        ds = dy + Tile::kDyStages * Tile::kDyBytes;
        p = ds + 2 * Tile::kDsBytes;
        dq = p + Tile::kPBytes;
        statistics = reinterpret_cast<float*>(dq + Tile::kDqBuffers * Tile::kDqBytes);
        k_full = reinterpret_cast<uint64_t*>(statistics + Tile::kQStages * 2 * Tile::kRows);
        v_full = k_full + 1;
        kv_empty = v_full + 1;
        q_full = kv_empty + 1;
        q_empty = q_full + Tile::kQStages;
        dy_full = q_empty + Tile::kQStages;
        dy_empty = dy_full + Tile::kDyStages;
        p_full = dy_empty + Tile::kDyStages;
        ds_full = p_full + 1;
        dq_full = ds_full + 1;
        dq_empty = dq_full + Tile::kAdders * Tile::kConsumers;
        tile_full = dq_empty + Tile::kAdders * Tile::kConsumers;
        tile_empty = tile_full + Tile::kTileSlots;
        tiles = reinterpret_cast<int*>(tile_empty + Tile::kTileSlots);
        rows = tiles + Tile::kTileSlots;
    }
    BK_DEVICE void init() const {
        constexpr int kWarps = Tile::kConsumerThreads / 32, kWarpgroupWarps = kWarpgroup / 32;
        init_barrier(k_full, 1);
        init_barrier(v_full, 1);
        init_barrier(kv_empty, kWarps);
        for (int stage = 0; stage < Tile::kQStages; ++stage) {
            init_barrier(q_full + stage, 1);
            init_barrier(q_empty + stage, kWarps);
        }
        for (int stage = 0; stage < Tile::kDyStages; ++stage) {
            init_barrier(dy_full + stage, 1);
            init_barrier(dy_empty + stage, kWarps);
        }
        init_barrier(p_full, kWarpgroupWarps);
        init_barrier(ds_full, Tile::kSplitsProducts ? kWarpgroupWarps : kWarps);
        for (int i = 0; i < Tile::kAdders * Tile::kConsumers; ++i) {
            init_barrier(dq_full + i, kWarpgroupWarps);
            init_barrier(dq_empty + i, 1);
        }
        for (int slot = 0; slot < Tile::kTileSlots; ++slot) {
            init_barrier(tile_full + slot, 1);
            init_barrier(tile_empty + slot, kWarps + Tile::kAdders);
        }
        publish_barriers();
    }
    // Barriers of a warpgroup's segments of dQ for one of the warps that add them.
    BK_DEVICE static int segment_barrier(int adder, int warpgroup) { return adder * Tile::kConsumers + warpgroup; }
    // Phase of them of a segment of a step.
    BK_DEVICE static int segment_phase(int step, int warpgroup, int segment) {
        return step / Tile::kAdders * Tile::segments_of(warpgroup) + segment;
    }
};

}  // namespace bk
