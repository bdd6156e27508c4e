// Boxes of a tensor that one thread has copied into shared memory: bulk tensor copies (cp.async.bulk.tensor). sm_90 and newer.
#pragma once

#include <cstdint>

#include "core/async_copy.cuh"
#include "core/matmul/tensor_map.h"
#include "core/platform.h"
#include "core/transaction_barrier.cuh"

namespace bk {

// What this thread wrote to shared memory is there for steps of warp groups and for copies that begin behind a barrier.
BK_DEVICE void publish_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The box of the map whose first element is at [matrix, line, at]; what lies outside the tensor is zeros.
BK_DEVICE void start_box_copy(void* to, const TensorMap& map, int at, int line, int matrix, uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
            shared_address(to)),
        "l"(&map), "r"(at), "r"(line), "r"(matrix), "r"(shared_address(barrier))
        : "memory");
}

// Bytes that lie together, a multiple of 16 on addresses of as many.
BK_DEVICE void start_bulk_copy(void* to, const void* from, int bytes, uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
}

// A box of the map to that place in every block of the cluster whose bit is in `blocks`; each has a barrier there.
BK_DEVICE void start_shared_box_copy(void* to, const TensorMap& map, int at, int line, int matrix, uint64_t* barrier,
                                     int blocks) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(to)),
        "l"(&map), "r"(at), "r"(line), "r"(matrix), "r"(shared_address(barrier)), "h"(static_cast<uint16_t>(blocks))
        : "memory");
}

}  // namespace bk
