// SPDX-License-Identifier: Apache-2.0
// Counting sort in two passes: counts, then places.
#pragma once

#include "moe/sort.h"

namespace bk::moe {

inline size_t sort_workspace(int64_t, int64_t) { return 0; }

template <class Id>
Status sort_pairs_by_expert(const Launch&, const PairSort<Id>& s) {
    std::fill_n(s.counts, s.experts, 0);
    for (int64_t i = 0; i < s.pairs; ++i)
        if (const int32_t e = s.expert(i); e >= 0) ++s.counts[e];
    s.offsets[0] = 0;
    for (int64_t e = 0; e < s.experts; ++e) {
        s.offsets[e + 1] = s.offsets[e] + s.kept(s.counts[e]);
        s.counts[e] = 0;
    }
    for (int64_t i = 0; i < s.pairs; ++i) {
        const int32_t e = s.expert(i);
        s.place(i, e, e < 0 ? 0 : s.counts[e]);
        if (e >= 0) ++s.counts[e];
    }
    for (int64_t e = 0; e < s.experts; ++e) s.counts[e] = s.kept(s.counts[e]);
    for (int64_t p = s.offsets[s.experts]; p < s.pairs; ++p) s.order[p] = s.expert_of[p] = -1;
    return Status::kOk;
}

}  // namespace bk::moe
