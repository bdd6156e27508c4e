// SPDX-License-Identifier: Apache-2.0
// Moves a state {seed, block} in device memory on, in stream order.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"

namespace bk {

#if BK_CUDA
// Every unit has the kernel; the linker keeps one.
template <class = void>
__global__ void advance_kernel(int64_t blocks, int64_t* state) {
    state[1] = static_cast<int64_t>(static_cast<uint64_t>(state[1]) + static_cast<uint64_t>(blocks));
}

inline Status advance(const Launch& launch, int64_t blocks, int64_t* state) {
    return launch_kernel(launch, Grid{dim3(1), dim3(1)}, advance_kernel<>, blocks, state);
}
#else
inline Status advance(const Launch&, int64_t blocks, int64_t* state) {
    state[1] = static_cast<int64_t>(static_cast<uint64_t>(state[1]) + static_cast<uint64_t>(blocks));
    return Status::kOk;
}
#endif

}  // namespace bk
