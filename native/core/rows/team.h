// Teams: threads that do one piece of work together, each its share of every loop. On a GPU a block is one, on the CPU a thread
// is a team by itself. For work whose loops depend on data, as they do along lists and through time.
//
// A job is a trivially copyable struct with `void operator()(const Team&, int64_t item) const`. In it every thread does the
// indices rank, rank + size, ... of a loop; what one writes, others read behind sync(). Each thread passes the same sync()s. A
// team has kTeamScratch bytes of memory that its threads share, if the job asks for them.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/platform.h"

namespace bk {

constexpr int kTeamScratch = 10240;

// job(team, item) for each item of [0, items), which touches about `bytes` of memory, in each of `rounds` one after another.
template <class Job>
Status run_teams(const Launch& launch, int64_t items, int64_t bytes, const Job& job, bool has_scratch = false,
                 int64_t rounds = 1);

}  // namespace bk

#if BK_CUDA
#include "core/rows/team_cuda.cuh"
#else
#include "core/rows/team_cpu.h"
#endif
