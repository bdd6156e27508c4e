// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/collectives/team.h"
#include "core/compiler_cpu.h"

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
    // (keys[j], ~j) of the largest of `count` keys, of equal ones the first: two loops that vectorise.
    BK_HD uint64_t first_largest(const uint32_t* keys, int64_t count) const {
        uint32_t best = 0, where = 0xffffffffu;
        BK_VECTOR_LOOP
        for (int64_t j = 0; j < count; ++j) best = keys[j] > best ? keys[j] : best;
        BK_VECTOR_LOOP
        for (int64_t j = 0; j < count; ++j) {
            const uint32_t at = keys[j] == best ? static_cast<uint32_t>(j) : 0xffffffffu;
            where = at < where ? at : where;
        }
        return static_cast<uint64_t>(best) << 32 | (0xffffffffu - where);
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
