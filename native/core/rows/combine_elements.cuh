// Runs of sorted single elements: out[key] = combine(itself, the updates of that key), each run by one writer in a fixed order.
//
// A block takes a tile of the pairs, each thread neighbours, and combines across threads by a scan that stops where runs
// begin. Of a run that crosses tiles each keeps its part, `tail` where the run goes on and `head` where it ends, and a
// second kernel joins them: as run_parts.cuh does for rows.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/pointwise/layout.h"
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
template <class C>
struct ElementParts {
    C* head;
    C* tail;
    uint32_t* head_key;  // the sentinel: no head
    uint32_t* tail_key;  // of the tile's last pair; the tail is the identity where the run ended
};

template <class C>
ElementParts<C> carve_element_parts(Carver* carver, int64_t count) {
    const int64_t tiles = ceil_div<int64_t>(count, kElementTile);
    ElementParts<C> parts;
    parts.head = carver->take<C>(tiles);
    parts.tail = carver->take<C>(tiles);
    parts.head_key = carver->take<uint32_t>(tiles);
    parts.tail_key = carver->take<uint32_t>(tiles);
    return parts;
}

// What is combined since the last begin of a run, and whether there was one.
template <class C>
struct RunSum {
    C sum;
    bool begins;
};

template <class Op, class C>
BK_DEVICE RunSum<C> run_after(const RunSum<C>& before, const RunSum<C>& here) {
    return {here.begins ? here.sum : Op::combine(before.sum, here.sum), before.begins || here.begins};
}

// What all threads before this one have.
template <class Op, class C>
BK_DEVICE RunSum<C> scan_runs(RunSum<C> mine) {
    __shared__ C warp_sum[kElementThreads / 32];
    __shared__ int warp_begins[kElementThreads / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int distance = 1; distance < 32; distance *= 2) {
        const C sum = __shfl_up_sync(0xffffffffu, mine.sum, distance);
        const int begins = __shfl_up_sync(0xffffffffu, static_cast<int>(mine.begins), distance);
        if (lane >= distance) mine = run_after<Op>(RunSum<C>{sum, begins != 0}, mine);
    }
    if (lane == 31) {
        warp_sum[warp] = mine.sum;
        warp_begins[warp] = mine.begins;
    }
    RunSum<C> before{__shfl_up_sync(0xffffffffu, mine.sum, 1),
                     __shfl_up_sync(0xffffffffu, static_cast<int>(mine.begins), 1) != 0};
    if (lane == 0) before = {Op::identity(), false};
    __syncthreads();
    RunSum<C> warps{Op::identity(), false};
    for (int w = 0; w < warp; ++w) warps = run_after<Op>(warps, RunSum<C>{warp_sum[w], warp_begins[w] != 0});
    return run_after<Op>(warps, before);
}

template <class Op, class T, class Index>
__global__ void __launch_bounds__(kElementThreads)
    combine_elements_kernel(SortedElements pairs, Walk<1, Index> from, int64_t origin, const T* updates, T* out,
                            ElementParts<compute_t<T>> parts) {
    using C = compute_t<T>;
    const int64_t first = int64_t{blockIdx.x} * kElementTile + threadIdx.x * kElementItems;
    // Past the end the key is the sentinel.
    uint32_t key[kElementItems + 1];
    C x[kElementItems];
#pragma unroll
    for (int i = 0; i < kElementItems; ++i) {
        key[i] = first + i < pairs.count ? pairs.keys[first + i] : pairs.sentinel;
        x[i] = Op::identity();
        if (key[i] != pairs.sentinel)
            x[i] = widen(updates[signed_offset(from(static_cast<Index>(origin + pairs.values[first + i])).of[0])]);
    }
    key[kElementItems] = first + kElementItems < pairs.count ? pairs.keys[first + kElementItems] : pairs.sentinel;
    const bool continues = first > 0 && first <= pairs.count && pairs.keys[first - 1] == key[0];

    RunSum<C> mine{x[0], !continues};
#pragma unroll
    for (int i = 1; i < kElementItems; ++i) mine = run_after<Op>(mine, RunSum<C>{x[i], key[i] != key[i - 1]});
    const RunSum<C> before = scan_runs<Op>(mine);

    if (threadIdx.x == 0) parts.head_key[blockIdx.x] = pairs.sentinel;
    __syncthreads();
    C sum = before.sum;
    bool in_head = !before.begins;  // of a run that began before the tile
#pragma unroll
    for (int i = 0; i < kElementItems; ++i) {
        const bool begins = i == 0 ? !continues : key[i] != key[i - 1];
        sum = begins ? x[i] : Op::combine(sum, x[i]);
        in_head = in_head && !begins;
        if (key[i] == key[i + 1] || key[i] == pairs.sentinel) continue;
        if (in_head) {
            parts.head[blockIdx.x] = sum;
            parts.head_key[blockIdx.x] = key[i];
        } else {
            out[key[i]] = narrow<T>(Op::combine(widen(out[key[i]]), sum));
        }
    }
    if (threadIdx.x == kElementThreads - 1) {
        const uint32_t last = key[kElementItems - 1];
        parts.tail[blockIdx.x] = last == key[kElementItems] ? sum : Op::identity();
        parts.tail_key[blockIdx.x] = last;
    }
}

// A warp a tile. Where the tile has a head, joins the tails before it that belong to the same run.
template <class Op, class T>
__global__ void __launch_bounds__(kElementThreads)
    join_elements_kernel(int64_t tiles, uint32_t sentinel, T* out, ElementParts<compute_t<T>> parts) {
    using C = compute_t<T>;
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
    C sum = Op::identity();
#pragma unroll 4
    for (int64_t t = low + lane; t < tile; t += 32) sum = Op::combine(sum, parts.tail[t]);
    for (int distance = 16; distance > 0; distance /= 2) sum = Op::combine(sum, __shfl_xor_sync(0xffffffffu, sum, distance));
    if (lane == 0) out[key] = narrow<T>(Op::combine(widen(out[key]), Op::combine(sum, parts.head[tile])));
}

// `origin` is where the pairs' values begin in the walk.
template <class Op, class T, class Index>
Status combine_elements(const Launch& launch, const SortedElements& pairs, const Walk<1, Index>& from, int64_t origin,
                        const T* updates, T* out, const ElementParts<compute_t<T>>& parts) {
    const int64_t tiles = ceil_div<int64_t>(pairs.count, kElementTile);
    const Grid grid{dim3(static_cast<unsigned>(tiles)), dim3(kElementThreads)};
    BK_TRY(launch_kernel(launch, grid, combine_elements_kernel<Op, T, Index>, pairs, from, origin, updates, out, parts));
    if (tiles == 1) return Status::kOk;
    const Grid join{dim3(static_cast<unsigned>(ceil_div<int64_t>(tiles, kElementThreads / 32))), dim3(kElementThreads)};
    return launch_kernel(launch, join, join_elements_kernel<Op, T>, tiles, pairs.sentinel, out, parts);
}

}  // namespace bk
