// Runs of sorted single elements: out[key] = combine(itself, the updates of that key), each run by one writer in a
// fixed order.
//
// A block takes a tile of the pairs, each thread neighbours, and combines across threads by a scan that stops where
// runs begin. Of a run that crosses tiles each keeps its part, `tail` where the run goes on and `head` where it ends,
// and a second kernel joins them: as run_parts.cuh does for rows.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/pointwise/layout.h"
#include "core/reduce/shuffle.cuh"
#include "core/rows/scatter_reduce.h"
#include "core/types/dtype.h"

namespace bk {

constexpr int kElementThreads = 256;
constexpr int kElementItems = 8;
constexpr int kElementTile = kElementThreads * kElementItems;

struct SortedElements {
    const uint32_t* keys;
    const uint32_t* values;  // positions in the walk of the updates
    int64_t count;
    uint32_t sentinel;  // key of what is dropped, the largest
};

// A tile has at most one head and one tail.
template <class Acc>
struct ElementParts {
    Acc* head;
    Acc* tail;
    uint32_t* head_key;  // the sentinel: no head
    uint32_t* tail_key;  // of the tile's last pair; the tail is the identity where the run ended
};

template <class Acc>
ElementParts<Acc> carve_element_parts(Carver* carver, int64_t count) {
    const int64_t tiles = ceil_div<int64_t>(count, kElementTile);
    ElementParts<Acc> parts;
    parts.head = carver->take<Acc>(tiles);
    parts.tail = carver->take<Acc>(tiles);
    parts.head_key = carver->take<uint32_t>(tiles);
    parts.tail_key = carver->take<uint32_t>(tiles);
    return parts;
}

// What is combined since the last begin of a run, and whether there was one.
template <class Acc>
struct RunSum {
    Acc sum;
    bool begins;
};

template <class Op, class Acc>
BK_DEVICE RunSum<Acc> run_after(const Op& op, const RunSum<Acc>& before, const RunSum<Acc>& here) {
    return {here.begins ? here.sum : combine_collected(op, before.sum, here.sum), before.begins || here.begins};
}

// What all threads before this one have.
template <class Op, class Acc>
BK_DEVICE RunSum<Acc> scan_runs(const Op& op, RunSum<Acc> mine, const Acc& nothing) {
    __shared__ Acc warp_sum[kElementThreads / 32];
    __shared__ int warp_begins[kElementThreads / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int distance = 1; distance < 32; distance *= 2) {
        const Acc sum = shuffle_up(mine.sum, distance);
        const int begins = shuffle_up(static_cast<int>(mine.begins), distance);
        if (lane >= distance) mine = run_after(op, RunSum<Acc>{sum, begins != 0}, mine);
    }
    if (lane == 31) {
        warp_sum[warp] = mine.sum;
        warp_begins[warp] = mine.begins;
    }
    const Acc sum = shuffle_up(mine.sum, 1);
    const int begins = shuffle_up(static_cast<int>(mine.begins), 1);
    RunSum<Acc> before{sum, begins != 0};
    if (lane == 0) before = {nothing, false};
    __syncthreads();
    RunSum<Acc> warps{nothing, false};
    for (int w = 0; w < warp; ++w) warps = run_after(op, warps, RunSum<Acc>{warp_sum[w], warp_begins[w] != 0});
    return run_after(op, warps, before);
}

template <class Op, class T, class Index>
__global__ void __launch_bounds__(kElementThreads)
    combine_elements_kernel(SortedElements pairs, Walk<1, Index> from, int64_t origin, const T* updates, T* out,
                            ElementParts<typename Op::Acc> parts, Op op) {
    using C = compute_t<T>;
    using Acc = typename Op::Acc;
    const Acc nothing = collected(op, static_cast<C>(op.identity()), false);
    const int64_t first = int64_t{blockIdx.x} * kElementTile + threadIdx.x * kElementItems;
    // Past the end the key is the sentinel.
    uint32_t key[kElementItems + 1];
    Acc x[kElementItems];
#pragma unroll
    for (int i = 0; i < kElementItems; ++i) {
        key[i] = first + i < pairs.count ? pairs.keys[first + i] : pairs.sentinel;
        x[i] = nothing;
        if (key[i] != pairs.sentinel)
            x[i] = collected(
                op, widen(updates[signed_offset(from(static_cast<Index>(origin + pairs.values[first + i])).of[0])]), true);
    }
    key[kElementItems] = first + kElementItems < pairs.count ? pairs.keys[first + kElementItems] : pairs.sentinel;
    const bool continues = first > 0 && first <= pairs.count && pairs.keys[first - 1] == key[0];

    RunSum<Acc> mine{x[0], !continues};
#pragma unroll
    for (int i = 1; i < kElementItems; ++i) mine = run_after(op, mine, RunSum<Acc>{x[i], key[i] != key[i - 1]});
    const RunSum<Acc> before = scan_runs(op, mine, nothing);

    if (threadIdx.x == 0) parts.head_key[blockIdx.x] = pairs.sentinel;
    __syncthreads();
    Acc sum = before.sum;
    bool in_head = !before.begins;  // of a run that began before the tile
#pragma unroll
    for (int i = 0; i < kElementItems; ++i) {
        const bool begins = i == 0 ? !continues : key[i] != key[i - 1];
        sum = begins ? x[i] : combine_collected(op, sum, x[i]);
        in_head = in_head && !begins;
        if (key[i] == key[i + 1] || key[i] == pairs.sentinel) continue;
        if (in_head) {
            parts.head[blockIdx.x] = sum;
            parts.head_key[blockIdx.x] = key[i];
        } else {
            out[key[i]] = narrow<T>(op.finish(widen(out[key[i]]), sum));
        }
    }
    if (threadIdx.x == kElementThreads - 1) {
        const uint32_t last = key[kElementItems - 1];
        parts.tail[blockIdx.x] = last == key[kElementItems] ? sum : nothing;
        parts.tail_key[blockIdx.x] = last;
    }
}

// A warp a tile. Where the tile has a head, joins the tails before it that belong to the same run.
template <class Op, class T>
__global__ void __launch_bounds__(kElementThreads)
    join_elements_kernel(int64_t tiles, uint32_t sentinel, T* out, ElementParts<typename Op::Acc> parts, Op op) {
    using Acc = typename Op::Acc;
    const int lane = threadIdx.x % 32;
    const int64_t tile = int64_t{blockIdx.x} * (kElementThreads / 32) + threadIdx.x / 32;
    if (tile >= tiles) return;
    const uint32_t key = parts.head_key[tile];
    if (key == sentinel) return;
    int64_t low = 0, high = tile;  // the first tile whose last key reaches this one
    if (tile > 1 && parts.tail_key[tile - 2] < key) low = tile - 1;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (parts.tail_key[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    Acc sum = collected(op, static_cast<compute_t<T>>(op.identity()), false);
#pragma unroll 4
    for (int64_t t = low + lane; t < tile; t += 32) sum = combine_collected(op, sum, parts.tail[t]);
    for (int distance = 16; distance > 0; distance /= 2) sum = combine_collected(op, sum, shuffle_xor(sum, distance));
    if (lane == 0) out[key] = narrow<T>(op.finish(widen(out[key]), combine_collected(op, sum, parts.head[tile])));
}

// `origin` is where the pairs' values begin in the walk.
template <class Op, class T, class Index>
Status combine_elements(const Launch& launch, const Op& op, const SortedElements& pairs, const Walk<1, Index>& from,
                        int64_t origin, const T* updates, T* out, const ElementParts<typename Op::Acc>& parts) {
    const int64_t tiles = ceil_div<int64_t>(pairs.count, kElementTile);
    const Grid grid{dim3(static_cast<unsigned>(tiles)), dim3(kElementThreads)};
    BK_TRY(launch_kernel(launch, grid, combine_elements_kernel<Op, T, Index>, pairs, from, origin, updates, out, parts, op));
    if (tiles == 1) return Status::kOk;
    const Grid join{dim3(static_cast<unsigned>(ceil_div<int64_t>(tiles, kElementThreads / 32))), dim3(kElementThreads)};
    return launch_kernel(launch, join, join_elements_kernel<Op, T>, tiles, pairs.sentinel, out, parts, op);
}

}  // namespace bk
