// Attention functors whose GPU kernels depart from the usual vectors and registers (core/pointwise/tuning.h), as measured on
// an H200.
#pragma once

#include "core/pointwise/tuning.h"

namespace bk {

template <class T, class Index>
struct AlibiFunctor;

// Two vectors in place of one (f64, and functors of the position). Of f32 32 registers spill 16 bytes, 40 half as many.
template <class T, class Index>
constexpr Tuning kTuning<AlibiFunctor<T, Index>> = {2, 40};

// Rotations: rows that a thread loads together, while it turns as many, threads of a block, and as many blocks as fill the
// chip twice. Four rows of 16-bit elements take 88 registers, so that half as many threads are resident as of f32.
constexpr int kRotaryUnroll = 2;
constexpr int kRotaryThreads = 256;
constexpr int64_t kRotaryBlocks = 2112;

}  // namespace bk
