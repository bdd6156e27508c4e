// SPDX-License-Identifier: Apache-2.0
// All updates of a target are combined at once, by a sort or in shared memory. Without a workspace, or with too many
// updates for one sort: excluded cells are reset, updates are combined by atomics, and means are divided by counts that
// blocks recount for each tile of targets.
#pragma once

#include <algorithm>
#include <cstdint>

#include "indexing/scatter/scatter_reduce.h"

namespace bk {

template <class T>
size_t scatter_reduce_rule_workspace(const ScatterLayout& layout, const ReduceRule&) {
    return scatter_reduce_workspace<RuntimeScatterOp<compute_t<T>>, T>(layout);
}

constexpr int kMeanTile = 4096;
constexpr int kMeanThreads = 512;

// A block takes a tile of the targets of one fiber, and all cells that share its indices.
template <class T>
__global__ void __launch_bounds__(kMeanThreads)
    divide_targets_kernel(Walk<2, uint64_t> fibers, Walk<1, uint64_t> shared, int64_t cells, int64_t tiles, int64_t blocks,
                          ScatterAxis axis, IdArray all_indices, T* out, bool includes_self) {
    using C = compute_t<T>;
    __shared__ int32_t counts[kMeanTile];
    for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
        const int64_t first = block % tiles * kMeanTile, size = min(int64_t{kMeanTile}, axis.targets - first);
        const auto at = fibers(static_cast<uint64_t>(block / tiles));
        const IdArray index = all_indices + signed_offset(at.of[0]);
        for (int64_t t = threadIdx.x; t < size; t += kMeanThreads) counts[t] = 0;
        __syncthreads();
        for (int64_t j = threadIdx.x; j < axis.n; j += kMeanThreads) {
            const int64_t i = index[j * axis.index];
            if (axis.keeps(i) && i >= first && i < first + size) atomicAdd(counts + (i - first), 1);
        }
        __syncthreads();
        T* const base = out + signed_offset(at.of[1]);
        for (int64_t k = threadIdx.x; k < size * cells; k += kMeanThreads) {
            const int64_t t = cells == 1 ? k : k / cells;
            if (counts[t] == 0) continue;
            const int64_t offset = cells == 1 ? 0 : signed_offset(shared(static_cast<uint64_t>(k % cells)).of[0]);
            T* const cell = base + (first + t) * axis.out + offset;
            *cell = narrow<T>(RuntimeScatterOp<C>::mean_of(widen(*cell), int64_t{counts[t]} + includes_self));
        }
        __syncthreads();
    }
}

template <class T>
Status divide_targets(const Launch& launch, const ScatterLayout& s, IdArray index, T* out, bool includes_self) {
    const TargetTiles tiles(s, kMeanTile);
    const int64_t blocks = tiles.fibers.numel() * tiles.tiles;
    const Grid grid{dim3(static_cast<unsigned>(std::min<int64_t>(blocks, kMaxGridX))), dim3(kMeanThreads)};
    return launch_kernel(launch, grid, divide_targets_kernel<T>, Walk<2, uint64_t>(tiles.fibers),
                         Walk<1, uint64_t>(tiles.shared), tiles.shared.numel(), tiles.tiles, blocks, ScatterAxis(s), index, out,
                         includes_self);
}

template <class T>
Status scatter_reduce_rule(const Launch& launch, const ScatterLayout& layout, const ReduceRule& rule, const T* updates,
                           IdArray index, T* out) {
    using Op = RuntimeScatterOp<compute_t<T>>;
    Op op{rule.reduction(), rule.includes_self(), false};
    const bool has_workspace = workspace_holds(launch, scatter_reduce_rule_workspace<T>(layout, rule));
    const bool by_fibers = ScatterFibers::of<Op>(layout).applies() || ScatterColumns::of<Op, T>(layout).applies();
    if (by_fibers || (has_workspace && layout.fibers() * layout.n <= kScatterSlab))
        return scatter_reduce(launch, layout, updates, index, out, op);
    if (rule.is_mean()) op.reduction = Reduction::kSum;
    if (!rule.includes_self()) {
        op.resets = true;
        BK_TRY(scatter_atomic(launch, op, layout, updates, index, out));
        op.resets = false;
    }
    op.includes_self = true;
    BK_TRY(scatter_reduce(launch, layout, updates, index, out, op));
    return rule.is_mean() ? divide_targets(launch, layout, index, out, rule.includes_self()) : Status::kOk;
}

}  // namespace bk
