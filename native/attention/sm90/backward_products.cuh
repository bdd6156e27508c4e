// SPDX-License-Identifier: Apache-2.0
// Products of a warpgroup of Hopper backward attention, and what surrounds them: masks, roundings and stores.
#pragma once

#include <cstdint>

#include "attention/sm90/backward_tile.cuh"
#include "attention/sm90/softmax_tile.cuh"
#include "core/intrinsics/tma.cuh"

namespace bk {

// sums = K Q^T of a warpgroup's 64 keys, asynchronously; keys and queries are K-major.
template <class T, class Tile, int kD>
BK_DEVICE void start_product(float (&sums)[Tile::kRows / 2], uint32_t keys, uint32_t queries) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kD / 16; ++step)
        Wgmma<T, Tile::kRows>::template run<false, false>(
            sums, smem_descriptor(keys + step / 4 * (Tile::kKeys * kSwizzleBytes) + step % 4 * 32, 0),
            smem_descriptor(queries + step / 4 * (Tile::kRows * kSwizzleBytes) + step % 4 * 32, 0), step > 0);
    wgmma_commit();
}

// sums += weights times the rows of a tile of queries, asynchronously.
template <class T, class Tile, int kD>
BK_DEVICE void start_sum(float (&sums)[kD / 2], const uint32_t (&weights)[Tile::kRows / 4], uint32_t rows) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < Tile::kRows / 16; ++step) {
        const uint32_t a[4] = {weights[4 * step], weights[4 * step + 1], weights[4 * step + 2], weights[4 * step + 3]};
        WgmmaRs<T, kD>::template run<true>(sums, a,
                                           smem_descriptor(rows + step * (16 * kSwizzleBytes), Tile::kRows * kSwizzleBytes), 1);
    }
    wgmma_commit();
}

// A segment of dQ of 64 queries, sums = dS K, asynchronously; both operands are MN-major.
template <class T, class Tile>
BK_DEVICE void start_dq(float (&sums)[Tile::kDqColumns / 2], uint32_t ds, uint32_t keys) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < Tile::kKeys / 16; ++step)
        Wgmma<T, Tile::kDqColumns>::template run<true, true>(
            sums, smem_descriptor(ds + step * (16 * kSwizzleBytes), Tile::kKeys * kSwizzleBytes),
            smem_descriptor(keys + step * (16 * kSwizzleBytes), Tile::kKeys * kSwizzleBytes), step > 0);
    wgmma_commit();
}

// Hides where an address comes from: descriptors are computed at each use rather than kept in registers.
BK_DEVICE uint32_t recomputed(uint32_t address) {
    asm volatile("" : "+r"(address));
    return address;
}

// Both values of a pair of T.
template <class T>
BK_DEVICE float2 unpack_pair(uint32_t pair);
template <>
BK_DEVICE float2 unpack_pair<bf16>(uint32_t pair) {
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}
template <>
BK_DEVICE float2 unpack_pair<f16>(uint32_t pair) {
    float2 values;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
        : "=f"(values.x), "=f"(values.y)
        : "r"(pair));
    return values;
}

// Stores four 8 x 8 matrices of 16-bit elements; lanes 8i to 8i + 7 point to the rows of matrix i.
BK_DEVICE void stmatrix_x4(uint32_t row, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

BK_DEVICE void store_shared(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
BK_DEVICE void store_shared(uint32_t to, float a, float b, float c, float d) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

// A warpgroup's segments of dQ of a step: from dS and K to its buffer in shared memory.
template <class T, class Tile>
struct DqSegments {
    static constexpr int kBoxBytes = Tile::kKeys * kSwizzleBytes;
    const BackwardMemory<Tile>& memory;
    int warpgroup, lane;
    uint32_t ds, k, buffer;  // where the operands of the first segment and this thread's sums are

    BK_DEVICE DqSegments(const BackwardMemory<Tile>& block, int warpgroup_of, int thread)
        : memory(block),
          warpgroup(warpgroup_of),
          lane(thread % 32),
          ds(shared_address(block.ds) + static_cast<uint32_t>(Tile::kSplitsRows ? warpgroup_of * kBoxBytes : 0)),
          k(shared_address(block.k) +
            static_cast<uint32_t>(Tile::kSplitsRows ? 0 : Tile::first_segment_of(warpgroup_of) * kBoxBytes)),
          buffer(shared_address(block.dq) + static_cast<uint32_t>(warpgroup_of * Tile::kSegmentBytes + thread * 16)) {}

    BK_DEVICE void start(float (&sums)[Tile::kDqColumns / 2], int step, int segment) const {
        if (segment == 0) wait_for_phase(memory.ds_full, step % 2);
        start_dq<T, Tile>(sums, recomputed(ds) + static_cast<uint32_t>(step % 2 * Tile::kDsBytes),
                          recomputed(k) + static_cast<uint32_t>(segment * kBoxBytes));
    }

    // Waits until the segment that was in the buffer has been read. Two rounds of steps later the parity is the same, and that
    // of steps before the first lets all pass.
    BK_DEVICE void wait_for_buffer(int step, int segment) const {
        const int last_step = segment > 0 ? step : step + 2 * Tile::kAdders - Tile::kDqBuffers;
        const int last = (segment > 0 ? segment : Tile::segments_of(warpgroup)) - 1;
        wait_for_phase(memory.dq_empty + memory.segment_barrier(last_step % Tile::kAdders, warpgroup),
                       memory.segment_phase(last_step, warpgroup, last) % 2);
    }

    BK_DEVICE void store(const float (&sums)[Tile::kDqColumns / 2], int step, int segment) const {
        wait_for_buffer(step, segment);
        const uint32_t to = buffer + static_cast<uint32_t>(step % Tile::kDqBuffers * Tile::kDqBytes);
#pragma unroll
        for (int i = 0; i < Tile::kDqColumns / 8; ++i)
            if (i < Tile::octets_of(Tile::kSegments - 1) || i < Tile::octets_of(Tile::first_segment_of(warpgroup) + segment))
                store_shared(to + static_cast<uint32_t>(i * kWarpgroup * 16), sums[4 * i], sums[4 * i + 1], sums[4 * i + 2],
                             sums[4 * i + 3]);
        fence_async_proxy();
        __syncwarp();
        if (lane == 0) arrive(memory.dq_full + memory.segment_barrier(step % Tile::kAdders, warpgroup));
    }
};

// Zeroes the rows of a tile from `rows` on: they belong to another sequence, and 0 x NaN would be NaN.
template <int kTileRows, int kBoxes>
BK_DEVICE void zero_tail(char* tile, int rows, int thread, int warpgroup) {
    constexpr int kWords = kSwizzleBytes / 16;
    const int count = (kTileRows - rows) * kWords;
    for (int box = 0; box < kBoxes; ++box)
        for (int i = thread; i < count; i += kWarpgroup)
            reinterpret_cast<uint4*>(tile + box * (kTileRows * kSwizzleBytes))[rows * kWords + i] = make_uint4(0, 0, 0, 0);
    fence_async_proxy();
    sync_warpgroup(warpgroup);
}

// Visibility of the queries of a step to a warpgroup's keys.
struct KeyBand {
    int warpgroup_key, key;  // the warpgroup's and this thread's first keys, less the band's shift
    int keys_left;           // of the sequence, from this thread's first key on
    int left, right;

    // Whether some key of the warpgroup is hidden from some of the queries [first, first + count).
    BK_DEVICE bool has_edge(int first, int count, int warpgroup_keys_left) const {
        return warpgroup_key + (kWarpgroupRows - 1) - first > right || first + count - 1 - warpgroup_key > left ||
               warpgroup_keys_left < kWarpgroupRows;
    }
    template <int kCount>
    BK_DEVICE void mask(float (&scores)[kCount], int first_column) const {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int high = key + 8 * r + left - first_column;
            const int low = 8 * r < keys_left ? key + 8 * r - right - first_column : kCount * 4;
#pragma unroll
            for (int v = 2 * r; v < kCount; v += 4)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const int query = v / 4 * 8 + e;
                    if (query > high || query < low) scores[v + e] = -INFINITY;
                }
        }
    }
};

// Stores a warpgroup's rows of dK or dV.
template <class T, int kD>
BK_DEVICE void store_keys(const HeadsView<T>& to, const float (&sums)[kD / 2], int64_t b, int64_t head, int64_t row,
                          int64_t end, float factor, int d, int lane) {
    if (to.data == nullptr) return;
#pragma unroll
    for (int r = 0; r < 2; ++r)
        store_output<T, kD>(row + 8 * r < end ? to.at(b, head, row + 8 * r) : nullptr, sums, r, factor, d, lane);
}

}  // namespace bk
