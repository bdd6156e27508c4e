// SPDX-License-Identifier: Apache-2.0
// Reduce-by-key of sorted elements: out[key] = combine(out[key], all updates of that key), in a fixed order by one
// writer.
//
// A block takes a tile of the pairs, each thread a few adjacent ones, and combines across threads by a segmented scan.
// A segment that crosses tiles leaves one partial a tile, `tail` if it continues and `head` if it ends there, which a
// second kernel combines (core/segmented/segment_partials.cuh does the same for rows).
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/collectives/shuffle.cuh"
#include "core/layout/layout.h"
#include "core/scatter/scatter_reduce.h"
#include "core/types/dtype.h"

namespace bk {

constexpr int kElementThreads = 256;
constexpr int kElementItems = 8;
constexpr int kElementTile = kElementThreads * kElementItems;

struct SortedElements {
    const uint32_t* keys;
    const uint32_t* values;  // positions in the walk of the updates
    int64_t count;
    uint32_t sentinel;  // the largest key, of dropped elements
};

template <class Acc>
struct ElementPartials {
    Acc* head;
    Acc* tail;
    uint32_t* head_key;  // the sentinel if there is no head
    uint32_t* tail_key;  // of the tile's last pair; the tail is the identity if its segment ended
};

template <class Acc>
ElementPartials<Acc> carve_element_partials(Carver* carver, int64_t count) {
    const int64_t tiles = ceil_div<int64_t>(count, kElementTile);
    ElementPartials<Acc> partials;
    partials.head = carver->take<Acc>(tiles);
    partials.tail = carver->take<Acc>(tiles);
    partials.head_key = carver->take<uint32_t>(tiles);
    partials.tail_key = carver->take<uint32_t>(tiles);
    return partials;
}

// The combination since the last segment began, and whether one began.
template <class Acc>
struct SegmentSum {
    Acc sum;
    bool begins;
};

template <class Op, class Acc>
BK_DEVICE SegmentSum<Acc> combine_segments(const Op& op, const SegmentSum<Acc>& before, const SegmentSum<Acc>& here) {
    return {here.begins ? here.sum : combine_accumulators(op, before.sum, here.sum), before.begins || here.begins};
}

// The exclusive segmented scan over the threads of the block.
template <class Op, class Acc>
BK_DEVICE SegmentSum<Acc> segmented_exclusive_scan(const Op& op, SegmentSum<Acc> aggregate, const Acc& identity) {
    __shared__ Acc warp_sum[kElementThreads / 32];
    __shared__ int warp_begins[kElementThreads / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int distance = 1; distance < 32; distance *= 2) {
        const Acc sum = shuffle_up(aggregate.sum, distance);
        const int begins = shuffle_up(static_cast<int>(aggregate.begins), distance);
        if (lane >= distance) aggregate = combine_segments(op, SegmentSum<Acc>{sum, begins != 0}, aggregate);
    }
    if (lane == 31) {
        warp_sum[warp] = aggregate.sum;
        warp_begins[warp] = aggregate.begins;
    }
    const Acc sum = shuffle_up(aggregate.sum, 1);
    const int begins = shuffle_up(static_cast<int>(aggregate.begins), 1);
    SegmentSum<Acc> before{sum, begins != 0};
    if (lane == 0) before = {identity, false};
    __syncthreads();
    SegmentSum<Acc> warps{identity, false};
    for (int w = 0; w < warp; ++w) warps = combine_segments(op, warps, SegmentSum<Acc>{warp_sum[w], warp_begins[w] != 0});
    return combine_segments(op, warps, before);
}

template <class Op, class T, class Index>
__global__ void __launch_bounds__(kElementThreads)
    reduce_by_key_kernel(SortedElements pairs, Walk<1, Index> walk, int64_t walk_begin, const T* updates, T* out,
                         ElementPartials<typename Op::Acc> partials, Op op) {
    using C = compute_t<T>;
    using Acc = typename Op::Acc;
    const Acc identity = to_accumulator(op, static_cast<C>(op.identity()), false);
    const int64_t first = int64_t{blockIdx.x} * kElementTile + threadIdx.x * kElementItems;
    // Past the end the key is the sentinel.
    uint32_t key[kElementItems + 1];
    Acc x[kElementItems];
#pragma unroll
    for (int i = 0; i < kElementItems; ++i) {
        key[i] = first + i < pairs.count ? pairs.keys[first + i] : pairs.sentinel;
        x[i] = identity;
        if (key[i] != pairs.sentinel)
            x[i] = to_accumulator(
                op, widen(updates[signed_offset(walk(static_cast<Index>(walk_begin + pairs.values[first + i])).of[0])]), true);
    }
    key[kElementItems] = first + kElementItems < pairs.count ? pairs.keys[first + kElementItems] : pairs.sentinel;
    const bool continues = first > 0 && first <= pairs.count && pairs.keys[first - 1] == key[0];

    SegmentSum<Acc> aggregate{x[0], !continues};
#pragma unroll
    for (int i = 1; i < kElementItems; ++i)
        aggregate = combine_segments(op, aggregate, SegmentSum<Acc>{x[i], key[i] != key[i - 1]});
    const SegmentSum<Acc> before = segmented_exclusive_scan(op, aggregate, identity);

    if (threadIdx.x == 0) partials.head_key[blockIdx.x] = pairs.sentinel;
    __syncthreads();
    Acc sum = before.sum;
    bool in_head = !before.begins;  // the segment began in an earlier tile
#pragma unroll
    for (int i = 0; i < kElementItems; ++i) {
        const bool begins = i == 0 ? !continues : key[i] != key[i - 1];
        sum = begins ? x[i] : combine_accumulators(op, sum, x[i]);
        in_head = in_head && !begins;
        if (key[i] == key[i + 1] || key[i] == pairs.sentinel) continue;
        if (in_head) {
            partials.head[blockIdx.x] = sum;
            partials.head_key[blockIdx.x] = key[i];
        } else {
            out[key[i]] = narrow<T>(op.finish(widen(out[key[i]]), sum));
        }
    }
    if (threadIdx.x == kElementThreads - 1) {
        const uint32_t last = key[kElementItems - 1];
        partials.tail[blockIdx.x] = last == key[kElementItems] ? sum : identity;
        partials.tail_key[blockIdx.x] = last;
    }
}

// One warp a tile: combines the tile's head with the earlier tails of the same segment.
template <class Op, class T>
__global__ void __launch_bounds__(kElementThreads)
    combine_partials_kernel(int64_t tiles, uint32_t sentinel, T* out, ElementPartials<typename Op::Acc> partials, Op op) {
    using Acc = typename Op::Acc;
    const int lane = threadIdx.x % 32;
    const int64_t tile = int64_t{blockIdx.x} * (kElementThreads / 32) + threadIdx.x / 32;
    if (tile >= tiles) return;
    const uint32_t key = partials.head_key[tile];
    if (key == sentinel) return;
    int64_t low = 0, high = tile;  // the first tile whose last key is not smaller
    if (tile > 1 && partials.tail_key[tile - 2] < key) low = tile - 1;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (partials.tail_key[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    Acc sum = to_accumulator(op, static_cast<compute_t<T>>(op.identity()), false);
#pragma unroll 4
    for (int64_t t = low + lane; t < tile; t += 32) sum = combine_accumulators(op, sum, partials.tail[t]);
    for (int distance = 16; distance > 0; distance /= 2) sum = combine_accumulators(op, sum, shuffle_xor(sum, distance));
    if (lane == 0) out[key] = narrow<T>(op.finish(widen(out[key]), combine_accumulators(op, sum, partials.head[tile])));
}

// Pair values are positions relative to `walk_begin` in the walk.
template <class Op, class T, class Index>
Status reduce_by_key(const Launch& launch, const Op& op, const SortedElements& pairs, const Walk<1, Index>& walk,
                     int64_t walk_begin, const T* updates, T* out, const ElementPartials<typename Op::Acc>& partials) {
    const int64_t tiles = ceil_div<int64_t>(pairs.count, kElementTile);
    const Grid grid{dim3(static_cast<unsigned>(tiles)), dim3(kElementThreads)};
    BK_TRY(
        launch_kernel(launch, grid, reduce_by_key_kernel<Op, T, Index>, pairs, walk, walk_begin, updates, out, partials, op));
    if (tiles == 1) return Status::kOk;
    const Grid partials_grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(tiles, kElementThreads / 32))),
                             dim3(kElementThreads)};
    return launch_kernel(launch, partials_grid, combine_partials_kernel<Op, T>, tiles, pairs.sentinel, out, partials, op);
}

}  // namespace bk
