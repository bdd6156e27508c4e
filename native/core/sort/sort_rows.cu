// SPDX-License-Identifier: Apache-2.0
#include "core/sort/sort_rows.h"

#include "core/abi/launch.h"
#include "core/sort/radix_sweep.cuh"
#include "core/sort/sort_block.cuh"
#include "core/sort/sort_operands.cuh"
#include "core/sort/sort_warp.cuh"

namespace bk {

namespace {

// Calls f with a value of the unsigned integer of the width.
template <class F>
auto with_key_width(int bytes, const F& f) {
    switch (bytes) {
        case 1: return f(uint8_t{});
        case 2: return f(uint16_t{});
        case 4: return f(uint32_t{});
        default: return f(uint64_t{});
    }
}

// Bytes of an index between passes.
int64_t carried_bytes(const SortProblem& problem, bool has_payload) {
    if (has_payload) return problem.index_bytes;
    return problem.length > int64_t{UINT32_MAX} ? 8 : 4;
}

template <class Bits>
bool needs_sweeps(const SortProblem& problem) {
    return problem.length > block_sort_length<Bits>(device_arch());
}

template <class Bits>
size_t sweep_workspace(const SortProblem& problem) {
    Carver carver;
    SweepShape<Bits>(problem).carve(&carver, carried_bytes(problem, true) > carried_bytes(problem, false) ? 8 : 4);
    return carver.bytes();
}

template <class Bits>
Status sort_rows_by_sweeps(const Launch& launch, const SortOperands& operands, const SortProblem& problem) {
    const size_t needed = sweep_workspace<Bits>(problem);
    if (!workspace_holds(launch, needed))
        return fail(Status::kWorkspaceTooSmall, "workspace has %zu bytes, rows of %lld elements need %zu",
                    launch.workspace == nullptr ? size_t{0} : launch.workspace_bytes, static_cast<long long>(problem.length),
                    needed);
    const int64_t index_bytes = carried_bytes(problem, operands.pointer.payload != nullptr);
    Carver carver(launch.workspace);
    const SweepBuffers buffers = SweepShape<Bits>(problem).carve(&carver, index_bytes);
    BK_TRY(fill_bytes(launch, buffers.counts, 0, buffers.cleared));
    if (operands.pointer.indices == nullptr) return run_sweeps<NoIndex, Bits>(launch, operands, problem, buffers);
    return index_bytes == 4 ? run_sweeps<uint32_t, Bits>(launch, operands, problem, buffers)
                            : run_sweeps<uint64_t, Bits>(launch, operands, problem, buffers);
}

Status sort_on_chip(const Launch& launch, const SortOperands& operands, const SortProblem& problem) {
    return with_key_width(problem.key_bytes, [&](auto key) {
        using Bits = decltype(key);
        if (problem.length <= kWarpSortLength<Bits>) return sort_rows_by_warp(launch, operands, problem.order<Bits>());
        return sort_rows_by_block(launch, operands, problem.order<Bits>());
    });
}

SortProblem with_collapsed_rows(SortProblem problem) {
    problem.rows = collapse(problem.rows);
    return problem;
}

}  // namespace

int64_t warp_sort_length(int key_bytes) {
    return with_key_width(key_bytes, [](auto key) { return int64_t{kWarpSortLength<decltype(key)>}; });
}

Status sort_first(const Launch& launch, const SortProblem& given, const SortPointers& pointers, int64_t results,
                  bool is_sorted) {
    const SortProblem problem = with_collapsed_rows(given);
    SortOperands operands = sort_operands(problem, pointers);
    operands.results = results;
    operands.is_sorted = is_sorted;
    return sort_on_chip(launch, operands, problem);
}

size_t sort_rows_workspace(const SortProblem& problem) {
    return with_key_width(problem.key_bytes, [&](auto key) {
        return needs_sweeps<decltype(key)>(problem) ? sweep_workspace<decltype(key)>(problem) : size_t{0};
    });
}

Status sort_rows(const Launch& launch, const SortProblem& given, const SortPointers& pointers) {
    const SortProblem problem = with_collapsed_rows(given);
    if (pointers.values == nullptr && pointers.indices == nullptr) return Status::kOk;
    const SortOperands operands = sort_operands(problem, pointers);
    return with_key_width(problem.key_bytes, [&](auto key) {
        using Bits = decltype(key);
        if (!needs_sweeps<Bits>(problem)) return sort_on_chip(launch, operands, problem);
        return sort_rows_by_sweeps<Bits>(launch, operands, problem);
    });
}

}  // namespace bk
