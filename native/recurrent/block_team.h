// SPDX-License-Identifier: Apache-2.0
// Teams with scratch of any size: thread blocks with dynamic shared memory on a GPU; on the CPU threads that each have a
// slice of the workspace, since a stack frame is too small.
//
// A job is as in core/collectives/team.h. Warps share rows, and lanes share the elements of a row, on the CPU one of each.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/collectives/team.h"

namespace bk::recurrent {

// Items of a run that have scratch at the same time on the CPU. More threads than this get nothing to do.
constexpr int64_t kWorkers = 64;

// Functions of a team, and steps of a pass that many sites call, of which one copy is enough.
#if BK_CUDA
#define BK_TEAM BK_DEVICE
#define BK_STEP BK_DEVICE_COLD
#else
#define BK_TEAM BK_HD
#define BK_STEP BK_COLD inline
#endif

// body(), on the CPU in the best variant for this machine. Passes are compiled once; only such bodies are for each
// instruction set.
template <class Body>
BK_TEAM void with_vectors(const Body& body);

struct Lanes {
    int lane, lanes, warp, warps;

    BK_TEAM static Lanes of([[maybe_unused]] const Team& team) {
#if BK_CUDA
        return {team.rank % 32, 32, team.rank / 32, team.size / 32};
#else
        return {0, 1, 0, 1};
#endif
    }
};

// Floats of the workspace that the scratch of the CPU's workers needs; 0 on a GPU.
inline int64_t scratch_floats(int64_t items, int64_t floats_per_team) {
    return BK_CUDA ? 0 : std::min(items, kWorkers) * floats_per_team;
}

// job(team, item) for each item in [0, items), each with `floats` floats of scratch, aligned to 64 bytes. `workers` has
// scratch_floats() of them.
template <class Job>
Status run_with_scratch(const Launch& launch, int64_t items, int64_t floats, float* workers, const Job& job);

}  // namespace bk::recurrent

#if BK_CUDA
#include "recurrent/block_team_cuda.cuh"
#else
#include "recurrent/block_team_cpu.h"
#endif
