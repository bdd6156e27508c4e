// SPDX-License-Identifier: Apache-2.0
// Forward scan of Mamba-2: a CPU scans, a GPU multiplies chunks (ssm/ssd_forward_cuda.cuh).
#pragma once

#include "ssm/scan.h"
#if BK_CUDA
#include "ssm/ssd_forward_cuda.cuh"
#endif

namespace bk::ssm {

template <class T>
Status ssd_forward(const Launch& launch, const ScanProblem<T>& p, const TokenView<T>& y, const ParameterOut<T>& last_state) {
#if BK_CUDA
    return ssd_forward_by_chunks(launch, p, y, last_state);
#else
    return scan_forward(launch, p, y, last_state);
#endif
}

}  // namespace bk::ssm
