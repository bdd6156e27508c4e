// SPDX-License-Identifier: Apache-2.0
// Runs a job; only translation units that instantiate it include this.
#pragma once

#include "linalg/spectral/team.h"

namespace bk::linalg::spectral {

template <class Job>
Status run_matrix_teams(const Launch& launch, int64_t items, int64_t, int64_t bytes, const Job& job) {
    const size_t needed = team_workspace(items, 0, bytes);
    BK_TRY(require_workspace(launch, needed));
    Carver carver(launch.workspace);
    const int64_t workers = std::min(items, kWorkers), slice = ceil_div<int64_t>(bytes, 64) * 64;
    char* const scratch = carver.take<char>(workers * slice);
    parallel_ranges(workers, 1, [&](int64_t begin, int64_t end) {
        for (int64_t worker = begin; worker < end; ++worker)
            for (int64_t item = worker; item < items; item += workers) job(MatrixTeam{}, scratch + worker * slice, item);
    });
    return Status::kOk;
}

}  // namespace bk::linalg::spectral
