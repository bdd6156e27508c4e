// SPDX-License-Identifier: Apache-2.0
// TMA loads (cp.async.bulk, cp.async.bulk.tensor) from global to shared memory, issued by one thread and signalled
// through an mbarrier, and bulk stores in groups of the thread that issues them. sm_90 and newer.
#pragma once

#include <cstdint>

#include "core/intrinsics/async_copy.cuh"
#include "core/intrinsics/tensor_map.h"
#include "core/intrinsics/transaction_barrier.cuh"
#include "core/platform.h"

namespace bk {

// Makes this thread's writes to shared memory visible to the async proxy (wgmma, TMA) behind the next barrier.
BK_DEVICE void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Loads the box of the tensor map at (inner, outer, matrix); elements outside the tensor are zero-filled.
BK_DEVICE void tma_load(void* to, const TensorMap& map, int inner, int outer, int matrix, uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
            shared_address(to)),
        "l"(&map), "r"(inner), "r"(outer), "r"(matrix), "r"(shared_address(barrier))
        : "memory");
}

// Loads a box of a map of four axes.
BK_DEVICE void tma_load(void* to, const TensorMap& map, int inner, int outer, int head, int batch, uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(
            shared_address(to)),
        "l"(&map), "r"(inner), "r"(outer), "r"(head), "r"(batch), "r"(shared_address(barrier))
        : "memory");
}

// Loads contiguous bytes without a tensor map; size and addresses are multiples of 16.
BK_DEVICE void bulk_load(void* to, const void* from, int bytes, uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
}

// Stores contiguous bytes of shared memory; size and addresses are multiples of 16.
BK_DEVICE void bulk_store(void* to, const void* from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)), "r"(bytes)
                 : "memory");
}

// Bulk copy that adds to the f32 values in global memory.
BK_DEVICE void bulk_add(float* to, const void* from, int bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
                 "r"(shared_address(from)), "r"(bytes)
                 : "memory");
}

BK_DEVICE void end_store_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Wait until at most the last kPending groups have not read their shared memory, or have not written global memory.
template <int kPending>
BK_DEVICE void wait_for_store_reads() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
template <int kPending>
BK_DEVICE void wait_for_stores() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

// Multicasts the box to the same shared-memory offset in each block of the cluster whose bit is set in `blocks`, and
// completes the mbarrier at that offset there.
BK_DEVICE void tma_load_multicast(void* to, const TensorMap& map, int inner, int outer, int matrix, uint64_t* barrier,
                                  int blocks) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(to)),
        "l"(&map), "r"(inner), "r"(outer), "r"(matrix), "r"(shared_address(barrier)), "h"(static_cast<uint16_t>(blocks))
        : "memory");
}

}  // namespace bk
