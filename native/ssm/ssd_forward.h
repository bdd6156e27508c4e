// SPDX-License-Identifier: Apache-2.0
// Forward scan of Mamba-2. A CPU scans; a GPU multiplies chunks (ssm/ssd_forward_cuda.cuh).
#pragma once

#include "ssm/scan.h"

namespace bk::ssm {

template <class T>
Status ssd_forward(const Launch& launch, const ScanProblem<T>& p, const TokenView<T>& y, const ParameterOut<T>& last_state) {
    return scan_forward(launch, p, y, last_state);
}

}  // namespace bk::ssm
