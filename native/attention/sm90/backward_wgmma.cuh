// SPDX-License-Identifier: Apache-2.0
// Backward attention on Hopper, after FlashAttention-3 (Shah et al. 2024): with P = 2^(score - lse) and delta = rowsum(dy y)
// of the prologue, dV = P^T dY, dS = P (dY V^T - delta), dK = scale dS^T Q, dQ = scale dS K. sm_90a alone.
//
// Blocks of a producer warpgroup and two consumer warpgroups take tiles of keys from a counter. A warpgroup keeps dK and dV
// of its 64 keys in registers while queries of all heads of the group go by, last queries first. It multiplies transposed:
// S^T = K Q^T and dP^T = V dY^T, so that P^T and dS^T are A fragments of dV and dK; dS^T goes to shared memory as well, where
// both warpgroups read it as the transposed A of dQ. Products run under the arithmetic of other steps: dP and dK of the step
// before under the exponentials, dV and dQ of the step before under dS, and S of the next step and dK under the copy of dQ.
//
// A warp of the producer adds dQ in f32 to global memory. The sums of a tile of queries are added in the order of the keys,
// which a semaphore keeps; a block waits only for tiles that were taken from the counter before its own, so that one of
// them always goes on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "attention/sm90/backward_rows.cuh"
#include "attention/sm90/backward_tile.cuh"
#include "attention/sm90/softmax_tile.cuh"
#include "core/intrinsics/pipeline_state.cuh"
#include "core/intrinsics/tma.cuh"

namespace bk {

// Loads what the consumers multiply.
template <class T, class Tile>
BK_DEVICE void load_operands(const BackwardWgmma<T>& g, const BackwardMemory<Tile>& memory) {
    constexpr int kRows = Tile::kRows, kKeys = Tile::kKeys;
    const AttentionForward<T>& f = g.p.forward;
    const BackwardMaps& maps = g.maps;
    const int group = static_cast<int>(f.heads / f.kv_heads);
    PipelineState slots, queries, outputs;
    int kv_parity = 1;
    for (;;) {
        const int number = atomicAdd(g.scratch.counter, 1);
        wait_for_phase(memory.tile_empty + slots.stage, slots.parity ^ 1);
        memory.tiles[slots.stage] = number;
        arrive(memory.tile_full + slots.stage);
        slots.advance(Tile::kTileSlots);
        if (number >= g.order.count) break;
        const KeyTile<Tile> tile(g, number);
        const int first_tile = first_query_tile(g, tile.s, tile.batch, kRows), begin = static_cast<int>(tile.s.q_begin);
        bool has_keys = false;
        for (int head = tile.kv_head * group; head < (tile.kv_head + 1) * group; ++head)
            for (int t = tile.end - 1; t >= tile.first; --t) {
                uint64_t* const q_full = memory.q_full + queries.stage;
                wait_for_phase(memory.q_empty + queries.stage, queries.parity ^ 1);
                arrive_expecting(q_full, Tile::kQBytes + Tile::kStatisticsBytes);
                for (int box = 0; box < Tile::kQBoxes; ++box)
                    tma_load(memory.q + queries.stage * Tile::kQBytes + box * (kRows * kSwizzleBytes), maps.q,
                             box * kBoxElements, begin + t * kRows, head * maps.q_head, tile.batch * maps.q_batch, q_full);
                bulk_load(memory.statistics + queries.stage * (2 * kRows),
                          g.scratch.statistics + (head * g.scratch.q_tiles + first_tile + t) * (2 * kRows),
                          Tile::kStatisticsBytes, q_full);
                queries.advance(Tile::kQStages);
                if (!has_keys) {
                    const int key = static_cast<int>(tile.s.k_begin) + tile.index * kKeys;
                    has_keys = true;
                    wait_for_phase(memory.kv_empty, kv_parity);
                    kv_parity ^= 1;
                    arrive_expecting(memory.k_full, Tile::kKBytes);
                    for (int box = 0; box < Tile::kQBoxes; ++box)
                        tma_load(memory.k + box * (kKeys * kSwizzleBytes), maps.k, box * kBoxElements, key,
                                 tile.kv_head * maps.k_head, tile.batch * maps.k_batch, memory.k_full);
                    arrive_expecting(memory.v_full, Tile::kVBytes);
                    for (int box = 0; box < Tile::kVBoxes; ++box)
                        tma_load(memory.v + box * (kKeys * kSwizzleBytes), maps.v, box * kBoxElements, key,
                                 tile.kv_head * maps.v_head, tile.batch * maps.v_batch, memory.v_full);
                }
                uint64_t* const dy_full = memory.dy_full + outputs.stage;
                wait_for_phase(memory.dy_empty + outputs.stage, outputs.parity ^ 1);
                arrive_expecting(dy_full, Tile::kDyBytes);
                for (int box = 0; box < Tile::kVBoxes; ++box)
                    tma_load(memory.dy + outputs.stage * Tile::kDyBytes + box * (kRows * kSwizzleBytes), maps.dy,
                             box * kBoxElements, begin + t * kRows, head * maps.dy_head, tile.batch * maps.dy_batch, dy_full);
                outputs.advance(Tile::kDyStages);
            }
    }
}

BK_DEVICE int load_acquire(const int* from) {
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}
BK_DEVICE void store_release(int* to, int value) {
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
BK_DEVICE void fence_all_proxies() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Adds the consumers' dQ to global memory.
template <class T, class Tile>
BK_DEVICE void add_queries(const BackwardWgmma<T>& g, const BackwardMemory<Tile>& memory) {
    constexpr int kRows = Tile::kRows, kConsumers = Tile::kConsumers;
    const AttentionForward<T>& f = g.p.forward;
    const int group = static_cast<int>(f.heads / f.kv_heads);
    PipelineState slots, sums;
    for (;;) {
        wait_for_phase(memory.tile_full + slots.stage, slots.parity);
        const int number = *static_cast<volatile int*>(memory.tiles + slots.stage);
        arrive(memory.tile_empty + slots.stage);
        slots.advance(Tile::kTileSlots);
        if (number >= g.order.count) break;
        const KeyTile<Tile> tile(g, number);
        const int shift = static_cast<int>(band_shift(f.rules.band, tile.s));
        const int first_tile = first_query_tile(g, tile.s, tile.batch, kRows);
        for (int head = tile.kv_head * group; head < (tile.kv_head + 1) * group; ++head)
            for (int t = tile.end - 1; t >= tile.first; --t) {
                const int64_t at = head * g.scratch.q_tiles + first_tile + t;
                float* const dq = g.scratch.dq + at * (kRows * Tile::kDk);
                // Tiles of keys before this one that these queries see.
                const int before = tile.index - max(t * kRows + shift - g.left, 0) / Tile::kKeys;
                const bool is_first = g.is_ordered && before == 0;
#pragma unroll
                for (int w = 0; w < kConsumers; ++w) {
                    wait_for_phase(memory.dq_full + w, sums.parity);
                    if (w == 0 && g.is_ordered && before > 0) {
                        while (load_acquire(g.scratch.semaphores + at) != before) {
                        }
                        fence_all_proxies();
                    }
                    const char* const from = memory.dq + w * Tile::kDqPartBytes;
                    if (is_first)
                        bulk_store(dq + w * Tile::kDqPart, from, Tile::kDqPartBytes);
                    else
                        bulk_add(dq + w * Tile::kDqPart, from, Tile::kDqPartBytes);
                    end_store_group();
                }
                wait_for_store_reads<0>();
#pragma unroll
                for (int w = 0; w < kConsumers; ++w) arrive(memory.dq_empty + w);
                sums.advance(1);
                if (g.is_ordered) {
                    wait_for_stores<0>();
                    fence_all_proxies();
                    store_release(g.scratch.semaphores + at, before + 1);
                }
            }
    }
    wait_for_stores<0>();
}

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

// sums = dS K, asynchronously; both operands are MN-major.
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

BK_DEVICE void store_shared(uint32_t to, float a, float b, float c, float d) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

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

template <class T, class Tile>
BK_DEVICE void consume(const BackwardWgmma<T>& g, const BackwardMemory<Tile>& memory) {
    constexpr int kRows = Tile::kRows, kKeys = Tile::kKeys, kSlots = Tile::kTileSlots;
    const AttentionForward<T>& f = g.p.forward;
    const int thread = static_cast<int>(threadIdx.x) % kWarpgroup, lane = thread % 32;
    const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
    const int key_in_tile = warpgroup * kWarpgroupRows + thread / 32 * 16 + lane / 4;
    const float log2_scale = f.rules.scale * kLog2E;
    const uint32_t k = shared_address(memory.k), q = shared_address(memory.q), dy = shared_address(memory.dy);
    const uint32_t own_k = k + static_cast<uint32_t>(warpgroup * (kWarpgroupRows * kSwizzleBytes));
    const uint32_t own_v = shared_address(memory.v) + static_cast<uint32_t>(warpgroup * (kWarpgroupRows * kSwizzleBytes));
    // Operands of this warpgroup's part of dQ.
    const uint32_t ds = shared_address(memory.ds);
    const uint32_t part_of_ds = ds + static_cast<uint32_t>(Tile::kSplitsRows ? warpgroup * (kKeys * kSwizzleBytes) : 0);
    const uint32_t part_of_k =
        k +
        static_cast<uint32_t>(Tile::kSplitsRows ? 0 : warpgroup * (Tile::kDqColumns / kBoxElements * kKeys * kSwizzleBytes));
    // Where this thread's row of the matrices of stmatrix is: rows of 64 queries, their 16 bytes exchanged by the swizzle.
    const int matrix_row = warpgroup * kWarpgroupRows + thread / 32 * 16 + lane / 8 % 2 * 8 + lane % 8;
    const uint32_t ds_row = ds + static_cast<uint32_t>(matrix_row * kSwizzleBytes + ((lane / 16 ^ lane % 8) * 16));
    const uint32_t dq_at = shared_address(memory.dq) + static_cast<uint32_t>(warpgroup * Tile::kDqPartBytes + thread * 16);
    const auto release = [&](uint64_t* barrier) {
        if (lane == 0) arrive(barrier);
    };
    int count = 0, kv_parity = 0;  // steps so far; a stage is full for every second of them
    for (int tile_count = 0;; ++tile_count) {
        wait_for_phase(memory.tile_full + tile_count % kSlots, tile_count / kSlots % 2);
        const int number = *static_cast<volatile int*>(memory.tiles + tile_count % kSlots);
        if (number >= g.order.count) break;
        float dk[Tile::kDk / 2], dv[Tile::kDv / 2];
#pragma unroll
        for (int v = 0; v < Tile::kDk / 2; ++v) dk[v] = 0;
#pragma unroll
        for (int v = 0; v < Tile::kDv / 2; ++v) dv[v] = 0;
        const KeyTile<Tile> tile(g, number);
        const int steps = (tile.end - tile.first) * static_cast<int>(f.heads / f.kv_heads);
        if (steps > 0) {
            const int shift = static_cast<int>(band_shift(f.rules.band, tile.s)), q_len = static_cast<int>(tile.s.q_len);
            const int keys_left = static_cast<int>(tile.s.k_len) - tile.index * kKeys;
            const KeyBand band{tile.index * kKeys + warpgroup * kWarpgroupRows - shift,
                               tile.index * kKeys + key_in_tile - shift, keys_left - key_in_tile, g.left, g.right};
            const bool has_neighbour = tile.s.q_begin + q_len < f.lengths.total_q;
            float scores[kRows / 2], dp[kRows / 2], dq[Tile::kDqColumns / 2];
            uint32_t p[kRows / 4], ds[kRows / 4];
            int t = tile.end - 1;  // the tile of queries
            const auto start_last_dq = [&] {
                wait_for_phase(memory.ds_full, (count - 1) % 2);
                start_dq<T, Tile>(dq, part_of_ds + static_cast<uint32_t>((count - 1) % 2 * Tile::kDsBytes), part_of_k);
            };
            const auto store_last_dq = [&] {
                wait_for_phase(memory.dq_empty + warpgroup, count % 2);
#pragma unroll
                for (int i = 0; i < Tile::kDqColumns / 8; ++i)
                    store_shared(dq_at + static_cast<uint32_t>(i * kWarpgroup * 16), dq[4 * i], dq[4 * i + 1], dq[4 * i + 2],
                                 dq[4 * i + 3]);
                fence_async_proxy();
                __syncwarp();
                release(memory.dq_full + warpgroup);
            };
            // A step along the queries, and dQ of the step before.
            const auto run_step = [&](auto has_last) {
                constexpr bool kHasLast = decltype(has_last)::value;
                const int row = t * kRows, stage = count % 2, parity = count / 2 % 2;
                const bool has_tail = has_neighbour && row + kRows > q_len;
                const uint32_t q_at = q + static_cast<uint32_t>(stage * Tile::kQBytes);
                const uint32_t dy_at = dy + static_cast<uint32_t>(stage * Tile::kDyBytes);
                const float2* const statistics =
                    reinterpret_cast<const float2*>(memory.statistics + stage * (2 * kRows)) + lane % 4;
                if constexpr (kHasLast) start_last_dq();
                wait_for_phase(memory.q_full + stage, parity);
                if (has_tail) zero_tail<kRows, Tile::kQBoxes>(memory.q + stage * Tile::kQBytes, q_len - row, thread, warpgroup);
                start_product<T, Tile, Tile::kDk>(scores, own_k, q_at);
                if constexpr (kHasLast) {
                    wgmma_wait<1>();
                    keep_order(dq);
                    store_last_dq();
                }
                wait_for_phase(memory.dy_full + stage, parity);
                if (has_tail)
                    zero_tail<kRows, Tile::kVBoxes>(memory.dy + stage * Tile::kDyBytes, q_len - row, thread, warpgroup);
                start_product<T, Tile, Tile::kDv>(dp, own_v, dy_at);
                wgmma_wait<1>();
                keep_order(scores);
                if (band.has_edge(row, kRows, keys_left - warpgroup * kWarpgroupRows)) band.mask(scores, row + lane % 4 * 2);
#pragma unroll
                for (int i = 0; i < kRows / 8; ++i) {
                    const float2 lse = statistics[4 * i];
#pragma unroll
                    for (int r = 0; r < 2; ++r) {
                        const int v = 4 * i + 2 * r;
                        p[2 * i + r] = pack_pair<T>(exp2_approx(fmaf(scores[v], log2_scale, -lse.x)),
                                                    exp2_approx(fmaf(scores[v + 1], log2_scale, -lse.y)));
                    }
                }
                start_sum<T, Tile, Tile::kDv>(dv, p, dy_at);
                wgmma_wait<1>();
                keep_order(dp);
#pragma unroll
                for (int i = 0; i < kRows / 8; ++i) {
                    const float2 delta = statistics[kRows / 2 + 4 * i];
#pragma unroll
                    for (int r = 0; r < 2; ++r) {
                        const int v = 4 * i + 2 * r;
                        const float2 weight = unpack_pair<T>(p[2 * i + r]);
                        ds[2 * i + r] = pack_pair<T>(weight.x * (dp[v] - delta.x), weight.y * (dp[v + 1] - delta.y));
                    }
                }
                const uint32_t ds_at = ds_row + static_cast<uint32_t>(stage * Tile::kDsBytes);
#pragma unroll
                for (int i = 0; i < kRows / 16; ++i)
                    stmatrix_x4((ds_at + static_cast<uint32_t>(i / 4 * (kKeys * kSwizzleBytes))) ^ (i % 4 * 32u), ds[4 * i],
                                ds[4 * i + 1], ds[4 * i + 2], ds[4 * i + 3]);
                fence_async_proxy();
                __syncwarp();
                release(memory.ds_full);
                start_sum<T, Tile, Tile::kDk>(dk, ds, q_at);
                wgmma_wait<1>();
                keep_order(p);
                release(memory.dy_empty + stage);
                wgmma_wait<0>();
                keep_order(ds);
                keep_order(dv);
                keep_order(dk);
                release(memory.q_empty + stage);
                t = t > tile.first ? t - 1 : tile.end - 1;
                ++count;
            };
            wait_for_phase(memory.k_full, kv_parity);
            if (keys_left < kKeys) zero_tail<kKeys, Tile::kQBoxes>(memory.k, keys_left, thread, warpgroup);
            wait_for_phase(memory.v_full, kv_parity);
            if (keys_left < kKeys) zero_tail<kKeys, Tile::kVBoxes>(memory.v, keys_left, thread, warpgroup);
            kv_parity ^= 1;
            run_step(std::false_type());
#pragma unroll 1
            for (int left = steps - 1; left > 0; --left) run_step(std::true_type());
            start_last_dq();
            wgmma_wait<0>();
            keep_order(dq);
            release(memory.kv_empty);
            store_last_dq();
        }
        const KeyTile<Tile> stored(g, *static_cast<volatile int*>(memory.tiles + tile_count % kSlots));
        const int64_t key = int64_t{stored.index} * kKeys + key_in_tile;
        Lengths memory_lengths = f.lengths;  // keys behind k_lens have gradients of 0
        memory_lengths.k_lens = nullptr;
        const int64_t end = sequence_of(memory_lengths, stored.batch).k_len;
        store_keys<T, Tile::kDv>(g.p.dv, dv, stored.batch, stored.kv_head, stored.s.k_begin + key, stored.s.k_begin + end, 1.0f,
                                 static_cast<int>(f.d_v), lane);
        store_keys<T, Tile::kDk>(g.p.dk, dk, stored.batch, stored.kv_head, stored.s.k_begin + key, stored.s.k_begin + end,
                                 f.rules.scale, static_cast<int>(f.d_k), lane);
        __syncwarp();
        release(memory.tile_empty + tile_count % kSlots);
    }
}

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1) backward_kernel(const __grid_constant__ BackwardWgmma<T> g) {
    BK_LAUNCH_SHARED(uint4, shared_words);
    const BackwardMemory<Tile> memory(reinterpret_cast<char*>(shared_words));
    if (threadIdx.x == 0) memory.init();
    __syncthreads();
    if (threadIdx.x >= Tile::kConsumerThreads) {
        reg_dealloc<Tile::kProducerRegisters>();
        if (threadIdx.x == Tile::kConsumerThreads) load_operands<T, Tile>(g, memory);
        if (threadIdx.x == Tile::kConsumerThreads + 32) add_queries<T, Tile>(g, memory);
    } else {
        reg_alloc<Tile::kConsumerRegisters>();
        consume<T, Tile>(g, memory);
    }
}

template <class T, class Tile>
Status launch_backward(const Launch& launch, const AttentionBackward<T>& p, bool is_ordered, bool* is_taken) {
    const AttentionForward<T>& f = p.forward;
    const Lengths& lengths = f.lengths;
    BackwardWgmma<T> g{};
    g.p = p;
    const size_t needed = g.scratch.carve(launch.workspace, f);
    if (!workspace_holds(launch, needed)) return Status::kOk;
    const int64_t rows = lengths.q_offsets != nullptr ? lengths.total_q : lengths.q_len;
    const int64_t key_rows = lengths.k_offsets != nullptr ? lengths.total_k : lengths.k_len;
    BackwardMaps& maps = g.maps;
    if (!map_heads(&maps.q, &maps.q_batch, &maps.q_head, f.q, f.d_k, rows, f.heads, f.batch, Tile::kRows) ||
        !map_heads(&maps.dy, &maps.dy_batch, &maps.dy_head, p.dy, f.d_v, rows, f.heads, f.batch, Tile::kRows) ||
        !map_heads(&maps.k, &maps.k_batch, &maps.k_head, f.k, f.d_k, key_rows, f.kv_heads, f.batch, Tile::kKeys) ||
        !map_heads(&maps.v, &maps.v_batch, &maps.v_head, f.v, f.d_v, key_rows, f.kv_heads, f.batch, Tile::kKeys))
        return Status::kOk;
    const auto limit = [](int64_t distance) { return static_cast<int>(std::min<int64_t>(distance, 1 << 30)); };
    g.left = limit(f.rules.band.left);
    g.right = limit(f.rules.band.right);
    g.is_ordered = is_ordered;
    g.sequence_tiles = static_cast<int>(ceil_div<int64_t>(lengths.q_len, Tile::kRows));
    const int64_t group = f.heads / f.kv_heads;
    g.order = TileOrder::of(f.batch, f.kv_heads, 1, ceil_div<int64_t>(lengths.k_len, Tile::kKeys),
                            group * lengths.q_len * (f.d_k + f.d_v));
    *is_taken = true;
    BK_TRY((start_backward_rows<T, Tile>(launch, g)));
    if (!is_ordered)
        BK_TRY(fill_bytes(launch, g.scratch.dq, 0,
                          static_cast<size_t>(f.heads * g.scratch.q_tiles * Tile::kRows * Tile::kDk) * sizeof(float)));
    Grid grid{dim3(static_cast<unsigned>(std::min<int64_t>(g.order.count, device_sms()))), dim3(Tile::kThreads)};
    grid.shared = Tile::kShared;
    BK_TRY(launch_kernel(launch, grid, backward_kernel<T, Tile>, g));
    return start_convert_dq<T, Tile>(launch, g);
}

// Whether the kernels serve the problem at all.
template <class T>
bool suits_wgmma_backward(const AttentionBackward<T>& p) {
    const AttentionForward<T>& f = p.forward;
    const ScoreRules& rules = f.rules;
    const Lengths& lengths = f.lengths;
    constexpr int64_t kMostRows = 1 << 29, kFewestRows = 64, kMostTiles = 1 << 30;
    const BackwardExtents extents = backward_extents(f.d_k, f.d_v);
    if (extents.rows == 0 || f.d_k < 8 || f.d_v < 8 || f.batch < 1 || f.kv_heads < 1) return false;
    const bool is_served = lengths.page_ids == nullptr && f.weights.data == nullptr && rules.dropout.probability == 0 &&
                           p.dbias == nullptr && p.dsinks == nullptr && !has_general_rules(rules) && rules.band.left >= 0 &&
                           rules.band.right >= 0 && f.lse.data != nullptr && !f.lse.is_element && !f.lse.is_base2;
    const bool is_addressed = suits_tma(f.q, f.d_k) && suits_tma(f.k, f.d_k) && suits_tma(f.v, f.d_v) &&
                              suits_tma(p.y, f.d_v) && suits_tma(p.dy, f.d_v) && suits_tma(p.dq, f.d_k) &&
                              suits_tma(p.dk, f.d_k) && suits_tma(p.dv, f.d_v) && p.y.data != nullptr && p.dy.data != nullptr &&
                              f.q.row > 0 && f.k.row > 0 && f.v.row > 0 && p.dy.row > 0;
    return is_served && is_addressed && lengths.q_len >= kFewestRows && lengths.k_len > 0 && lengths.q_len < kMostRows &&
           lengths.k_len < kMostRows && lengths.total_q < kMostRows && lengths.total_k < kMostRows &&
           std::abs(rules.band.shift) < kMostRows &&
           f.batch * f.heads * ceil_div<int64_t>(std::max(lengths.q_len, lengths.k_len), kWarpgroupRows) < kMostTiles;
}

}  // namespace bk
