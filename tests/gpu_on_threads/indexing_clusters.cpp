// Selections without a workspace, by the blocks of a cluster.
#define BK_FIBER_CLUSTERS
#include "indexing.cpp"
