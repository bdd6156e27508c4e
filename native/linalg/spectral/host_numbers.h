// SPDX-License-Identifier: Apache-2.0
// Results that the reference's functions give in host memory, and identity matrices.
#pragma once

#include <cstring>

#include "core/collectives/items.h"
#include "linalg/spectral/view.h"

namespace bk::linalg::spectral {

// Enqueues a copy of numbers to host memory. With pageable memory CUDA returns when the copy is done.
inline Status copy_to_host([[maybe_unused]] const Launch& launch, double* to, const double* from, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(double);
#if BK_CUDA
    const bool clean = no_pending_error();
    return from_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(launch)), clean, "cudaMemcpyAsync");
#else
    memcpy(to, from, bytes);
    return Status::kOk;
#endif
}

// Square matrices that are an identity or 0.
template <class E>
struct ConstantJob {
    View<E> to;
    int64_t n;
    bool is_identity;

    BK_HD void operator()(int64_t item) const {
        const int64_t matrix = item / (n * n), in_matrix = item % (n * n), i = in_matrix / n, j = in_matrix % n;
        to.matrix(matrix)[i * to.by.row + j * to.by.column] = element_of<E>(is_identity && i == j ? 1 : 0);
    }
};

}  // namespace bk::linalg::spectral
