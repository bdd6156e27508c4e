// SPDX-License-Identifier: Apache-2.0
// Independent items: job(item) for each in [0, count), a thread each on a GPU.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/platform.h"

namespace bk::pool {

// An item touches about `bytes` of memory.
template <class Job>
Status run_items(const Launch& launch, int64_t count, int64_t bytes, const Job& job);

}  // namespace bk::pool

#if BK_CUDA
#include "pool/items_cuda.cuh"
#else
#include "pool/items_cpu.h"
#endif
