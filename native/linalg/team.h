// SPDX-License-Identifier: Apache-2.0
// Teams that each work on a matrix: on a GPU from one thread to a block, by the extent of the matrices; on the CPU a thread.
// The size depends on the extents alone, so that the bits of a result do not depend on the batch.
//
// A job is a trivially copyable struct with `void operator()(const MatrixTeam&, int64_t item, char* slot) const`. A slot is
// scratch of a team: fast memory (shared memory; the stack), or a part of the workspace.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/platform.h"
#include "linalg/matrix.h"
#include "linalg/sizes.h"
#include "linalg/target.h"

namespace bk::linalg {

#if BK_CUDA
constexpr int64_t kFastBytes = 98 << 10;  // of a team, six matrices of 64 x 64 f32; blocks of sm_86 have 99 KiB
#else
constexpr int64_t kFastBytes = 20 << 10;
#endif

constexpr int64_t slot_bytes_of(int64_t elements, int64_t size, int64_t others = 0) {
    // An odd number of elements: slots of neighbouring threads then begin in different banks of shared memory.
    return times(elements | 1, size) + (others + size - 1) / size * size;
}
constexpr bool is_fast(int64_t slot_bytes) { return slot_bytes <= kFastBytes; }

// Bytes of the workspace for slots that do not fit into fast memory.
inline int64_t slots_in_workspace(int64_t items, int64_t slot_bytes) {
    return is_fast(slot_bytes) ? 0 : times(items, (slot_bytes + 63) / 64 * 64);
}

// job(team, item, slot) for each item in [0, items). `extent` is that of the matrices, which chooses the team. `workspace`
// has slots_in_workspace() bytes; NULL where that is 0. `flops` are those of an item.
template <class Job>
Status run_matrices(const Launch& launch, int64_t items, int64_t extent, int64_t slot_bytes, void* workspace, int64_t flops,
                    const Job& job);

}  // namespace bk::linalg

#if BK_CUDA
#include "linalg/team_cuda.cuh"
#else
#include "linalg/team_cpu.h"
#endif
