// SPDX-License-Identifier: Apache-2.0
// Short rows on the CPU: a sorting network over several rows at a time, a row a lane, so that its steps are vector minima
// and maxima. Batcher's merge exchange (Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M), of any length.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/abi/launch.h"
#include "core/platform.h"

namespace bk {

constexpr int kNetworkLanes = 8;
constexpr int64_t kNetworkLength = 192;  // longer rows take a radix sort

// Words no two of which are equal in a lane: the network is not stable.
using NetworkColumns = uint64_t[kNetworkLength][kNetworkLanes];

inline void sort_columns(NetworkColumns& columns, int length) {
    int most = 1;
    while (2 * most < length) most *= 2;
    for (int p = length > 1 ? most : 0; p > 0; p /= 2) {
        int r = 0, distance = p;
        for (int q = most;; q /= 2) {
            for (int i = 0; i < length - distance; ++i) {
                if ((i & p) != r) continue;
                uint64_t* const low = columns[i];
                uint64_t* const high = columns[i + distance];
                uint64_t a[kNetworkLanes], b[kNetworkLanes];
                memcpy(a, low, sizeof(a));
                memcpy(b, high, sizeof(b));
                for (int lane = 0; lane < kNetworkLanes; ++lane) low[lane] = a[lane] < b[lane] ? a[lane] : b[lane];
                for (int lane = 0; lane < kNetworkLanes; ++lane) high[lane] = a[lane] < b[lane] ? b[lane] : a[lane];
            }
            if (q == p) break;
            distance = q - p;
            r = p;
        }
    }
}

// sort_columns in the best variant for this machine.
inline void sort_columns_vectorised(NetworkColumns& columns, int64_t length) {
    dispatch_range([&](int64_t, int64_t end) { sort_columns(columns, static_cast<int>(end)); }, 0, length);
}

}  // namespace bk
