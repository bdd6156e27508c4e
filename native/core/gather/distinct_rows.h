// SPDX-License-Identifier: Apache-2.0
// Runs a job once for each distinct row among indices, without a workspace.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/collectives/team.h"

namespace bk {

// job(team, row) once for each row of [0, rows) among `count` indices; others are skipped. A job touches about `bytes`
// of memory. A GPU looks for earlier duplicates of each index; the CPU marks rows in a bitmap on its stack.
template <class I, class Job>
Status run_distinct_rows(const Launch& launch, const I* indices, int64_t count, int64_t rows, int64_t bytes, const Job& job);

}  // namespace bk

#if BK_CUDA
#include "core/gather/distinct_rows_cuda.cuh"
#else
#include "core/gather/distinct_rows_cpu.h"
#endif
