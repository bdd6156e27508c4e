// SPDX-License-Identifier: Apache-2.0
// Few results of rows of any length in one pass: a block keeps candidates in shared memory and the threshold that they
// imply.
//
// The first elements fill the buffer. When it is full, a radix select keeps the best `count` items, the last of which is the
// new threshold; elements that are not before it are not candidates. Of n elements in random order k ln(n / k) are, so that
// nearly all are read, compared and dropped. Items are ordered by key and index, whatever their order in the buffer, so that
// the result is unique. An order that makes every element a candidate costs a selection every kStreamItems - k elements.
#pragma once

#include <cstdint>

#include "core/collectives/shuffle.cuh"
#include "core/platform.h"
#include "core/topk/merge_exchange.cuh"
#include "core/topk/top_k_rows.cuh"
#include "core/types/vec.h"

namespace bk {

constexpr int kStreamThreads = 512, kStreamBins = 256;
constexpr int kStreamBytes = 16;  // of elements that a thread reads together
template <class Bits>
constexpr int kStreamLanes = kStreamBytes / static_cast<int>(sizeof(Bits));
template <class Bits>
constexpr int kStreamUnroll = sizeof(Bits) >= 4 ? 2 : 1;  // vectors of a thread in a tile
template <class Bits>
constexpr int kStreamTile = kStreamThreads * kStreamLanes<Bits> * kStreamUnroll<Bits>;
// Items of the buffer, 32 KiB; with more results than half of them few elements fit between two selections.
template <class Bits>
constexpr int kStreamItems = 32768 / static_cast<int>(sizeof(RankedItem<Bits>));
template <class Bits>
constexpr int kStreamResults = kStreamItems<Bits> / 2;

template <class Bits>
struct StreamShared {
    RankedItem<Bits> item[kStreamItems<Bits>];
    uint32_t count[kStreamBins];
    uint32_t warp_total[kStreamThreads / 32];
    RankedItem<Bits> last;  // the threshold
    int held;               // items, and those that found no slots
    int valid;              // the first slot of which that is so
    int kept, bin, below, in_bin;
};

// Digit of 8 bits of an item: those of the key, then those of the index.
template <class Bits>
BK_DEVICE uint32_t item_digit(const RankedItem<Bits>& item, int digit) {
    constexpr int kKeyDigits = sizeof(Bits);
    const uint64_t key = item.key();
    return digit < kKeyDigits ? static_cast<uint32_t>(key >> 8 * (kKeyDigits - 1 - digit)) & 255
                              : item.index() >> 8 * (kKeyDigits + 3 - digit) & 255;
}

// Keeps the best `count` of the buffer's items, in no order, and sets the threshold. All threads of the block call it.
template <class Bits>
BK_DEVICE_COLD void keep_best(StreamShared<Bits>& shared, int count) {
    constexpr int kDigits = sizeof(Bits) + 4, kEach = kStreamItems<Bits> / kStreamThreads;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32,
              held = shared.held < shared.valid ? shared.held : shared.valid;
    if (thread == 0) shared.kept = 0;
    RankedItem<Bits> item[kEach];
    uint32_t state = 0;  // two bits an item: 1 undecided, 2 kept
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        const int at = thread + k * kStreamThreads;
        if (at >= held) continue;
        item[k] = shared.item[at];
        state |= (count >= held ? 2u : 1u) << 2 * k;
    }
    int wanted = count;
    for (int digit = 0; digit < kDigits && count < held; ++digit) {
        if (thread < kStreamBins) shared.count[thread] = 0;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kEach; ++k)
            if ((state >> 2 * k & 3) == 1) atomicAdd(&shared.count[item_digit(item[k], digit)], 1u);
        __syncthreads();
        uint32_t own = 0, through = 0;
        if (warp < kStreamBins / 32) {
            own = through = shared.count[thread];
#pragma unroll
            for (int distance = 1; distance < 32; distance *= 2) {
                const uint32_t lower = __shfl_up_sync(0xffffffffu, through, distance);
                if (lane >= distance) through += lower;
            }
            if (lane == 31) shared.warp_total[warp] = through;
        }
        __syncthreads();
        if (warp < kStreamBins / 32) {
            for (int w = 0; w < warp; ++w) through += shared.warp_total[w];
            if (static_cast<int>(through - own) < wanted && static_cast<int>(through) >= wanted) {
                shared.bin = thread;
                shared.below = static_cast<int>(through - own);
                shared.in_bin = static_cast<int>(own);
            }
        }
        __syncthreads();
        const uint32_t bin = static_cast<uint32_t>(shared.bin);
        wanted -= shared.below;
        const bool takes_bin = wanted == shared.in_bin;
#pragma unroll
        for (int k = 0; k < kEach; ++k) {
            if ((state >> 2 * k & 3) != 1) continue;
            const uint32_t own_digit = item_digit(item[k], digit);
            if (own_digit < bin || (own_digit == bin && takes_bin))
                state ^= 3u << 2 * k;
            else if (own_digit > bin)
                state ^= 1u << 2 * k;
        }
        if (takes_bin) break;
    }
    __syncthreads();
    RankedItem<Bits> last = RankedItem<Bits>::of(Bits{0}, 0);
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        if ((state >> 2 * k & 3) != 2) continue;
        shared.item[atomicAdd(&shared.kept, 1)] = item[k];
        if (last < item[k]) last = item[k];
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        const RankedItem<Bits> other = shuffle_xor(last, distance);
        if (last < other) last = other;
    }
    __syncthreads();
    // One warp after another raises the threshold.
    if (thread == 0) shared.last = last;
    __syncthreads();
    for (int w = 1; w < kStreamThreads / 32; ++w) {
        if (warp == w && lane == 0 && shared.last < last) shared.last = last;
        __syncthreads();
    }
    if (thread == 0) {
        shared.held = shared.kept;
        shared.valid = kStreamItems<Bits>;
    }
    __syncthreads();
}

// The elements of a thread in one tile, as keys.
template <class Bits>
struct StreamTile {
    static constexpr int kLanes = kStreamLanes<Bits>, kVectors = kStreamUnroll<Bits>, kItems = kLanes * kVectors;
    Bits bits[kItems];

    // Index in the row of element i.
    static BK_DEVICE int64_t index(int64_t first, int i) {
        return first + (i / kLanes * kStreamThreads + static_cast<int>(threadIdx.x)) * int64_t{kLanes} + i % kLanes;
    }
    BK_DEVICE void load(const DeviceRow<Bits>& row, int64_t first, bool has_vectors) {
        if (has_vectors && first + kStreamTile<Bits> <= row.length) {
#pragma unroll
            for (int v = 0; v < kVectors; ++v) {
                const Vec<Bits, kLanes> vector = bk::load<kLanes>(row.x + index(first, v * kLanes));
#pragma unroll
                for (int k = 0; k < kLanes; ++k) bits[v * kLanes + k] = vector.lane[k];
            }
        } else {
#pragma unroll
            for (int i = 0; i < kItems; ++i) {
                const int64_t at = index(first, i);
                bits[i] = at < row.length ? row.element(at) : Bits{0};
            }
        }
    }
};

template <class Bits>
__global__ void __launch_bounds__(kStreamThreads, 2) top_k_stream_kernel(const __grid_constant__ RowTable<Bits> table) {
    using Tile = StreamTile<Bits>;
    using Item = RankedItem<Bits>;
    constexpr int kItems = Tile::kItems, kCapacity = kStreamItems<Bits>;
    BK_LAUNCH_SHARED(uint4, memory);
    StreamShared<Bits>& shared = *reinterpret_cast<StreamShared<Bits>*>(memory);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
    for (int64_t r = blockIdx.x; r < table.rows; r += gridDim.x) {
        const DeviceRow<Bits> row(table, r);
        const int count = static_cast<int>(row.length < table.results ? row.length : table.results);
        for (int64_t k = count + thread; k < table.results; k += kStreamThreads) row.set(k, table.padding, -1);
        if (count == 0) continue;
        const bool has_vectors = row.step == 1 && reinterpret_cast<uintptr_t>(row.x) % kStreamBytes == 0;
        if (thread == 0) {
            shared.held = 0;
            shared.valid = kCapacity;
            shared.last = Item::of(KeyOrder<Bits>::kAll, 0xffffffffu);
        }
        __syncthreads();
        Item last = shared.last;
        Tile next;
        next.load(row, 0, has_vectors);
        for (int64_t first = 0; first < row.length; first += kStreamTile<Bits>) {
            const Tile tile = next;
            if (first + kStreamTile<Bits> < row.length) next.load(row, first + kStreamTile<Bits>, has_vectors);
            uint32_t waiting = 0;  // a bit for each element that is a candidate
#pragma unroll
            for (int i = 0; i < kItems; ++i) {
                const int64_t at = Tile::index(first, i);
                const Item item = Item::of(row.order(tile.bits[i]), static_cast<uint32_t>(at));
                waiting |= static_cast<uint32_t>(at < row.length && !(last < item)) << i;
            }
            for (;;) {
                // A warp that has candidates takes slots for all of them, or waits for a selection.
                const uint32_t own = static_cast<uint32_t>(__popc(waiting));
                if (__any_sync(0xffffffffu, own > 0)) {
                    uint32_t through = own;
#pragma unroll
                    for (int distance = 1; distance < 32; distance *= 2) {
                        const uint32_t lower = __shfl_up_sync(0xffffffffu, through, distance);
                        if (lane >= distance) through += lower;
                    }
                    const int all = static_cast<int>(__shfl_sync(0xffffffffu, through, 31));
                    int from = 0;
                    if (lane == 0) {
                        from = atomicAdd(&shared.held, all);
                        if (from + all > kCapacity) atomicMin(&shared.valid, from);  // later ones find no slots either
                    }
                    from = __shfl_sync(0xffffffffu, from, 0);
                    if (from + all <= kCapacity) {
                        int to = from + static_cast<int>(through - own);
#pragma unroll
                        for (int i = 0; i < kItems; ++i)
                            if (waiting >> i & 1)
                                shared.item[to++] =
                                    Item::of(row.order(tile.bits[i]), static_cast<uint32_t>(Tile::index(first, i)));
                        waiting = 0;
                    }
                }
                if (!__syncthreads_or(waiting != 0)) break;
                keep_best(shared, count);
                last = shared.last;
#pragma unroll
                for (int i = 0; i < kItems; ++i) {
                    const Item item = Item::of(row.order(tile.bits[i]), static_cast<uint32_t>(Tile::index(first, i)));
                    if (last < item) waiting &= ~(1u << i);
                }
            }
        }
        keep_best(shared, count);
        if (table.is_sorted) {
            merge_exchange(count, [&](int a, int b) {
                const Item low = shared.item[a], high = shared.item[b];
                if (low < high) return;
                shared.item[a] = high;
                shared.item[b] = low;
            });
        } else {
            merge_exchange(count, [&](int a, int b) {
                const Item low = shared.item[a], high = shared.item[b];
                if (low.index() < high.index()) return;
                shared.item[a] = high;
                shared.item[b] = low;
            });
        }
        for (int k = thread; k < count; k += kStreamThreads) {
            const int64_t i = shared.item[k].index();
            row.set(k, row.element(i), i);
        }
        __syncthreads();
    }
}

// Whether rows are short enough for 32-bit indices, and few results wanted.
template <class Bits>
bool streams(const RowTable<Bits>& table) {
    return table.results <= kStreamResults<Bits> && table.length < int64_t{1} << 32;
}

template <class Bits>
Status top_k_by_streams(const Launch& launch, const RowTable<Bits>& table) {
    const int64_t blocks = table.rows < kMaxGridX ? table.rows : kMaxGridX;
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kStreamThreads), 1, sizeof(StreamShared<Bits>)},
                         top_k_stream_kernel<Bits>, table);
}

}  // namespace bk
