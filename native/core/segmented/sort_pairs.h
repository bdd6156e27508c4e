// SPDX-License-Identifier: Apache-2.0
// Stable radix sort of (key, value) pairs by key (CUB), deterministic. CUDA only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"

namespace bk {

// Double buffers of keys and values; the sort may use both of each.
struct SortBuffers {
    uint32_t* keys[2];
    uint32_t* values[2];
    void* scratch;
    size_t scratch_bytes;
};

SortBuffers carve_sort(Carver* carver, int64_t count, uint32_t largest_key);

// Sorts keys[0] and values[0]; keys[0] and values[0] then point to the sorted arrays.
Status sort_pairs(const Launch& launch, SortBuffers* buffers, int64_t count, uint32_t largest_key);

}  // namespace bk
