// SPDX-License-Identifier: Apache-2.0
// Products of extents in sizes of workspaces and scratch, which saturate: extents of broadcast matrices are bounded by no
// memory.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk::linalg {

// Far above what exists; sums of a few do not overflow.
constexpr int64_t kMostBytes = int64_t{1} << 58;

constexpr BK_HD int64_t times(int64_t a, int64_t b) { return b != 0 && a > kMostBytes / b ? kMostBytes : a * b; }

}  // namespace bk::linalg
