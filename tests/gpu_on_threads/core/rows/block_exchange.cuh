// Stands in for native/core/rows/block_exchange.cuh: what a block hears from the others they said in this round or the one
// before.
#pragma once

#include <map>
#include <utility>

#include "core/platform.h"

namespace bk {

constexpr int kMostRowCluster = 8;

template <class Acc>
struct BlockExchange {
    void open() {}
    Acc share(const Acc& mine, int blocks, int turn) {
        static std::map<std::pair<unsigned, int>, Acc> said;
        const unsigned cluster = static_cast<unsigned>(blocks), first = blockIdx.x / cluster * cluster;
        said[{blockIdx.x, turn}] = mine;
        return said[{first + threadIdx.x % cluster, turn}];
    }
};

}  // namespace bk
