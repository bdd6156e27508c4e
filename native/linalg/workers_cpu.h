// SPDX-License-Identifier: Apache-2.0
// Threads that take matrices of a batch, each with a slot of the workspace.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/abi/launch.h"

namespace bk::linalg {

// Slots for a batch. Not more than processors, whose number does not change, so that sizes of workspaces do not either; and
// OpenBLAS has buffers for 128 calls at once.
inline int64_t worker_slots(int64_t batch) {
#if defined(_OPENMP)
    static const int64_t processors = omp_get_num_procs();
#else
    static const int64_t processors = 1;
#endif
    return std::min<int64_t>({batch, processors, 64});
}

inline int64_t worker_count(int64_t batch) { return std::min(worker_slots(batch), thread_count()); }

// The next matrix goes to the worker that is free first.
class MatrixQueue {
public:
    explicit MatrixQueue(int64_t batch) : batch_(batch) {}
    bool take(int64_t* b) { return (*b = next_.fetch_add(1, std::memory_order_relaxed)) < batch_; }

private:
    const int64_t batch_;
    std::atomic<int64_t> next_{0};
};

}  // namespace bk::linalg
