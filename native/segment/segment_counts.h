// How many rows each segment has: what means are divided by. A caller of the reference ABI brings 4 bytes a segment for them.
#pragma once

#include <cstdint>

#include "core/abi/workspace.h"
#include "segment/segment_shape.h"

namespace bk {

// Room for the counts in the caller's workspace, or nullptr.
inline int32_t* find_counts(const Launch& launch, const SegmentShape& shape) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(launch.workspace);
    const size_t gap = (4 - address % 4) % 4, needed = sizeof(int32_t) * static_cast<size_t>(shape.num_segments);
    if (launch.workspace == nullptr || launch.workspace_bytes < gap + needed) return nullptr;
    return reinterpret_cast<int32_t*>(address + gap);
}

// Bytes that find_counts asks for at most: the reference's, and what an odd address costs.
inline size_t counts_bytes(const SegmentShape& shape) { return sizeof(int32_t) * static_cast<size_t>(shape.num_segments) + 3; }

}  // namespace bk
