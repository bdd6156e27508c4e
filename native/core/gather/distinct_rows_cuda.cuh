// SPDX-License-Identifier: Apache-2.0
// A block an index, which reads its predecessors: quadratic in the number of indices.
#pragma once

#include <cstdint>

#include "core/gather/distinct_rows.h"

namespace bk {

template <class I, class Job>
struct FirstOccurrence {
    const I* indices;
    int64_t rows;
    Job job;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t row = static_cast<int64_t>(indices[item]);
        if (row >= 0 && row < rows && !is_repeated(team, item)) job(team, row);
    }

private:
    BK_HD bool is_repeated(const Team& team, int64_t item) const {
        constexpr int64_t kStep = 4096;
        for (int64_t first = 0; first < item; first += kStep) {
            const int64_t end = first + kStep < item ? first + kStep : item;
            int32_t found = 0;
            for (int64_t k = first + team.rank; k < end; k += team.size) found |= indices[k] == indices[item];
            if (team.sum(found) > 0) return true;
        }
        return false;
    }
};

template <class I, class Job>
Status run_distinct_rows(const Launch& launch, const I* indices, int64_t count, int64_t rows, int64_t bytes, const Job& job) {
    return run_teams(launch, count, bytes, FirstOccurrence<I, Job>{indices, rows, job});
}

}  // namespace bk
