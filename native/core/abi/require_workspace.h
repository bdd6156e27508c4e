// SPDX-License-Identifier: Apache-2.0
// Check of the workspace that an op cannot do without.
#pragma once

#include <cstddef>

#include "core/abi/status.h"
#include "core/abi/workspace.h"

namespace bk {

// Status 4 unless the caller's workspace has the needed bytes.
BK_COLD inline Status require_workspace(const Launch& launch, size_t needed) {
    if (needed == 0 || workspace_holds(launch, needed)) return Status::kOk;
    return fail(Status::kWorkspaceTooSmall, "workspace has %zu bytes, must have %zu",
                launch.workspace == nullptr ? size_t{0} : launch.workspace_bytes, needed);
}

}  // namespace bk
