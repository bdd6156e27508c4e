// SPDX-License-Identifier: Apache-2.0
// Runs a job; only translation units that instantiate it include this.
#pragma once

#include "linalg/lapack/lapack.h"
#include "linalg/spectral/team.h"

namespace bk::linalg::spectral {

template <class Job>
Status run_matrix_teams(const Launch& launch, int64_t items, int64_t extent, const TeamBytes& bytes, const Job& job) {
    BK_TRY(require_workspace(launch, team_workspace(items, extent, bytes)));
    const bool uses_lapack = bytes.lapack > 0 && lapack<typename Job::Element>() != nullptr;
    const bool is_shared = uses_lapack && !is_serial(items, extent);  // OpenBLAS's threads share a matrix
    const int64_t workers = is_shared ? std::min<int64_t>(items, 1) : worker_count(items);
    const int64_t own = ceil_div<int64_t>(bytes.own, 64) * 64, slice = own + (uses_lapack ? bytes.lapack : 0);
    Carver carver(launch.workspace);
    char* const scratch = carver.take<char>(workers * slice);
    const LapackThreads threads(!uses_lapack ? 0 : is_shared ? thread_count() : 1);
    MatrixQueue queue(items);
    parallel_ranges(workers, 1, [&](int64_t worker, int64_t) {
        char* const memory = scratch + worker * slice;
        for (int64_t item; queue.take(&item);) job(MatrixTeam{uses_lapack ? memory + own : nullptr}, memory, item);
    });
    return Status::kOk;
}

}  // namespace bk::linalg::spectral
