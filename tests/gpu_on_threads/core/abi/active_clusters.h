// SPDX-License-Identifier: Apache-2.0
// Clusters of blocks that fibers run at once.
#pragma once

#include "core/abi/launch.h"

namespace bk {

template <class... P>
int active_clusters(const Grid& grid, void (*)(P...)) {
    return static_cast<int>(device_sms() / grid.cluster);
}

}  // namespace bk
