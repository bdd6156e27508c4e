// SPDX-License-Identifier: Apache-2.0
// What text that both targets share may know of the one that it is compiled for.
#pragma once

#include "core/platform.h"

namespace bk {

// Whether f64 arithmetic costs about twice that of f32 only, so that functions of f32 may be computed in f64.
constexpr bool kDoubleIsCheap = !BK_CUDA;

// Whether a case that few elements have is worth a branch. On the CPU it would take the vectors a loop is made of: there all
// cases are computed, and the right one selected.
constexpr bool kRareIsBranch = BK_ON_GPU;

}  // namespace bk
