// Places that a condition keeps, as a thread has them that owns some of all targets: no branch predicts which.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/platform.h"

namespace bk {

// body(k) for those k < count that keeps(k) is true of, in their order.
template <class Keeps, class Body>
BK_HD void for_kept(int64_t count, const Keeps& keeps, const Body& body) {
    constexpr int64_t kRun = 64;
    uint8_t kept[kRun];
    for (int64_t first = 0; first < count; first += kRun) {
        const int64_t run = std::min(kRun, count - first);
        int64_t found = 0;
        for (int64_t k = 0; k < run; ++k) {
            kept[found] = static_cast<uint8_t>(k);
            found += keeps(first + k);
        }
        if (found == run)
            for (int64_t k = 0; k < run; ++k) body(first + k);
        else
            for (int64_t k = 0; k < found; ++k) body(first + kept[k]);
    }
}

}  // namespace bk
