// SPDX-License-Identifier: Apache-2.0
// Prefetch of cache lines into L2, and the number of SMs as kernels see it (device_sms() of the host is the same).
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk {

constexpr int kCacheLineBytes = 128;

// Fetches the cache line of `address` into L2; nothing is read.
BK_DEVICE void prefetch_cache_line([[maybe_unused]] const void* address) {
#if BK_ON_GPU
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

BK_DEVICE unsigned num_sms() {
#if BK_ON_GPU
    unsigned count;
    asm("mov.u32 %0, %%nsmid;" : "=r"(count));
    return count;
#else
    return 4;
#endif
}

}  // namespace bk
