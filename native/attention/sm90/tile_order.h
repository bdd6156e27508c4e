// SPDX-License-Identifier: Apache-2.0
// Order of the query tiles of all heads over persistent blocks.
//
// Heads are taken in sections whose keys and values fit the L2 cache together; within a section the tiles of a head's last
// queries come first, since a causal mask gives them the most keys: longest processing time first. Rounds alternate in
// direction, so that no block always gets the longest tile of a round.
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
    int64_t all_heads = 0, count = 0;

    static TileOrder of(int64_t batch, int64_t heads, int64_t group, int64_t tiles, int64_t kv_bytes) {
        constexpr int64_t kL2Bytes = int64_t{24} << 20;
        const int64_t all = batch * heads;
        int64_t section = std::max<int64_t>(kL2Bytes / std::max<int64_t>(kv_bytes, 1), 1) * group;
        section = std::min(std::max<int64_t>(section, 1), all);
        return {static_cast<int>(heads), static_cast<int>(tiles), static_cast<int>(section), all, all * tiles};
    }

    BK_HD QueryTile tile(int64_t index) const {
        const int64_t of_section = static_cast<int64_t>(section) * tiles, number = index / of_section;
        const int64_t rest = index - number * of_section, first = number * section;
        const int64_t width = all_heads - first < section ? all_heads - first : section;
        const int64_t row = rest / width, head = first + (rest - row * width);
        return {static_cast<int>(head / heads), static_cast<int>(head % heads), tiles - 1 - static_cast<int>(row)};
    }

    // Tile `round` of block `block` of `blocks`.
    BK_HD int64_t index_of(int64_t round, int64_t block, int64_t blocks) const {
        return round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
    }
};

}  // namespace bk
