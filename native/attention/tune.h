// SPDX-License-Identifier: Apache-2.0
// Per-functor overrides of vectors and registers (core/pointwise/tuning.h) and rotation constants, measured on an H200.
#pragma once

#include "core/pointwise/tuning.h"

namespace bk {

template <class T, class Index>
struct AlibiFunctor;

// Two vectors in place of the positional functors' one. With 32 registers f32 spills 16 bytes, with 40 half of that.
template <class T, class Index>
constexpr Tuning kTuning<AlibiFunctor<T, Index>> = {2, 40};

// Rotation: rows that a thread loads together while it rotates as many; threads of a block; blocks that fill a 132-SM
// chip twice. Four rows of 16-bit elements would take 88 registers and halve the occupancy of f32's.
constexpr int kRotaryUnroll = 2;
constexpr int kRotaryThreads = 256;
constexpr int64_t kRotaryBlocks = 2112;

}  // namespace bk
