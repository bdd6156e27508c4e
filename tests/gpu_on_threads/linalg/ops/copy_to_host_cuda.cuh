// SPDX-License-Identifier: Apache-2.0
// Replaces native/linalg/ops/copy_to_host_cuda.cuh: a task of the stream copies, which the host waits for unless the stream
// is captured.
#pragma once

#include <cstring>

#include "core/abi/launch_cuda.h"

namespace bk::linalg::spectral {

inline Status copy_to_host(const Launch& launch, double* to, const double* from, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(double);
    const uintptr_t handle = launch.stream == nullptr ? device::kPerThread : reinterpret_cast<uintptr_t>(launch.stream);
    BK_TRY(submitted(device::submit(launch.stream, [=] { memcpy(to, from, bytes); }), "cudaMemcpyAsync"));
    if (const auto stream = device::find(handle); stream != nullptr && stream->capture == nullptr) device::finish(*stream);
    return Status::kOk;
}

}  // namespace bk::linalg::spectral
