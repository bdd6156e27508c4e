// SPDX-License-Identifier: Apache-2.0
// Merge exchange: Batcher's odd-even merge sort (Knuth, The Art of Computer Programming 3, algorithm 5.2.2M), a network for
// any number of items. Every comparison puts the smaller item first, so that no padding is needed.
#pragma once

#include <cstdint>

#include "core/platform.h"

namespace bk {

// Sorts items 0 .. count - 1 by all threads of a block. order(a, b) compares items a < b and exchanges them if need be; items
// are visible to the block.
template <class Count, class Order>
BK_DEVICE void merge_exchange(Count count, const Order& order) {
    int top = 0;
    while (Count{2} << top < count) ++top;
    for (int bit = count > 1 ? top : -1; bit >= 0; --bit) {
        const Count p = Count{1} << bit;
        Count remainder = 0, distance = p;
        for (Count q = Count{1} << top;; q /= 2) {
            for (Count j = static_cast<Count>(threadIdx.x);; j += static_cast<Count>(blockDim.x)) {
                const Count a = ((j >> bit) << (bit + 1)) + (j & (p - 1)) + remainder;
                if (a + distance >= count) break;
                order(a, a + distance);
            }
            __syncthreads();
            if (q == p) break;
            distance = q - p;
            remainder = p;
        }
    }
}

}  // namespace bk
