// SPDX-License-Identifier: Apache-2.0
// Skeleton of random arrays: y[i] = f(words of number offset + i).
//
// A distribution is a struct with
//   static constexpr int kWords               1 or 2 words of a number;
//   auto operator()(const uint32_t* word, const MoreWords&) const   the element, which the skeleton narrows to T;
// `unchecked(word)` and `rejects(word)` if it may reject a number and take more words;
// and `each_case` where a parameter chooses between formulas (core/pointwise/cases.h). The GPU computes the elements of a
// 16-byte store from whole Philox blocks; the CPU fills a buffer with blocks and draws from it, both in vector loops. An
// offset that is no multiple of a block's numbers costs the GPU a block for each element.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/random/source.h"
#include "core/types/vec.h"

namespace bk {

template <class Dist, class = void>
constexpr bool kRejects = false;
template <class Dist>
constexpr bool kRejects<Dist, std::void_t<decltype(std::declval<const Dist&>().rejects(nullptr))>> = true;

}  // namespace bk

#if BK_CUDA
#include "core/random/draw_cuda.cuh"
#else
#include "core/random/draw_cpu.h"
#endif
