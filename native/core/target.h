// SPDX-License-Identifier: Apache-2.0
// Properties of the compilation target that code for both targets may ask.
#pragma once

#include "core/platform.h"

namespace bk {

// Whether f64 arithmetic costs about twice that of f32 only, so that functions of f32 may be computed in f64.
constexpr bool kDoubleIsCheap = !BK_CUDA;

// Whether rare cases take a branch. On the CPU a branch would prevent vectorisation, so all cases are computed and the right
// one is selected.
constexpr bool kRareIsBranch = BK_ON_GPU;

}  // namespace bk
