// SPDX-License-Identifier: Apache-2.0
// Loss sums without a workspace, on the blocks of a cluster.
#define BK_FIBER_CLUSTERS
#include "row_values.cpp"
