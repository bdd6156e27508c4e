// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "linalg/team.h"

namespace bk::linalg {

struct MatrixTeam {
    bool has_lapack = false;  // for its products and factors

    static constexpr int rank = 0, size = 1;
    static constexpr int lane = 0, lanes = 1, group = 0, groups = 1;
    BK_HD void sync() const {}
    BK_HD void sync_lanes() const {}
    template <class S>
    BK_HD S sum(S mine) const {
        return mine;
    }
    template <class S>
    BK_HD S sum_of_lanes(S mine) const {
        return mine;
    }
    // The largest value, and of equal ones the first index.
    template <class R>
    BK_HD void find_largest(R&, int64_t&) const {}
};

template <class Job>
Status run_matrices(const Launch&, int64_t items, int64_t, int64_t slot_bytes, void* workspace, int64_t flops, const Job& job) {
    const bool fast = is_fast(slot_bytes);
    const int64_t step = (slot_bytes + 63) / 64 * 64;
    char* const slots = static_cast<char*>(workspace);
    parallel_ranges(items, grain_for(flops / 4), [&](int64_t begin, int64_t end) {
        alignas(64) char slot[kFastBytes];
        for (int64_t item = begin; item < end; ++item) job(MatrixTeam{}, item, fast ? slot : slots + item * step);
    });
    return Status::kOk;
}

}  // namespace bk::linalg
