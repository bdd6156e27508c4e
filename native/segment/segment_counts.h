// How many rows each segment has: what means are divided by. A caller of the reference ABI brings 4 bytes a segment for
// them.
#pragma once

#include <cstdint>

#include "core/abi/workspace.h"
#include "segment/segment_shape.h"

namespace bk {

// Room for the counts in the caller's workspace, or nullptr.
inline int32_t* find_counts(const Launch& launch, const SegmentShape& shape) {
    return workspace_array<int32_t>(launch, shape.num_segments);
}

// Bytes that find_counts asks for at most: the reference's, and what an odd address costs.
inline size_t counts_bytes(const SegmentShape& shape) { return sizeof(int32_t) * static_cast<size_t>(shape.num_segments) + 3; }

}  // namespace bk
