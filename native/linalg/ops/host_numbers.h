// SPDX-License-Identifier: Apache-2.0
// Results that the reference's functions give in host memory, and identity matrices.
#pragma once

#include "core/collectives/items.h"
#include "linalg/spectral/view.h"

#if BK_CUDA
#include "linalg/ops/copy_to_host_cuda.cuh"
#else
#include "linalg/ops/copy_to_host_cpu.h"
#endif

namespace bk::linalg::spectral {

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
