// Boxes of a tensor that one thread has copied into shared memory, and the barriers that say when they are there: bulk tensor
// copies (cp.async.bulk.tensor) and transaction barriers (mbarrier). sm_90 and newer.
#pragma once

#include <cstdint>

#include "core/async_copy.cuh"
#include "core/matmul/tensor_map.h"
#include "core/platform.h"

namespace bk {

// A barrier counts arrivals, and bytes of copies, of one phase after another; the parity of a phase is 0, 1, 0, ...
BK_DEVICE void init_barrier(uint64_t* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Barriers that this thread initialised are visible to copies.
BK_DEVICE void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

BK_DEVICE void arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// What this thread wrote to shared memory is there for steps of warp groups and for copies that begin behind a barrier.
BK_DEVICE void publish_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// This thread arrives, and the phase waits for so many bytes of copies.
BK_DEVICE void arrive_expecting(uint64_t* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Waits until the phase of this parity is over.
BK_DEVICE void wait_for_phase(uint64_t* barrier, int parity) {
    uint32_t is_over = 0;
    while (is_over == 0)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(is_over)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
}

// The box of the map whose first element is at [matrix, line, at]; what lies outside the tensor is zeros.
BK_DEVICE void start_box_copy(void* to, const TensorMap& map, int at, int line, int matrix, uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
            shared_address(to)),
        "l"(&map), "r"(at), "r"(line), "r"(matrix), "r"(shared_address(barrier))
        : "memory");
}

}  // namespace bk
