// SPDX-License-Identifier: Apache-2.0
// Cooperative groups for CUDA and CPU: a team is a thread block on a GPU, and a single thread on the CPU. For items
// whose inner loops are data-dependent, along lists or through time.
//
// A job is a trivially copyable struct with `void operator()(const Team&, int64_t item) const`. Each thread takes the
// indices rank, rank + size, ... of every loop; writes are visible to the team after sync(), which all threads call
// alike. A team shares kTeamScratch bytes of scratch if has_scratch.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/platform.h"

namespace bk {

constexpr int kTeamScratch = 10240;

// job(team, item) for each item in [0, items), which touches about `bytes` of memory in each of `rounds` rounds.
template <class Job>
Status run_teams(const Launch& launch, int64_t items, int64_t bytes, const Job& job, bool has_scratch = false,
                 int64_t rounds = 1);

}  // namespace bk

#if BK_CUDA
#include "core/collectives/team_cuda.cuh"
#else
#include "core/collectives/team_cpu.h"
#endif
