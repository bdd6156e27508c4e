// SPDX-License-Identifier: Apache-2.0
// A thread is a team; worker w has the items w, w + workers and so on, and its own slice of the workspace.
#pragma once

#include "linalg/spectral/team.h"

namespace bk::linalg::spectral {

constexpr int64_t kWorkers = 64;

// Rows that a thread takes together: vectors of 64 bytes, of two for real elements.
template <class E>
constexpr int kRowsOfThread = kIsComplex<E> ? 64 / sizeof(E) : 128 / sizeof(E);

struct MatrixTeam {
    BK_HD static constexpr int rank() { return 0; }
    BK_HD static constexpr int size() { return 1; }
    BK_HD static constexpr int lane() { return 0; }
    BK_HD static constexpr int lanes() { return 1; }
    BK_HD static constexpr int warp() { return 0; }
    BK_HD static constexpr int warps() { return 1; }
    BK_HD void sync() const {}
    template <class E>
    BK_HD E lane_sum(E mine) const {
        return mine;
    }
    template <class E, class Op>
    BK_HD E lane_reduce(E mine, const Op&) const {
        return mine;
    }
    template <class E>
    BK_HD E sum(E mine) const {
        return mine;
    }
    template <class R>
    BK_HD R largest(R mine) const {
        return mine;
    }
};

// Bytes of the workspace that `items` teams with `bytes` of scratch each need.
inline size_t team_workspace(int64_t items, int64_t, int64_t bytes) {
    Carver carver;
    carver.take<char>(std::min(items, kWorkers) * ceil_div<int64_t>(bytes, 64) * 64);
    return carver.bytes();
}

// job(team, scratch, item) for each item in [0, items), each with `bytes` of scratch. `extent` is that of the matrices.
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
