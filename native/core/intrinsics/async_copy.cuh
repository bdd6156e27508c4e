// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies from global to shared memory: cp.async (sm_80), in groups.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk {

BK_DEVICE uint32_t shared_address(const void* pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

// The L2 cache policy of a read: evict first, or evict last.
template <bool kReused>
BK_DEVICE uint64_t cache_policy() {
    uint64_t policy;
    if (kReused)
        asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    else
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// Copies 8 or 16 bytes; both sides are aligned to that size.
template <int kBytes>
BK_DEVICE void start_copy(void* to, const void* from, uint64_t policy) {
    static_assert(kBytes == 8 || kBytes == 16, "what cp.async takes with a policy");
    if constexpr (kBytes == 16)
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                     "l"(policy)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global.L2::cache_hint [%0], [%1], 8, %2;" ::"r"(shared_address(to)), "l"(from),
                     "l"(policy)
                     : "memory");
}

// Copies the first `bytes` of 16 and writes zeros for the rest; both sides are aligned to 16.
BK_DEVICE void start_copy_16(void* to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}

// Copies 4 bytes, or writes zeros.
BK_DEVICE void start_copy_4(void* to, const void* from, bool is_there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(is_there ? 4 : 0)
                 : "memory");
}

BK_DEVICE void end_copy_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most the last kPending of this thread's groups are in flight.
template <int kPending>
BK_DEVICE void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace bk
