// SPDX-License-Identifier: Apache-2.0
// Small writes to device memory that are asynchronous and may be captured: host words through kernel parameters, and the
// counter of steps.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/status.h"

namespace bk::optim {

// Defined in upload_cuda.cuh and upload_cpu.h.
Status copy_words(const Launch& launch, const void* from, void* to, int64_t words);
Status advance_step(const Launch& launch, int64_t* step, const float* found_inf);

// The host's bytes are read before it returns.
inline Status upload(const void* from, void* to, size_t bytes, void* stream) {
    if (bytes == 0) return Status::kOk;
    if (from == nullptr || to == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", from == nullptr ? "from" : "to");
    if (bytes % 4 != 0) return fail(Status::kInvalidProblem, "bytes is %zu, must be a multiple of 4", bytes);
    if (reinterpret_cast<uintptr_t>(to) % 4 != 0) return fail(Status::kMisaligned, "to is %p, must be aligned to 4", to);
    return copy_words({nullptr, 0, stream}, from, to, static_cast<int64_t>(bytes / 4));
}

// *step += 1, unless *found_inf is not 0.
inline Status advance(void* step, const void* found_inf, void* stream) {
    if (step == nullptr) return fail(Status::kInvalidProblem, "step is NULL");
    return advance_step({nullptr, 0, stream}, static_cast<int64_t*>(step), static_cast<const float*>(found_inf));
}

}  // namespace bk::optim
