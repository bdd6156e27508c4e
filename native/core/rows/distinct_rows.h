// Work on the rows that indices name, on each once, without a workspace.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/rows/team.h"

namespace bk {

// job(team, row) for each row of [0, rows) that is among `count` indices; other indices are passed over. It touches
// about `bytes` of memory. A GPU reads for each index those before it, the CPU marks rows in bits on its stack.
template <class I, class Job>
Status run_distinct_rows(const Launch& launch, const I* indices, int64_t count, int64_t rows, int64_t bytes, const Job& job);

}  // namespace bk

#if BK_CUDA
#include "core/rows/distinct_rows_cuda.cuh"
#else
#include "core/rows/distinct_rows_cpu.h"
#endif
