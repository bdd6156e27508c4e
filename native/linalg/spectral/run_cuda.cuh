// SPDX-License-Identifier: Apache-2.0
// The kernel of a job; only translation units that instantiate it include this. [first, items) are those of a launch.
#pragma once

#include "linalg/spectral/team.h"

namespace bk::linalg::spectral {

template <class Job>
__global__ void __launch_bounds__(kMostTeamThreads, 1)
    matrix_team_kernel(const __grid_constant__ Job job, int64_t first, int64_t items, int64_t slice, int is_thread,
                       char* scratch) {
    BK_LAUNCH_SHARED(uint4, team_words);
    char* const shared = reinterpret_cast<char*>(team_words);
    const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
    if (is_thread) {
        for (int64_t item = first + int64_t{blockIdx.x} * threads + thread; item < items; item += int64_t{gridDim.x} * threads)
            job(MatrixTeam{0, 1}, shared + thread * slice, item);
        return;
    }
    char* const own = scratch == nullptr ? shared : scratch + blockIdx.x * slice;
    for (int64_t item = first + blockIdx.x; item < items; item += gridDim.x) {
        job(MatrixTeam{thread, threads}, own, item);
        __syncthreads();
    }
}

template <class Job>
Status run_matrix_teams(const Launch& launch, int64_t items, int64_t extent, const TeamBytes& bytes, const Job& job) {
    if constexpr (Job::kDecomposes)
        if (bytes.together > 0) return run_together(launch, items, extent, bytes, job);
    const TeamShape shape = TeamShape::of(items, extent, bytes.own);
    BK_TRY(require_workspace(launch, team_workspace(items, extent, bytes)));
    Carver carver(launch.workspace);
    char* const scratch = shape.is_shared ? nullptr : carver.take<char>(shape.blocks * shape.slice);
    const int64_t shared = shape.is_thread ? shape.slice * shape.threads : shape.is_shared ? shape.slice : 0;
    const Grid grid{dim3(static_cast<unsigned>(shape.blocks)), dim3(static_cast<unsigned>(shape.threads)), 1,
                    static_cast<unsigned>(shared)};
    return launch_kernel(launch, grid, matrix_team_kernel<Job>, job, int64_t{0}, items, shape.slice, shape.is_thread ? 1 : 0,
                         scratch);
}

}  // namespace bk::linalg::spectral
