// SPDX-License-Identifier: Apache-2.0
// Launch arguments of an op, and the one way to start work on each target.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/status.h"
#include "core/platform.h"

namespace bk {

struct Launch {
    void* workspace;
    size_t workspace_bytes;
    void* stream;
};

template <class Int>
constexpr Int ceil_div(Int a, Int b) {
    return a / b + (a % b > 0 ? 1 : 0);  // a + b may overflow
}

}  // namespace bk

#if BK_CUDA
#include "core/abi/launch_cuda.h"
#else
#include "core/abi/launch_cpu.h"
#endif
