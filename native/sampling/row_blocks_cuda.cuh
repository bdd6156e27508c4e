// SPDX-License-Identifier: Apache-2.0
// The blocks of a cluster (sm_90), or one block, that share a row: their memory, reductions over them, and launches.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch_cuda.h"
#include "core/collectives/cluster_peers.cuh"
#include "core/collectives/shuffle.cuh"
#include "core/intrinsics/cluster.cuh"
#include "sampling/token_rows.h"

namespace bk::sampling {

constexpr int kThreads = 512, kWarps = kThreads / 32, kBinsPerThread = kBins / kThreads;
constexpr int kMaxSegments = 1024, kLeastSegment = 1024, kItems = kMaxSegments / kThreads;
constexpr unsigned kWholeWarp = 0xffffffffu;

struct AddPairs {
    BK_DEVICE Pair operator()(const Pair& a, const Pair& b) const { return {a.weight + b.weight, a.other + b.other}; }
};
struct TakeLargest {
    BK_DEVICE LargestOf operator()(const LargestOf& a, const LargestOf& b) const {
        return {b.largest > a.largest ? b.largest : a.largest, a.refused | b.refused};
    }
};

// A token that few tokens are chosen from.
struct Candidate {
    uint32_t key, index;
};
constexpr int kFew = kThreads;  // most candidates of a row

// Shared memory of a block. Segments, bins and candidates are never needed at one time.
struct RowMemory {
    union {
        struct {
            uint32_t low[kBins], high[kBins];  // words of the sums
        };
        struct {
            uint64_t above[kMaxSegments];  // weight above the threshold
            uint32_t ties[kMaxSegments];
        };
        struct {
            uint32_t group[kThreads];         // largest keys of this block's groups of threads
            Candidate list[kFew];             // of this block
            uint32_t key[kFew], index[kFew];  // of the row's candidates
            uint64_t weight[kFew];
            uint32_t listed, bound;
        };
    };
    Pair partial[kWarps], slot[2];
    Selection selection;
    uint64_t total;
};

// Split of a row into segments of 2^shift tokens, at most kMaxSegments; blocks of the cluster have equally many.
struct Split {
    int64_t first_row, block_tokens;
    int cluster, shift;
    bool is_cached;
};

inline Split split_of(int64_t vocab, int cluster) {
    int shift = 10;
    while (ceil_div<int64_t>(vocab, int64_t{1} << shift) > kMaxSegments) ++shift;
    return {0, ceil_div<int64_t>(ceil_div<int64_t>(vocab, int64_t{1} << shift), cluster) << shift, cluster, shift, false};
}

class RowBlocks {
public:
    BK_DEVICE RowBlocks(const Split& split, RowMemory& memory)
        : m_(memory), cluster_(split.cluster), thread_(static_cast<int>(threadIdx.x)) {
        if (cluster_ > 1) open_cluster(&memory, sizeof(memory));
        rank_ = cluster_ > 1 ? rank_of_block() : 0;
    }

protected:
    // --- reductions over the block and the cluster; every thread has the result ---

    template <class V, class Op>
    BK_DEVICE V block_all(V mine, const Op& op) {
        static_assert(sizeof(V) <= sizeof(Pair), "partials are stored as pairs");
        V* const partial = reinterpret_cast<V*>(m_.partial);
        for (int distance = 16; distance > 0; distance /= 2) mine = op(mine, shuffle_xor(mine, distance));
        __syncthreads();
        if (thread_ % 32 == 0) partial[thread_ / 32] = mine;
        __syncthreads();
        V all = partial[0];
        for (int warp = 1; warp < kWarps; ++warp) all = op(all, partial[warp]);
        return all;
    }

    // Publishes a value of each block; of(rank) reads one until the next but one publication.
    template <class V>
    BK_DEVICE void publish(const V& mine) {
        phase_ ^= 1;
        if (thread_ == 0) *reinterpret_cast<V*>(&m_.slot[phase_]) = mine;
        cluster_ > 1 ? sync_blocks() : __syncthreads();
    }
    template <class V>
    BK_DEVICE V published(int rank) const {
        const V* const slot = reinterpret_cast<const V*>(&m_.slot[phase_]);
        return rank == rank_ ? *slot : *cluster_peer(slot, rank);
    }
    template <class V, class Op>
    BK_DEVICE V row_all(const V& mine, const Op& op) {
        V all = block_all(mine, op);
        if (cluster_ == 1) return all;
        publish(all);
        all = published<V>(0);
        for (int rank = 1; rank < cluster_; ++rank) all = op(all, published<V>(rank));
        return all;
    }

    // Sum over the threads before this one, and over all.
    BK_DEVICE uint64_t sum_before(uint64_t mine, uint64_t* total) {
        uint64_t* const partial = reinterpret_cast<uint64_t*>(m_.partial);
        uint64_t inclusive = mine;
        for (int distance = 1; distance < 32; distance *= 2) {
            const uint64_t other = shuffle_up(inclusive, distance);
            if (thread_ % 32 >= distance) inclusive += other;
        }
        __syncthreads();
        if (thread_ % 32 == 31) partial[thread_ / 32] = inclusive;
        __syncthreads();
        uint64_t before = inclusive - mine, all = 0;
        for (int warp = 0; warp < kWarps; ++warp) {
            if (warp < thread_ / 32) before += partial[warp];
            all += partial[warp];
        }
        *total = all;
        return before;
    }

    // The memory of another block of the row, or of this one.
    BK_DEVICE const RowMemory& memory_of(int rank) const { return rank == rank_ ? m_ : *cluster_peer(&m_, rank); }
    // Barrier of all threads of the row.
    BK_DEVICE void sync_row() const { cluster_ > 1 ? sync_blocks() : __syncthreads(); }

    RowMemory& m_;
    const int cluster_, thread_;
    int rank_ = 0, phase_ = 0;
};

// Splits for a row: on chips with clusters a block for each 4096 tokens, at most eight.
inline Split choose_split(int64_t vocab) {
    const int most = static_cast<int>(most_cluster_blocks());
    Split split = split_of(vocab, 1);
    while (split.cluster < most && split.block_tokens > 4 * kLeastSegment) split = split_of(vocab, 2 * split.cluster);
    return split;
}

// Launches kernel(arguments, split) with the blocks of `rows` rows; `shared` is a block's dynamic memory in bytes.
template <class Arguments>
Status launch_rows(const Launch& launch, int64_t rows, Split split, int64_t shared, void (*kernel)(Arguments, Split),
                   const Arguments& arguments) {
    const int64_t most_rows = kMaxGridX / split.cluster;
    for (; split.first_row < rows; split.first_row += most_rows) {
        const int64_t count = std::min(most_rows, rows - split.first_row);
        Grid grid{dim3(static_cast<unsigned>(count * split.cluster)), dim3(kThreads)};
        grid.cluster = static_cast<unsigned>(split.cluster);
        grid.shared = static_cast<unsigned>(shared);
        BK_TRY(launch_kernel(launch, grid, kernel, arguments, split));
    }
    return Status::kOk;
}

BK_DEVICE int64_t row_of_block(const Split& split) {
    return split.first_row + static_cast<int64_t>(blockIdx.x) / split.cluster;
}

}  // namespace bk::sampling
