// SPDX-License-Identifier: Apache-2.0
// Check of an axis argument.
#pragma once

#include "core/abi/status.h"
#include "core/platform.h"

namespace bk {

BK_COLD inline Status require_axis(const char* name, int32_t axis, int32_t rank) {
    if (axis < 0 || axis >= rank)
        return fail(Status::kInvalidProblem, "%s is %d, must be in [0, rank), and rank is %d", name, axis, rank);
    return Status::kOk;
}

}  // namespace bk
