// SPDX-License-Identifier: Apache-2.0
// Clusters of blocks that a device runs at once.
#pragma once

#include "core/abi/launch.h"

namespace bk {

// Clusters of this grid's size that the device runs at once; 0 if it runs none.
template <class... P>
int active_clusters(const Grid& grid, void (*kernel)(P...)) {
    cudaLaunchConfig_t config{};
    config.gridDim = grid.blocks;
    config.blockDim = grid.threads;
    config.dynamicSmemBytes = grid.shared;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = grid.cluster;
    attribute.val.clusterDim.y = 1;
    attribute.val.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    const void* const function = reinterpret_cast<const void*>(kernel);
    const bool clean = no_pending_error();
    int clusters = 0;
    cudaError_t error =
        cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(grid.shared));
    if (error == cudaSuccess) error = cudaOccupancyMaxActiveClusters(&clusters, function, &config);
    if (error == cudaSuccess) return clusters;
    if (clean) cudaGetLastError();
    return 0;
}

}  // namespace bk
