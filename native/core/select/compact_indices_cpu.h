// SPDX-License-Identifier: Apache-2.0
// Branch-free stream compaction of indices, for threads that own an unpredictable subset of all targets.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/platform.h"

namespace bk {

// body(k) for each k < count with predicate(k), in order.
template <class Predicate, class Body>
BK_HD void for_selected(int64_t count, const Predicate& predicate, const Body& body) {
    constexpr int64_t kBlock = 64;
    uint8_t selected[kBlock];
    for (int64_t first = 0; first < count; first += kBlock) {
        const int64_t size = std::min(kBlock, count - first);
        int64_t found = 0;
        for (int64_t k = 0; k < size; ++k) {
            selected[found] = static_cast<uint8_t>(k);
            found += predicate(first + k);
        }
        if (found == size)
            for (int64_t k = 0; k < size; ++k) body(first + k);
        else
            for (int64_t k = 0; k < found; ++k) body(first + selected[k]);
    }
}

}  // namespace bk
