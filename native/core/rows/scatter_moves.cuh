// Moves to places along dense lines: a block finds the last update of each target of its line in shared memory, and
// writes the line in order, where updates go to it.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/rows/indexed_moves.h"

namespace bk {

constexpr int kLineThreads = 256;

struct LineMoves {
    int64_t lines = 0;
    int n = 0, targets = 0;                    // of a line
    int64_t plain = 0, index = 0, placed = 0;  // from line to line

    // Lines that fit into 48 KiB, long enough for a block and enough of them for the chip.
    template <class W>
    static LineMoves of(const IndexedAxes& axes) {
        constexpr int kPlain = IndexedAxes::kPlain, kIndex = IndexedAxes::kIndex, kPlaced = IndexedAxes::kPlaced;
        const Layout<3> at = collapse(axes.places);
        if (at.rank != 2 || axes.step != 1 || at.stride[kPlain][1] != 1 || at.stride[kIndex][1] != 1 ||
            at.stride[kPlaced][1] != 0 || at.stride[kPlaced][0] < axes.extent)
            return {};
        const int64_t n = at.extent[1], room = 49152 - 16;
        if (n < kLineThreads || at.extent[0] < 512 || at.extent[0] > INT32_MAX || axes.extent > 8 * n ||
            axes.extent > room / 4 || n > (room - 4 * axes.extent) / static_cast<int64_t>(sizeof(W)))
            return {};
        return {at.extent[0],         static_cast<int>(n),  static_cast<int>(axes.extent),
                at.stride[kPlain][0], at.stride[kIndex][0], at.stride[kPlaced][0]};
    }
    BK_HD int owner_words() const { return (targets + 3) / 4 * 4; }  // so that what lies behind them is aligned
};

template <class W, class I>
__global__ void __launch_bounds__(kLineThreads) move_lines_kernel(LineMoves s, const W* plain, const I* index, W* placed) {
    constexpr int kBatch = 4;
    BK_LAUNCH_SHARED(uint4, scratch);
    int32_t* const owner = reinterpret_cast<int32_t*>(scratch);
    W* const value = reinterpret_cast<W*>(owner + s.owner_words());
    const int thread = static_cast<int>(threadIdx.x);
    plain += blockIdx.x * s.plain;
    index += blockIdx.x * s.index;
    placed += blockIdx.x * s.placed;
    for (int t = thread; t < s.targets; t += kLineThreads) owner[t] = -1;
    __syncthreads();
    for (int first = thread; first < s.n; first += kBatch * kLineThreads) {
        I at[kBatch];
        W x[kBatch];
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
            const int j = first + u * kLineThreads;
            at[u] = I(-1);
            if (j >= s.n) continue;
            at[u] = index[j];
            x[u] = plain[j];
        }
#pragma unroll
        for (int u = 0; u < kBatch; ++u) {
            if (static_cast<int64_t>(at[u]) < 0 || static_cast<int64_t>(at[u]) >= s.targets) continue;
            value[first + u * kLineThreads] = x[u];
            atomicMax(owner + at[u], first + u * kLineThreads);
        }
    }
    __syncthreads();
    for (int t = thread; t < s.targets; t += kLineThreads)
        if (owner[t] >= 0) placed[t] = value[owner[t]];
}

template <class W, class I>
Status move_lines(const Launch& launch, const LineMoves& s, const W* plain, const I* index, W* placed) {
    const unsigned shared = static_cast<unsigned>(s.owner_words() * 4 + s.n * static_cast<int>(sizeof(W)));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(s.lines)), dim3(kLineThreads), 1, shared},
                         move_lines_kernel<W, I>, s, plain, index, placed);
}

}  // namespace bk
