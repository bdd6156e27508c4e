// SPDX-License-Identifier: Apache-2.0
// Replaces native/core/collectives/cluster_peers.cuh. Blocks run one after another, and a grid with clusters several times:
// what a block reads of another one is a copy of its memory at the same barrier, in this run or the one before. A run more
// than a block has barriers makes all of them right.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "core/platform.h"

namespace bk {

namespace cluster_copies {
inline std::map<std::pair<unsigned, int>, std::vector<char>> taken;  // by block and barrier
inline char* memory;
inline size_t bytes;
inline int barrier;
}  // namespace cluster_copies

inline void open_cluster(void* memory, size_t bytes) {
    __syncthreads();
    if (threadIdx.x == 0) {
        cluster_copies::memory = static_cast<char*>(memory);
        cluster_copies::bytes = bytes;
        cluster_copies::barrier = 0;
    }
    __syncthreads();
}

inline int rank_of_block() { return static_cast<int>(blockIdx.x % fibers::cluster); }

inline void sync_blocks() {
    using namespace cluster_copies;
    __syncthreads();
    if (threadIdx.x == 0) taken[{blockIdx.x, ++barrier}].assign(memory, memory + bytes);
    __syncthreads();
}

template <class V>
V* cluster_peer(V* mine, int rank) {
    using namespace cluster_copies;
    const unsigned first = blockIdx.x / fibers::cluster * fibers::cluster;
    std::vector<char>& copy = taken[{first + static_cast<unsigned>(rank), barrier}];
    copy.resize(bytes);
    return reinterpret_cast<V*>(copy.data() + (reinterpret_cast<const char*>(mine) - memory));
}

}  // namespace bk
