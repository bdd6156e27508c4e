// SPDX-License-Identifier: Apache-2.0
// Copies numbers to host memory.
#pragma once

#include <cstring>

#include "core/abi/launch.h"

namespace bk::linalg::spectral {

inline Status copy_to_host(const Launch&, double* to, const double* from, int64_t count) {
    memcpy(to, from, static_cast<size_t>(count) * sizeof(double));
    return Status::kOk;
}

}  // namespace bk::linalg::spectral
