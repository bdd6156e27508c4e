// Stands in for native/core/rows/block_exchange.cuh: no cluster has more than one block.
#pragma once

#include "core/platform.h"

namespace bk {

constexpr int kMostRowCluster = 8;

template <class Acc>
struct BlockExchange {
    void open() {}
    Acc share(const Acc& mine, int, int) { return mine; }
};

}  // namespace bk
