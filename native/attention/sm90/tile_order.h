// SPDX-License-Identifier: Apache-2.0
// Order of the query tiles of all heads, which blocks take one after another.
//
// Heads are taken in sections whose keys and values fit the L2 cache together; within a section the tiles of a head's last
// queries come first, since a causal mask gives them the most keys: longest processing time first.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/platform.h"

namespace bk {

struct QueryTile {
    int batch, head, index;
};

struct TileOrder {
    int heads = 0, tiles = 0;  // heads of a batch; tiles of a head
    int section = 1;           // heads of a section, over all batches
    int all_heads = 0, count = 0;

    static TileOrder of(int64_t batch, int64_t heads, int64_t group, int64_t tiles, int64_t kv_bytes) {
        constexpr int64_t kL2Bytes = int64_t{24} << 20;
        const int64_t all = batch * heads;
        int64_t section = std::max<int64_t>(kL2Bytes / std::max<int64_t>(kv_bytes, 1), 1) * group;
        section = std::min(std::max<int64_t>(section, 1), all);
        return {static_cast<int>(heads), static_cast<int>(tiles), static_cast<int>(section), static_cast<int>(all),
                static_cast<int>(all * tiles)};
    }

    BK_HD QueryTile tile(int index) const {
        const int of_section = section * tiles, number = index / of_section;
        const int rest = index - number * of_section, first = number * section;
        const int width = all_heads - first < section ? all_heads - first : section;
        const int row = rest / width, head = first + (rest - row * width);
        return {head / heads, head % heads, tiles - 1 - row};
    }

    // Tile `round` of a block without a counter. Rounds alternate in direction, so that no block always has the longest.
    BK_HD int fixed(int round, int block, int blocks) const {
        return round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
    }
};

}  // namespace bk
