// Updates are sorted, or collected line by line, and each target's combined at once. Without a workspace for a sort,
// and where they are too many for one sort: cells that are not counted in are reset, all is combined in memory, and
// means are divided by counts that blocks make anew for each tile of targets.
#pragma once

#include <algorithm>
#include <cstdint>

#include "indexing/scatter_reduce.h"

namespace bk {

template <class T>
size_t scatter_fold_workspace(const ScatterLayout& layout, const ScatterRule&) {
    return scatter_reduce_workspace<ScatterChoice<compute_t<T>>, T>(layout);
}

constexpr int kMeanTile = 4096;
constexpr int kMeanThreads = 512;

// A block a tile of the targets of lines that share their indices.
template <class T>
__global__ void __launch_bounds__(kMeanThreads)
    divide_targets_kernel(Walk<2, uint64_t> lines, Walk<1, uint64_t> shared, int64_t cells, int64_t tiles, int64_t blocks,
                          ScatterAxis axis, IdArray all_indices, T* out, bool includes_self) {
    using C = compute_t<T>;
    __shared__ int32_t counts[kMeanTile];
    for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
        const int64_t first = block % tiles * kMeanTile, size = min(int64_t{kMeanTile}, axis.targets - first);
        const auto at = lines(static_cast<uint64_t>(block / tiles));
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
            *cell = narrow<T>(ScatterChoice<C>::mean_of(widen(*cell), int64_t{counts[t]} + includes_self));
        }
        __syncthreads();
    }
}

template <class T>
Status divide_targets(const Launch& launch, const ScatterLayout& s, IdArray index, T* out, bool includes_self) {
    const ScatterTiles tiles(s, kMeanTile);
    const int64_t blocks = tiles.lines.numel() * tiles.tiles;
    const Grid grid{dim3(static_cast<unsigned>(std::min<int64_t>(blocks, kMaxGridX))), dim3(kMeanThreads)};
    return launch_kernel(launch, grid, divide_targets_kernel<T>, Walk<2, uint64_t>(tiles.lines),
                         Walk<1, uint64_t>(tiles.shared), tiles.shared.numel(), tiles.tiles, blocks, ScatterAxis(s), index, out,
                         includes_self);
}

template <class T>
Status scatter_fold(const Launch& launch, const ScatterLayout& layout, const ScatterRule& rule, const T* updates, IdArray index,
                    T* out) {
    using Op = ScatterChoice<compute_t<T>>;
    Op op{rule.reduction(), rule.includes_self(), false};
    const bool found = workspace_holds(launch, scatter_fold_workspace<T>(layout, rule));
    const bool by_lines = ScatterLines::of<Op>(layout).are_there() || ScatterColumns::of<Op, T>(layout).are_there();
    if (by_lines || (found && layout.lines() * layout.n <= kScatterSlab))
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
