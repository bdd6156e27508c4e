// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/collectives/team.h"

namespace bk {

struct Team {
    static constexpr int kLanes = 16;  // adjacent elements that a thread had best take: SIMD loops
    void* scratch;
    int rank = 0, size = 1;
    BK_HD void sync() const {}
    // All-reduce over the team: a single thread.
    template <class C>
    BK_HD C sum(C mine) const {
        return mine;
    }
    template <class C>
    BK_HD C largest(C mine) const {
        return mine;
    }
};

template <class Job>
Status run_teams(const Launch&, int64_t items, int64_t bytes, const Job& job, bool, int64_t rounds) {
    parallel_ranges(items, grain_for(bytes * rounds), [&](int64_t begin, int64_t end) {
        alignas(64) char scratch[kTeamScratch];
        for (int64_t item = begin; item < end; ++item) job(Team{scratch}, item);
    });
    return Status::kOk;
}

}  // namespace bk
