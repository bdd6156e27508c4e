// Stable sort of (key, value) pairs by key, in a fixed order of operations. CUDA only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"

namespace bk {

// Two buffers for the keys and two for the values; the sort may use both of each.
struct SortBuffers {
    uint32_t* keys[2];
    uint32_t* values[2];
    void* scratch;
    size_t scratch_bytes;
};

SortBuffers carve_sort(Carver* carver, int64_t count, uint32_t largest_key);

// Sorts keys[0] and values[0]. Afterwards element 0 of each pair of buffers is the sorted one.
Status sort_pairs(const Launch& launch, SortBuffers* buffers, int64_t count, uint32_t largest_key);

}  // namespace bk
