// SPDX-License-Identifier: Apache-2.0
// Copies between four small planes and one of blocks of 2 x 2 elements, on a GPU.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"

namespace bk {

// big[p, 2 h + i, 2 w + j] = small[4 p + 2 i + j, h, w] for h < height and w < width, all contiguous.
struct BlockPairs {
    int64_t planes, height, width;
};

// Whether copy_block_pairs() takes elements of so many bytes: rows are then whole vectors.
bool has_block_vectors(const BlockPairs& blocks, int bytes, const void* x, const void* y);
Status copy_block_pairs(const Launch& launch, const BlockPairs& blocks, bool is_to_big, int bytes, const void* x, void* y);

}  // namespace bk
