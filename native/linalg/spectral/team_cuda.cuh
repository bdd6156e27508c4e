// SPDX-License-Identifier: Apache-2.0
// A thread, a block of one warp, or a block of several for each matrix, chosen at run time by one kernel.
#pragma once

#include "core/collectives/shuffle.cuh"
#include "linalg/spectral/team.h"

namespace bk::linalg::spectral {

template <class E>
constexpr int kRowsOfThread = 1;

constexpr int kMostTeamThreads = 256;
constexpr int64_t kMostSlices = 264;  // blocks with scratch in the workspace: two for each SM of a large chip
constexpr int64_t kThreadExtent = 8;  // matrices up to here take a thread each, if 32 of them fit shared memory
constexpr int64_t kThreadBytes = 1 << 10;

BK_HD void clear_upper_halves() {}

struct MatrixTeam {
    int rank_, size_;

    BK_HD int rank() const { return rank_; }
    BK_HD int size() const { return size_; }
    BK_HD int lane() const { return rank_ % 32; }
    BK_HD int lanes() const { return size_ < 32 ? size_ : 32; }
    BK_HD int warp() const { return rank_ / 32; }
    BK_HD int warps() const { return size_ < 32 ? 1 : size_ / 32; }
    BK_HD void sync() const {
#if BK_IN_KERNEL
        if (size_ > 1) __syncthreads();
#endif
    }
    BK_HD void sync_lanes() const {
#if BK_IN_KERNEL
        if (size_ > 1) __syncwarp();
#endif
    }
    // All-reduces over the lanes of a warp.
    template <class E, class Op>
    BK_HD E lane_reduce(E mine, [[maybe_unused]] const Op& op) const {
#if BK_IN_KERNEL
        if (size_ > 1)
#pragma unroll
            for (int distance = 1; distance < 32; distance *= 2) mine = op(mine, shuffle_xor(mine, distance));
#endif
        return mine;
    }
    template <class E>
    BK_HD E lane_sum(E mine) const {
        return lane_reduce(mine, [](E a, E b) { return a + b; });
    }
    // All-reduces in a fixed order; both end with a barrier.
    template <class E>
    BK_HD E sum(E mine) const {
        return reduce(mine, [](E a, E b) { return a + b; });
    }
    // NaN if there is one.
    template <class R>
    BK_HD R largest(R mine) const {
        return reduce(mine, [](R a, R b) { return a >= b || a != a ? a : b; });
    }

private:
    template <class E, class Op>
    BK_HD E reduce(E mine, [[maybe_unused]] const Op& op) const {
#if BK_IN_KERNEL
        if (size_ == 1) return mine;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) mine = op(mine, shuffle_xor(mine, distance));
        if (size_ > 32) {
            __shared__ E partial[kMostTeamThreads / 32];
            if (rank_ % 32 == 0) partial[rank_ / 32] = mine;
            __syncthreads();
            mine = partial[0];
            for (int warp = 1; warp < size_ / 32; ++warp) mine = op(mine, partial[warp]);
        }
        __syncthreads();
#endif
        return mine;
    }
};

struct TeamShape {
    int threads = 32;        // of a block
    bool is_thread = false;  // a team is a thread
    bool is_shared = true;   // scratch is shared memory
    int64_t blocks = 0, slice = 0;

    static TeamShape of(int64_t items, int64_t extent, int64_t bytes) {
        TeamShape shape;
        shape.slice = bytes + 16;  // slices of threads begin at different banks
        shape.is_thread = extent <= kThreadExtent && bytes <= kThreadBytes;
        if (shape.is_thread) {
            shape.blocks = std::min<int64_t>(ceil_div<int64_t>(items, 32), kMaxGridX);
            return shape;
        }
        shape.slice = ceil_div<int64_t>(bytes, 256) * 256;
        shape.threads = extent <= 32 ? 32 : extent <= 64 ? 128 : kMostTeamThreads;
        shape.is_shared = has_shared(bytes + 1024);  // static shared memory too
        shape.blocks = std::min(items, shape.is_shared ? kMaxGridX : kMostSlices);
        return shape;
    }
};

inline size_t team_workspace(int64_t items, int64_t extent, const TeamBytes& bytes) {
    const TeamShape shape = TeamShape::of(items, extent, bytes.own);
    Carver carver;
    if (bytes.together > 0) {
        const int64_t count = std::min(items, bytes.together);
        carver.take<char>(times(count, shape.slice));
        carver.take<char>(times(count, bytes.drivers));
        return carver.bytes();
    }
    carver.take<char>(shape.is_shared ? 0 : times(shape.blocks, shape.slice));
    return carver.bytes();
}

}  // namespace bk::linalg::spectral
