// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/row/row_map.h"
#include "indexing/check_indices.h"

namespace bk {

inline void atomic_min(int64_t* minimum, int64_t position) {
    int64_t known = __atomic_load_n(minimum, __ATOMIC_RELAXED);
    while (static_cast<uint64_t>(position) < static_cast<uint64_t>(known))
        if (__atomic_compare_exchange_n(minimum, &known, position, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
}

template <class I>
Status find_faults(const Launch&, const Layout<1>& layout, const IndexRule& rule, const I* indices, int64_t* report) {
    std::fill_n(report, 4, int64_t{-1});
    const int64_t numel = layout.numel();
    if (numel == 0) return Status::kOk;
    const Walk<1, uint64_t> walk(merge_axes(layout));
    const auto at = [&](int64_t i) { return indices[signed_offset(walk(static_cast<uint64_t>(i)).of[0])]; };
    parallel_ranges(numel, grain_for(8 * sizeof(I)), [&](int64_t begin, int64_t end) {
        bool seeks_outside = true, seeks_decrease = rule.is_sorted;
        for (int64_t i = begin; i < end && (seeks_outside || seeks_decrease); ++i) {
            const I index = at(i);
            if (seeks_outside && rule.is_outside(index)) {
                atomic_min(report, i);
                seeks_outside = false;
            }
            if (seeks_decrease && i > 0 && index < at(i - 1)) {
                atomic_min(report + 2, i);
                seeks_decrease = false;
            }
        }
    });
    for (int fault = 0; fault < 4; fault += 2)
        if (report[fault] >= 0) report[fault + 1] = static_cast<int64_t>(at(report[fault]));
    return Status::kOk;
}

}  // namespace bk
