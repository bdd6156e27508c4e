// SPDX-License-Identifier: Apache-2.0
// Lines of memory that are fetched into the L2 cache ahead of the loads that want them.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk {

constexpr int kLineBytes = 128;

// The line that holds what `address` points to, which is not read.
BK_DEVICE void prefetch_line([[maybe_unused]] const void* address) {
#if BK_ON_GPU
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

// Multiprocessors of the chip.
BK_DEVICE unsigned multiprocessors() {
#if BK_ON_GPU
    unsigned count;
    asm("mov.u32 %0, %%nsmid;" : "=r"(count));
    return count;
#else
    return 4;
#endif
}

}  // namespace bk
