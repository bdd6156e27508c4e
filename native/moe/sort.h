// SPDX-License-Identifier: Apache-2.0
// Order of (token, slot) pairs by expert: a stable counting sort, whose results depend on the ids alone.
//
// Pair i = token * top_k + slot. Experts have ranges of positions, without padding: expert e has offsets[e] to offsets[e + 1],
// in the order of its pairs. A pair whose id is no expert, or that is beyond its expert's capacity, is dropped: its position is
// -1, and as many entries at the end of `order` and `expert_of` are -1.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/types/dtype.h"
#include "moe/checks.h"

namespace bk::moe {

template <class Id>
struct PairSort {
    int64_t pairs, experts, capacity;
    const Id* ids;
    int32_t *order, *position, *expert_of, *counts, *offsets;

    // The pair's expert, or -1.
    BK_HD int32_t expert(int64_t pair) const {
        const Id id = ids[pair];
        return id >= 0 && static_cast<int64_t>(id) < experts ? static_cast<int32_t>(id) : -1;
    }
    // Stores where the pair goes, `rank` being the number of the expert's pairs before it.
    BK_HD void place(int64_t pair, int32_t e, int64_t rank) const {
        const bool is_kept = e >= 0 && rank < capacity;
        const int32_t to = is_kept ? offsets[e] + static_cast<int32_t>(rank) : -1;
        position[pair] = to;
        if (!is_kept) return;
        order[to] = static_cast<int32_t>(pair);
        expert_of[to] = e;
    }
    BK_HD int32_t kept(int64_t count) const { return static_cast<int32_t>(count < capacity ? count : capacity); }
};

size_t sort_workspace(int64_t pairs, int64_t experts);

template <class Id>
Status sort_pairs_by_expert(const Launch& launch, const PairSort<Id>& sort);

template <class Id>
struct MoeSort {
    int32_t tokens, top_k, experts, capacity;

    int64_t pairs() const { return int64_t{tokens} * top_k; }
    int64_t offset_count() const { return int64_t{experts} + 1; }
    Work work() const { return Work::kAll; }  // offsets[0] is always written
    Status check() const {
        BK_TRY(require_non_negative({{"tokens", tokens}, {"top_k", top_k}, {"experts", experts}, {"capacity", capacity}}));
        BK_TRY(require_in("experts", experts, 0, INT32_MAX - 1));
        return require_pairs(tokens, top_k);
    }
    size_t workspace_size() const { return sort_workspace(pairs(), experts); }
    Status run(const Id* ids, int32_t* order, int32_t* position, int32_t* expert_of, int32_t* counts, int32_t* offsets,
               const Launch& launch) const {
        const int64_t most = capacity == 0 ? INT32_MAX : capacity;
        return sort_pairs_by_expert(launch,
                                    PairSort<Id>{pairs(), experts, most, ids, order, position, expert_of, counts, offsets});
    }
};

}  // namespace bk::moe

#if BK_CUDA
#include "moe/sort_cuda.cuh"
#else
#include "moe/sort_cpu.h"
#endif
