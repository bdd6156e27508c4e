// SPDX-License-Identifier: Apache-2.0
// Tiles of Hopper backward attention: extents, shared memory, and which queries meet which keys.
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

// Extents of a tile: 64 keys of each warpgroup, queries of a step, and the padded head dimensions.
template <int kConsumersOf, int kRowsOf, int kDkOf, int kDvOf>
struct BackwardTile {
    static constexpr int kConsumers = kConsumersOf, kRows = kRowsOf, kDk = kDkOf, kDv = kDvOf;
    static constexpr int kKeys = kConsumers * kWarpgroupRows, kThreads = (kConsumers + 1) * kWarpgroup;
    static constexpr int kConsumerThreads = kConsumers * kWarpgroup;
    static constexpr int kQStages = 2, kDyStages = 2;
    static constexpr int kQBoxes = (kDk + kBoxElements - 1) / kBoxElements, kVBoxes = (kDv + kBoxElements - 1) / kBoxElements;
    static constexpr int kKBytes = kQBoxes * kKeys * kSwizzleBytes, kVBytes = kVBoxes * kKeys * kSwizzleBytes;
    static constexpr int kQBytes = kQBoxes * kRows * kSwizzleBytes, kDyBytes = kVBoxes * kRows * kSwizzleBytes;
    static constexpr int kStatisticsBytes = 2 * kRows * 4, kDsBytes = kRows * kKeys * 2;
    // A warpgroup multiplies 64 rows of dq, or all rows of its share of the columns.
    static constexpr bool kSplitsRows = kRows == kConsumers * kWarpgroupRows;
    static constexpr int kDqColumns = kSplitsRows ? kDk : kDk / kConsumers;
    static constexpr int kDqPart = kWarpgroupRows * kDqColumns, kDqPartBytes = kDqPart * 4;  // of a warpgroup
    static constexpr int kTileSlots = 2, kBarriers = 3 + 2 * (kQStages + kDyStages + kConsumers + kTileSlots) + 1;
    static constexpr int kShared = kKBytes + kVBytes + kQStages * (kQBytes + kStatisticsBytes) + kDyStages * kDyBytes +
                                   2 * kDsBytes + kConsumers * kDqPartBytes + kBarriers * 8 + kTileSlots * 4 + 1024;
    // Registers of a thread: together no more than the launch's, or setmaxnreg would wait for ever.
    static constexpr int kProducerRegisters = kConsumers == 2 ? 40 : 32, kConsumerRegisters = kConsumers == 2 ? 232 : 160;
    static_assert(kSplitsRows || (kRows == kWarpgroupRows && kDqColumns % kBoxElements == 0), "64 rows, whole boxes");
    static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <= (kConsumers + 1) * (65536 / kThreads / 8 * 8),
                  "setmaxnreg takes from the block's registers");
    static_assert(kShared <= 227 << 10, "a block's shared memory");
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
    char *k, *v, *q, *dy, *ds, *dq;
    float* statistics;
    uint64_t *k_full, *v_full, *kv_empty, *q_full, *q_empty, *dy_full, *dy_empty, *ds_full, *dq_full, *dq_empty, *tile_full,
        *tile_empty;
    int* tiles;  // numbers of the next tiles

    BK_DEVICE explicit BackwardMemory(char* base) {
        k = base + (1024 - shared_address(base) % 1024) % 1024;
        v = k + Tile::kKBytes;
        q = v + Tile::kVBytes;
        dy = q + Tile::kQStages * Tile::kQBytes;
        ds = dy + Tile::kDyStages * Tile::kDyBytes;
        dq = ds + 2 * Tile::kDsBytes;
        statistics = reinterpret_cast<float*>(dq + Tile::kConsumers * Tile::kDqPartBytes);
        k_full = reinterpret_cast<uint64_t*>(statistics + Tile::kQStages * 2 * Tile::kRows);
        v_full = k_full + 1;
        kv_empty = v_full + 1;
        q_full = kv_empty + 1;
        q_empty = q_full + Tile::kQStages;
        dy_full = q_empty + Tile::kQStages;
        dy_empty = dy_full + Tile::kDyStages;
        ds_full = dy_empty + Tile::kDyStages;
        dq_full = ds_full + 1;
        dq_empty = dq_full + Tile::kConsumers;
        tile_full = dq_empty + Tile::kConsumers;
        tile_empty = tile_full + Tile::kTileSlots;
        tiles = reinterpret_cast<int*>(tile_empty + Tile::kTileSlots);
    }
    BK_DEVICE void init() const {
        constexpr int kWarps = Tile::kConsumerThreads / 32;
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
        init_barrier(ds_full, kWarps);
        for (int warpgroup = 0; warpgroup < Tile::kConsumers; ++warpgroup) {
            init_barrier(dq_full + warpgroup, kWarpgroup / 32);
            init_barrier(dq_empty + warpgroup, 1);
        }
        for (int slot = 0; slot < Tile::kTileSlots; ++slot) {
            init_barrier(tile_full + slot, 1);
            init_barrier(tile_empty + slot, kWarps + 1);  // the consumers and the warp that stores dq
        }
        publish_barriers();
    }
};

}  // namespace bk
