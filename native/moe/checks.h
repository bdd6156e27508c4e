// SPDX-License-Identifier: Apache-2.0
// Checks that ops of mixtures of experts share.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/workspace.h"

namespace bk::moe {

BK_COLD inline Status require_in(const char* name, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %lld, must be in [%lld, %lld]", name, static_cast<long long>(value),
                static_cast<long long>(least), static_cast<long long>(most));
}

BK_COLD inline Status require_positive(std::initializer_list<NamedExtent> extents) {
    for (const NamedExtent& e : extents)
        if (e.value <= 0)
            return fail(Status::kInvalidProblem, "%s is %lld, must be > 0", e.name, static_cast<long long>(e.value));
    return Status::kOk;
}

// Number of (token, slot) pairs, which indices of 32 bits count. Operands beyond kMaxOperandBytes are refused as such.
BK_COLD inline Status require_pairs(int64_t tokens, int64_t top_k) {
    const int64_t pairs = tokens * top_k;
    if (pairs <= INT32_MAX || pairs > kMaxOperandBytes / static_cast<int64_t>(sizeof(int32_t))) return Status::kOk;
    return fail(Status::kUnsupported, "tokens * top_k is %lld, at most %d pairs are supported", static_cast<long long>(pairs),
                INT32_MAX);
}

BK_COLD inline Status require_workspace(const Launch& launch, size_t needed) {
    if (needed == 0 || workspace_holds(launch, needed)) return Status::kOk;
    return fail(Status::kWorkspaceTooSmall, "workspace has %zu bytes, must have %zu",
                launch.workspace == nullptr ? size_t{0} : launch.workspace_bytes, needed);
}

}  // namespace bk::moe
