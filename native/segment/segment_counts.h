// SPDX-License-Identifier: Apache-2.0
// Row counts of segments, the divisors of means; 4 bytes a segment of the workspace, as in the reference ABI.
#pragma once

#include <cstdint>

#include "core/abi/workspace.h"
#include "segment/segment_shape.h"

namespace bk {

// The counts in the workspace, or nullptr if it is too small.
inline int32_t* find_counts(const Launch& launch, const SegmentShape& shape) {
    return workspace_array<int32_t>(launch, shape.num_segments);
}

// Workspace bytes for find_counts(): the reference's, plus 3 for alignment.
inline size_t counts_bytes(const SegmentShape& shape) { return sizeof(int32_t) * static_cast<size_t>(shape.num_segments) + 3; }

}  // namespace bk
