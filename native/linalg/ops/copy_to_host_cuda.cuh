// SPDX-License-Identifier: Apache-2.0
// Enqueues a copy of numbers to host memory. With pageable memory CUDA returns when the copy is done.
#pragma once

#include "core/abi/launch.h"

namespace bk::linalg::spectral {

inline Status copy_to_host(const Launch& launch, double* to, const double* from, int64_t count) {
    const bool clean = no_pending_error();
    const size_t bytes = static_cast<size_t>(count) * sizeof(double);
    return from_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(launch)), clean, "cudaMemcpyAsync");
}

}  // namespace bk::linalg::spectral
