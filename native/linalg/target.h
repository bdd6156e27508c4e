// SPDX-License-Identifier: Apache-2.0
// Functions that only kernels, or only the loops of the CPU, call.
#pragma once

#include "core/platform.h"

namespace bk::linalg {

#if BK_CUDA
#define BK_LINALG BK_DEVICE
#define BK_LINALG_STEP BK_DEVICE_COLD  // not inlined: a step of an algorithm, with one copy for its callers
constexpr bool kIsOneLoop = true;      // loops over elements in either order share their body: short code, nothing vectorises
#else
#define BK_LINALG BK_HD
#define BK_LINALG_STEP inline __attribute__((noinline))
constexpr bool kIsOneLoop = false;
#endif

}  // namespace bk::linalg
