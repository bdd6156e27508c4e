// SPDX-License-Identifier: Apache-2.0
// Last-write-wins scatter over dense fibers: a block finds the last update of each target of its fiber in shared memory
// and writes the targets that have one in order.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/gather/indexed_copy.h"

namespace bk {

constexpr int kFiberCopyThreads = 256;

struct FiberScatter {
    int64_t fibers = 0;
    int n = 0, targets = 0;                     // per fiber
    int64_t plain = 0, index = 0, indexed = 0;  // strides between fibers

    // Fibers must fit into 48 KiB of shared memory, be long enough for a block and enough for all SMs.
    template <class W>
    static FiberScatter of(const IndexedAxes& axes) {
        constexpr int kPlain = IndexedAxes::kPlain, kIndex = IndexedAxes::kIndex, kIndexed = IndexedAxes::kIndexed;
        const Layout<3> dims = collapse(axes.layout);
        if (dims.rank != 2 || axes.step != 1 || dims.stride[kPlain][1] != 1 || dims.stride[kIndex][1] != 1 ||
            dims.stride[kIndexed][1] != 0 || dims.stride[kIndexed][0] < axes.extent)
            return {};
        const int64_t n = dims.extent[1], shared_bytes = 49152 - 16;
        if (n < kFiberCopyThreads || dims.extent[0] < 512 || dims.extent[0] > INT32_MAX || axes.extent > 8 * n ||
            axes.extent > shared_bytes / 4 || n > (shared_bytes - 4 * axes.extent) / static_cast<int64_t>(sizeof(W)))
            return {};
        return {dims.extent[0],         static_cast<int>(n),    static_cast<int>(axes.extent),
                dims.stride[kPlain][0], dims.stride[kIndex][0], dims.stride[kIndexed][0]};
    }
    BK_HD int last_update_words() const { return (targets + 3) / 4 * 4; }  // aligns what follows
};

template <class W, class I>
__global__ void __launch_bounds__(kFiberCopyThreads)
    scatter_fiber_last_kernel(FiberScatter s, const W* plain, const I* index, W* indexed) {
    constexpr int kBatch = 4;
    BK_LAUNCH_SHARED(uint4, scratch);
    int32_t* const last_update = reinterpret_cast<int32_t*>(scratch);
    W* const value = reinterpret_cast<W*>(last_update + s.last_update_words());
    const int thread = static_cast<int>(threadIdx.x);
    plain += blockIdx.x * s.plain;
    index += blockIdx.x * s.index;
    indexed += blockIdx.x * s.indexed;
    for (int t = thread; t < s.targets; t += kFiberCopyThreads) last_update[t] = -1;
    __syncthreads();
    for (int first = thread; first < s.n; first += kBatch * kFiberCopyThreads) {
        I at[kBatch];
        W x[kBatch];
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
            const int j = first + u * kFiberCopyThreads;
            at[u] = I(-1);
            if (j >= s.n) continue;
            at[u] = index[j];
            x[u] = plain[j];
        }
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
            if (static_cast<int64_t>(at[u]) < 0 || static_cast<int64_t>(at[u]) >= s.targets) continue;
            value[first + u * kFiberCopyThreads] = x[u];
            atomicMax(last_update + at[u], first + u * kFiberCopyThreads);
        }
    }
    __syncthreads();
    for (int t = thread; t < s.targets; t += kFiberCopyThreads)
        if (last_update[t] >= 0) indexed[t] = value[last_update[t]];
}

template <class W, class I>
Status scatter_fiber_last(const Launch& launch, const FiberScatter& s, const W* plain, const I* index, W* indexed) {
    const unsigned shared = static_cast<unsigned>(s.last_update_words() * 4 + s.n * static_cast<int>(sizeof(W)));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(s.fibers)), dim3(kFiberCopyThreads), 1, shared},
                         scatter_fiber_last_kernel<W, I>, s, plain, index, indexed);
}

}  // namespace bk
