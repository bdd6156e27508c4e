// SPDX-License-Identifier: Apache-2.0
// Selection kernels without a workspace, on the blocks of a cluster.
#define BK_FIBER_CLUSTERS
#include "indexing.cpp"
