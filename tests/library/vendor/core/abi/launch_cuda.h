// SPDX-License-Identifier: Apache-2.0
// Stands in for native/core/abi/launch_cuda.h.
#pragma once

#include "core/abi/launch.h"

namespace bk {

inline cudaStream_t stream_of(const Launch& launch) {
    return launch.stream == nullptr ? cudaStreamPerThread : static_cast<cudaStream_t>(launch.stream);
}

inline bool no_pending_error() { return true; }

inline Status from_cuda(cudaError_t error, bool, const char* what) {
    return error == cudaSuccess ? Status::kOk : fail(Status::kInternal, "%s failed", what);
}

int device_arch();

}  // namespace bk
