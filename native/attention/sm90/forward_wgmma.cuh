// SPDX-License-Identifier: Apache-2.0
// Forward attention on Hopper, after FlashAttention-3 (Shah et al. 2024). sm_90a alone.
//
// Persistent blocks of a producer warp and two or three consumer warpgroups take tiles from a counter of the workspace, or in
// a fixed order without one. The producer loads a tile of 64 queries for
// each warpgroup, then keys and values in two rings of stages, from the last keys to the first. Each warpgroup multiplies
// Q K^T of the next keys while it computes the softmax of the current ones, and P V with P in registers; an order barrier
// lets one warpgroup's products run under the other's softmax. Scores are f32, P is rounded to T, outputs accumulate in
// f32 and are rounded once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "attention/flash/scores.h"
#include "attention/sm80/rows.cuh"
#include "attention/sm90/forward_wgmma.h"
#include "attention/sm90/score_tile.cuh"
#include "attention/sm90/softmax_tile.cuh"
#include "attention/sm90/tile_order.h"
#include "core/abi/workspace.h"
#include "core/intrinsics/pipeline_state.cuh"
#include "core/intrinsics/tensor_map.h"
#include "core/intrinsics/tma.cuh"
#include "core/intrinsics/wgmma.cuh"

namespace bk {

constexpr int kWarpgroup = 128, kWarpgroupRows = 64, kBoxElements = 64;  // 128 bytes of a 16-bit type

// Extents of a tile: queries of all warpgroups, keys, and the padded head dimensions.
template <int kConsumersOf, int kKeysOf, int kDkOf, int kDvOf>
struct ForwardTile {
    static constexpr int kConsumers = kConsumersOf, kKeys = kKeysOf, kDk = kDkOf, kDv = kDvOf;
    static constexpr int kRows = kConsumers * kWarpgroupRows, kStages = 2;
    static constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
    static constexpr int kQBoxes = (kDk + kBoxElements - 1) / kBoxElements, kVBoxes = (kDv + kBoxElements - 1) / kBoxElements;
    static constexpr int kQBytes = kQBoxes * kRows * kSwizzleBytes, kKBytes = kQBoxes * kKeys * kSwizzleBytes;
    static constexpr int kVBytes = kVBoxes * kKeys * kSwizzleBytes;
    static constexpr int kTileSlots = 2, kBarriers = 2 + 4 * kStages + 2 * kTileSlots;
    static constexpr int kShared = kQBytes + kStages * (kKBytes + kVBytes) + kBarriers * 8 + kTileSlots * 4 + 1024;
    // Registers of a thread: together no more than the launch's, or setmaxnreg would wait for ever.
    static constexpr int kProducerRegisters = kConsumers == 2 ? 40 : 32, kConsumerRegisters = kConsumers == 2 ? 232 : 160;
    static_assert(kKeys % 16 == 0 && kDk % 16 == 0 && kDv % 16 == 0, "wgmma takes 16 elements along k");
    static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <= (kConsumers + 1) * (65536 / kThreads / 8 * 8),
                  "setmaxnreg takes from the block's registers");
    static_assert(kShared <= 227 << 10, "a block's shared memory");
};

struct ForwardMaps {
    TensorMap q, k, v;
    // Coordinates are multiplied by these: 0 along broadcast axes.
    int q_batch, q_head, k_batch, k_head, v_batch, v_head;
    int left, right;  // of the band
};

// Keys of a tile's queries, as numbers of key tiles.
struct KeyTiles {
    int first, end;
};

template <class Tile>
BK_DEVICE KeyTiles key_tiles_of(const ScoreRules& rules, const Sequence& s, int64_t row) {
    const int64_t last = row + Tile::kRows - 1 < s.q_len ? row + Tile::kRows - 1 : s.q_len - 1;
    const KeyRange keys = row < s.q_len ? keys_of_rows(rules.band, s, row, last) : KeyRange{0, 0};
    return {static_cast<int>(keys.first / Tile::kKeys), keys.end <= keys.first
                                                            ? static_cast<int>(keys.first / Tile::kKeys)
                                                            : static_cast<int>((keys.end + Tile::kKeys - 1) / Tile::kKeys)};
}

// Shared memory of a block.
template <class Tile>
struct ForwardMemory {
    char *q, *k, *v;
    uint64_t *q_full, *q_empty, *k_full, *k_empty, *v_full, *v_empty, *tile_full, *tile_empty;
    int* tiles;  // numbers of the next tiles

    BK_DEVICE explicit ForwardMemory(char* base) {
        q = base + (1024 - shared_address(base) % 1024) % 1024;
        k = q + Tile::kQBytes;
        v = k + Tile::kStages * Tile::kKBytes;
        q_full = reinterpret_cast<uint64_t*>(v + Tile::kStages * Tile::kVBytes);
        q_empty = q_full + 1;
        k_full = q_empty + 1;
        k_empty = k_full + Tile::kStages;
        v_full = k_empty + Tile::kStages;
        v_empty = v_full + Tile::kStages;
        tile_full = v_empty + Tile::kStages;
        tile_empty = tile_full + Tile::kTileSlots;
        tiles = reinterpret_cast<int*>(tile_empty + Tile::kTileSlots);
    }
    BK_DEVICE void init() const {
        constexpr int kWarps = Tile::kConsumers * kWarpgroup / 32;
        init_barrier(q_full, 1);
        init_barrier(q_empty, kWarps);
        for (int stage = 0; stage < Tile::kStages; ++stage) {
            init_barrier(k_full + stage, 1);
            init_barrier(v_full + stage, 1);
            init_barrier(k_empty + stage, kWarps);
            init_barrier(v_empty + stage, kWarps);
        }
        for (int slot = 0; slot < Tile::kTileSlots; ++slot) {
            init_barrier(tile_full + slot, 1);
            init_barrier(tile_empty + slot, kWarps);
        }
        publish_barriers();
    }
};

template <class Tile, class P>
BK_DEVICE void produce(const P& p, const ForwardMaps& maps, const TileOrder& order, int* counter,
                       const ForwardMemory<Tile>& memory) {
    PipelineState keys, values, slots;
    int q_parity = 1, round = 0;
    for (int index = static_cast<int>(blockIdx.x), next;; index = next) {
        wait_for_phase(memory.tile_empty + slots.stage, slots.parity ^ 1);
        memory.tiles[slots.stage] = index;
        arrive(memory.tile_full + slots.stage);
        slots.advance(Tile::kTileSlots);
        if (index >= order.count) break;
        next = counter != nullptr ? static_cast<int>(gridDim.x) + atomicAdd(counter, 1)
                                  : order.fixed(++round, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
        const QueryTile tile = order.tile(index);
        const Sequence s = sequence_of(p.lengths, tile.batch);
        const int64_t row = int64_t{tile.index} * Tile::kRows;
        const KeyTiles range = key_tiles_of<Tile>(p.rules, s, row);
        if (range.end <= range.first) continue;
        const int kv_head = static_cast<int>(p.kv_head_of(tile.head)), first_key = static_cast<int>(s.k_begin);
        const auto load_keys = [&](int n) {
            wait_for_phase(memory.k_empty + keys.stage, keys.parity ^ 1);
            arrive_expecting(memory.k_full + keys.stage, Tile::kKBytes);
            for (int box = 0; box < Tile::kQBoxes; ++box)
                tma_load(memory.k + keys.stage * Tile::kKBytes + box * (Tile::kKeys * kSwizzleBytes), maps.k,
                         box * kBoxElements, first_key + n * Tile::kKeys, kv_head * maps.k_head, tile.batch * maps.k_batch,
                         memory.k_full + keys.stage);
            keys.advance(Tile::kStages);
        };
        wait_for_phase(memory.q_empty, q_parity);
        q_parity ^= 1;
        arrive_expecting(memory.q_full, Tile::kQBytes);
        for (int box = 0; box < Tile::kQBoxes; ++box)
            tma_load(memory.q + box * (Tile::kRows * kSwizzleBytes), maps.q, box * kBoxElements,
                     static_cast<int>(s.q_begin + row), tile.head * maps.q_head, tile.batch * maps.q_batch, memory.q_full);
        load_keys(range.end - 1);
        for (int n = range.end - 1; n >= range.first; --n) {
            if (n > range.first) load_keys(n - 1);
            wait_for_phase(memory.v_empty + values.stage, values.parity ^ 1);
            arrive_expecting(memory.v_full + values.stage, Tile::kVBytes);
            for (int box = 0; box < Tile::kVBoxes; ++box)
                tma_load(memory.v + values.stage * Tile::kVBytes + box * (Tile::kKeys * kSwizzleBytes), maps.v,
                         box * kBoxElements, first_key + n * Tile::kKeys, kv_head * maps.v_head, tile.batch * maps.v_batch,
                         memory.v_full + values.stage);
            values.advance(Tile::kStages);
        }
    }
}

// S = Q K^T of a warpgroup's rows, asynchronously.
template <class T, class Tile>
BK_DEVICE void start_scores(float (&scores)[Tile::kKeys / 2], uint32_t q, uint32_t k) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < Tile::kDk / 16; ++step)
        Wgmma<T, Tile::kKeys>::template run<false, false>(
            scores, smem_descriptor(q + step / 4 * (Tile::kRows * kSwizzleBytes) + step % 4 * 32, 0),
            smem_descriptor(k + step / 4 * (Tile::kKeys * kSwizzleBytes) + step % 4 * 32, 0), step > 0);
    wgmma_commit();
}

// O += P V, asynchronously.
template <class T, class Tile>
BK_DEVICE void start_values(float (&out)[Tile::kDv / 2], const uint32_t (&weights)[Tile::kKeys / 4], uint32_t v) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < Tile::kKeys / 16; ++step) {
        const uint32_t a[4] = {weights[4 * step], weights[4 * step + 1], weights[4 * step + 2], weights[4 * step + 3]};
        WgmmaRs<T, Tile::kDv>::template run<true>(
            out, a, smem_descriptor(v + step * (16 * kSwizzleBytes), Tile::kKeys * kSwizzleBytes), 1);
    }
    wgmma_commit();
}

// Band of a warpgroup's rows: key j is visible to row r if r - left <= j <= min(r + right, last), r shifted as the band is.
struct TileBand {
    int row;  // of this thread's first row
    int last;
    int full_first, full_end;  // key tiles that all rows of the warpgroup see whole
    int tail;                  // the key tile with rows of another sequence, or -1

    template <class Tile>
    static BK_DEVICE TileBand of(const ForwardMaps& maps, const Lengths& lengths, const Sequence& s, int row,
                                 int row_in_warpgroup) {
        constexpr int kKeys = Tile::kKeys;
        const int last = static_cast<int>(s.k_len) - 1, top = row - row_in_warpgroup;
        const int low = max(top + (kWarpgroupRows - 1) - maps.left, 0), high = min(top + maps.right, last);
        const bool has_tail = s.k_begin + s.k_len < lengths.total_k && (last + 1) % kKeys != 0;
        return {row, last, (low + kKeys - 1) / kKeys, high < 0 ? 0 : (high + 1) / kKeys, has_tail ? last / kKeys : -1};
    }
    BK_DEVICE bool has_edge(int n) const { return n < full_first || n >= full_end; }
    // Hides the scores of the keys that the band does not show.
    template <int kCount>
    BK_DEVICE void mask(float (&scores)[kCount], const ForwardMaps& maps, int first_column) const {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int low = row + 8 * r - maps.left - first_column, high = min(row + 8 * r + maps.right, last) - first_column;
#pragma unroll
            for (int v = 2 * r; v < kCount; v += 4)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const int key = v / 4 * 8 + e;
                    if (key > high || key < low) scores[v + e] = -INFINITY;
                }
        }
    }
};

// Rounds probabilities to the A fragments of wgmma.
template <class T, int kCount>
BK_DEVICE void round_weights(uint32_t (&weights)[kCount / 2], const float (&scores)[kCount]) {
#pragma unroll
    for (int v = 0; v < kCount / 2; ++v) weights[v] = pack_pair<T>(scores[2 * v], scores[2 * v + 1]);
}

template <int kCount>
BK_DEVICE void rescale(float (&out)[kCount], const float (&factor)[2]) {
#pragma unroll
    for (int v = 0; v < kCount; ++v) out[v] *= factor[v / 2 % 2];
}

// Zeroes the rows of values from `rows` on: they belong to another sequence, and 0 x NaN would be NaN.
template <class Tile>
BK_DEVICE void zero_values(char* v, int rows, int thread, int warpgroup) {
    constexpr int kWords = kSwizzleBytes / 16;
    for (int i = thread; i < (Tile::kKeys - rows) * kWords * Tile::kVBoxes; i += kWarpgroup) {
        const int box = i / ((Tile::kKeys - rows) * kWords), word = i % ((Tile::kKeys - rows) * kWords);
        reinterpret_cast<uint4*>(v + box * (Tile::kKeys * kSwizzleBytes))[rows * kWords + word] = make_uint4(0, 0, 0, 0);
    }
    fence_async_proxy();
    sync_warpgroup(warpgroup);
}

// Stores a row's outputs: four lanes exchange their column pairs, so that each stores 16 bytes.
template <class T, int kDv>
BK_DEVICE void store_output(T* row, const float (&out)[kDv / 2], int half, float factor, int d_v, int lane) {
    const int quad = lane % 4;
#pragma unroll
    for (int block = 0; block < kDv / 8; block += 4) {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int v = (block + i) * 4 + 2 * half;
            words[i] = block + i < kDv / 8
                           ? pack_pair<T>(out[v < kDv / 2 ? v : 0] * factor, out[v < kDv / 2 ? v + 1 : 1] * factor)
                           : 0;
        }
        // A 4 x 4 transpose: afterwards lane q has the words of the quad's lanes for column block `block + q`.
#pragma unroll
        for (int step = 1; step < 4; step *= 2) {
            const bool is_upper = (quad & step) != 0;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (i & step) continue;
                const uint32_t sent = is_upper ? words[i] : words[i + step];
                const uint32_t received = __shfl_xor_sync(~0u, sent, step);
                if (is_upper)
                    words[i] = received;
                else
                    words[i + step] = received;
            }
        }
        const int column = (block + quad) * 8;
        if (row != nullptr && column < d_v)
            *reinterpret_cast<uint4*>(row + column) = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

// Normalises and stores a warpgroup's outputs and lse.
template <class T, class Tile>
BK_DEVICE void store_tile(const AttentionForward<T>& p, const QueryTile& tile, const float (&out)[Tile::kDv / 2],
                          const RowStatistics& statistics, float log2_scale, int warpgroup, int row_in_warpgroup, int lane) {
    const Sequence s = sequence_of(p.lengths, tile.batch);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int64_t i = int64_t{tile.index} * Tile::kRows + warpgroup * kWarpgroupRows + row_in_warpgroup + 8 * r;
        float sum = quad_sum(statistics.sum[r]), correction = 1;
        float log2_max = statistics.max[r] == -INFINITY ? -INFINITY : statistics.max[r] * log2_scale;
        if (p.rules.sinks != nullptr && log2_max != -INFINITY) {
            const float sink = p.rules.sinks[tile.head] * kLog2E, largest = fmaxf(log2_max, sink);
            correction = exp2_approx(log2_max - largest);
            sum = sum * correction + exp2_approx(sink - largest);
            log2_max = largest;
        }
        const bool is_there = i < s.q_len, is_empty = log2_max == -INFINITY;
        const float inverse = is_empty ? 0.0f : correction / sum;
        store_output<T, Tile::kDv>(is_there ? p.y.at(tile.batch, tile.head, s.q_begin + i) : nullptr, out, r, inverse,
                                   static_cast<int>(p.d_v), lane);
        if (is_there && lane % 4 == 0)
            sm80::store_lse<T>(p.lse, tile.batch, tile.head, s.q_begin + i, log2_max + log2f(sum), is_empty);
    }
    if (tile.index == 0 && warpgroup == 0)
        sm80::store_unowned_rows(p, tile.batch, tile.head, 1, static_cast<int>(threadIdx.x), kWarpgroup);
}

template <class T, class Tile, bool kIsGeneral>
BK_DEVICE void consume(const AttentionForward<T>& p, const ForwardMaps& maps, const TileOrder& order,
                       const ForwardMemory<Tile>& memory) {
    constexpr bool kIsOrdered = Tile::kConsumers == 2;  // three warpgroups overlap well enough as they come
    constexpr int kKeys = Tile::kKeys, kOrderThreads = 2 * kWarpgroup, kStages = Tile::kStages, kSlots = Tile::kTileSlots;
    static_assert(kStages == 2 && kSlots == 2, "a counter's low bits are the stage and the parity");
    const int thread = static_cast<int>(threadIdx.x) % kWarpgroup, lane = thread % 32;
    const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup;
    const int row_in_warpgroup = thread / 32 * 16 + lane / 4;
    const float log2_scale = kIsGeneral ? kLog2E : p.rules.scale * kLog2E;
    const uint32_t q = shared_address(memory.q) + static_cast<uint32_t>(warpgroup * (kWarpgroupRows * kSwizzleBytes));
    const auto release = [&](uint64_t* barrier) {
        if (lane == 0) arrive(barrier);
    };
    // Tiles, tiles with keys, and steps along the keys so far; stage n % 2 is full for the n / 2-th time.
    int tile_count = 0, loaded_tiles = 0, step = 0;
    if (kIsOrdered && warpgroup == 1) order_barrier_arrive<kOrderThreads>(0);
    for (;; ++tile_count) {
        const volatile int* const slot = memory.tiles + tile_count % kSlots;
        wait_for_phase(memory.tile_full + tile_count % kSlots, tile_count / kSlots % 2);
        if (*slot >= order.count) break;
        RowStatistics statistics;
        float out[Tile::kDv / 2];
#pragma unroll
        for (int v = 0; v < Tile::kDv / 2; ++v) out[v] = 0;
        const QueryTile tile = order.tile(*slot);
        const Sequence s = sequence_of(p.lengths, tile.batch);
        const KeyTiles range = key_tiles_of<Tile>(p.rules, s, int64_t{tile.index} * Tile::kRows);
        if (range.end > range.first) {
            const int first_row = tile.index * Tile::kRows + warpgroup * kWarpgroupRows + row_in_warpgroup;
            const TileBand band = TileBand::of<Tile>(
                maps, p.lengths, s, first_row + static_cast<int>(band_shift(p.rules.band, s)), row_in_warpgroup);
            float scores[kKeys / 2], factor[2];
            uint32_t weights[kKeys / 4];
            const auto wait_for_keys = [&](int at) { wait_for_phase(memory.k_full + at % kStages, at / kStages % 2); };
            const auto key_address = [&](int at) {
                return shared_address(memory.k) + static_cast<uint32_t>(at % kStages * Tile::kKBytes);
            };
            const auto value_address = [&](int at) {
                return shared_address(memory.v) + static_cast<uint32_t>(at % kStages * Tile::kVBytes);
            };
            const auto wait_for_values = [&](int at, int n) {
                wait_for_phase(memory.v_full + at % kStages, at / kStages % 2);
                if (n == band.tail)
                    zero_values<Tile>(memory.v + at % kStages * Tile::kVBytes, band.last + 1 - n * kKeys, thread, warpgroup);
            };
            const auto apply_rules = [&](int n) {
                const int first_column = n * kKeys + lane % 4 * 2;
                if constexpr (kIsGeneral)
                    apply_general_rules<T>(scores, p.rules, s, {tile.batch, tile.head}, first_row, first_column);
                if (band.has_edge(n)) band.mask(scores, maps, first_column);
            };
            wait_for_phase(memory.q_full, loaded_tiles % 2);
            wait_for_keys(step);
            start_scores<T, Tile>(scores, q, key_address(step));
            wgmma_wait<0>();
            keep_order(scores);
            release(memory.k_empty + step % kStages);
            apply_rules(range.end - 1);
            statistics.update(scores, log2_scale, factor);
            round_weights<T>(weights, scores);
#pragma unroll 1
            for (int n = range.end - 2; n >= range.first; --n, ++step) {
                wait_for_keys(step + 1);
                if (kIsOrdered) order_barrier_wait<kOrderThreads>(warpgroup);
                start_scores<T, Tile>(scores, q, key_address(step + 1));
                wait_for_values(step, n + 1);
                start_values<T, Tile>(out, weights, value_address(step));
                if (kIsOrdered) order_barrier_arrive<kOrderThreads>(1 - warpgroup);
                wgmma_wait<1>();
                keep_order(scores);
                release(memory.k_empty + (step + 1) % kStages);
                apply_rules(n);
                statistics.update(scores, log2_scale, factor);
                wgmma_wait<0>();
                keep_order(out);
                release(memory.v_empty + step % kStages);
                rescale(out, factor);
                round_weights<T>(weights, scores);
            }
            release(memory.q_empty);
            wait_for_values(step, range.first);
            start_values<T, Tile>(out, weights, value_address(step));
            wgmma_wait<0>();
            keep_order(out);
            release(memory.v_empty + step % kStages);
            ++step;
            ++loaded_tiles;
        }
        store_tile<T, Tile>(p, order.tile(*slot), out, statistics, log2_scale, warpgroup, row_in_warpgroup, lane);
        __syncwarp();
        release(memory.tile_empty + tile_count % kSlots);
    }
    if (kIsOrdered && warpgroup == 0) order_barrier_wait<kOrderThreads>(0);  // the other warpgroup's last arrival
}

template <class T, class Tile, bool kIsGeneral>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    forward_kernel(const __grid_constant__ AttentionForward<T> p, const __grid_constant__ ForwardMaps maps,
                   const __grid_constant__ TileOrder order, int* counter) {
    BK_LAUNCH_SHARED(uint4, shared_words);
    const ForwardMemory<Tile> memory(reinterpret_cast<char*>(shared_words));
    if (threadIdx.x == 0) memory.init();
    __syncthreads();
    if (threadIdx.x >= Tile::kConsumers * kWarpgroup) {
        reg_dealloc<Tile::kProducerRegisters>();
        if (threadIdx.x == Tile::kConsumers * kWarpgroup) produce<Tile>(p, maps, order, counter, memory);
    } else {
        reg_alloc<Tile::kConsumerRegisters>();
        consume<T, Tile, kIsGeneral>(p, maps, order, memory);
    }
}

// Whether TMA can load rows of this view.
template <class E>
bool suits_tma(const HeadsView<E>& view, int64_t d) {
    const auto is_multiple = [](int64_t stride) { return stride >= 0 && stride % 8 == 0; };
    return reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && d % 8 == 0 && is_multiple(view.batch) &&
           is_multiple(view.head) && is_multiple(view.row);
}

template <class E>
bool map_heads(TensorMap* map, int* batch_step, int* head_step, const HeadsView<const E>& view, int64_t d, int64_t rows,
               int64_t heads, int64_t batch, int box_rows) {
    *batch_step = view.batch != 0 && batch > 1 ? 1 : 0;
    *head_step = view.head != 0 && heads > 1 ? 1 : 0;
    return make_tensor_map(map, view.data, d,
                           {{rows, view.row}, {*head_step ? heads : 1, view.head}, {*batch_step ? batch : 1, view.batch}},
                           box_rows);
}

template <class T, class Tile, bool kIsGeneral>
Status launch_forward(const Launch& launch, const AttentionForward<T>& p, bool* is_taken) {
    const Lengths& lengths = p.lengths;
    const int64_t rows = lengths.q_offsets != nullptr ? lengths.total_q : lengths.q_len;
    const int64_t key_rows = lengths.k_offsets != nullptr ? lengths.total_k : lengths.k_len;
    ForwardMaps maps;
    if (!map_heads(&maps.q, &maps.q_batch, &maps.q_head, p.q, p.d_k, rows, p.heads, p.batch, Tile::kRows) ||
        !map_heads(&maps.k, &maps.k_batch, &maps.k_head, p.k, p.d_k, key_rows, p.kv_heads, p.batch, Tile::kKeys) ||
        !map_heads(&maps.v, &maps.v_batch, &maps.v_head, p.v, p.d_v, key_rows, p.kv_heads, p.batch, Tile::kKeys))
        return Status::kOk;
    const auto limit = [](int64_t distance) { return static_cast<int>(std::min<int64_t>(distance, 1 << 30)); };
    maps.left = limit(p.rules.band.left);
    maps.right = limit(p.rules.band.right);
    const int64_t tiles = ceil_div<int64_t>(lengths.q_len, Tile::kRows);
    const TileOrder order =
        TileOrder::of(p.batch, p.heads, p.heads / p.kv_heads, tiles, lengths.k_len * (p.d_k + p.d_v) * int64_t{sizeof(T)});
    const int64_t blocks = std::min<int64_t>(order.count, device_sms());
    // Measured: tiles of three warpgroups are so short that taking them from a counter costs more than it balances.
    const bool is_counted = order.count > blocks && (Tile::kConsumers == 2 || lengths.q_offsets != nullptr);
    int* const counter = is_counted ? workspace_array<int>(launch, 1) : nullptr;
    Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(Tile::kThreads)};
    grid.shared = Tile::kShared;
    *is_taken = true;
    if (counter != nullptr) BK_TRY(fill_bytes(launch, counter, 0, sizeof(int)));
    return launch_kernel(launch, grid, forward_kernel<T, Tile, kIsGeneral>, p, maps, order, counter);
}

// Whether the kernels serve the problem at all.
template <class T>
bool suits_wgmma_forward(const AttentionForward<T>& p) {
    const ScoreRules& rules = p.rules;
    const Lengths& lengths = p.lengths;
    constexpr int64_t kMostRows = 1 << 29, kFewestRows = 9, kFewKeys = 1024;
    // Fewer rows than a warpgroup's leave most of a tile empty: the other kernels split many keys over blocks then.
    const bool has_rows = lengths.q_len >= kWarpgroupRows || (lengths.q_len >= kFewestRows && lengths.k_len <= kFewKeys);
    const bool is_served = !p.is_batch_invariant && lengths.page_ids == nullptr && p.weights.data == nullptr &&
                           rules.dropout.probability == 0 && rules.scale > 0 && p.d_k >= 8 && p.d_v >= 8 && p.d_k <= 256 &&
                           p.d_v <= 256;
    const bool is_addressed = suits_tma(p.q, p.d_k) && suits_tma(p.k, p.d_k) && suits_tma(p.v, p.d_v) && suits_tma(p.y, p.d_v);
    return is_served && is_addressed && has_rows && lengths.k_len > 0 && lengths.total_q < kMostRows &&
           lengths.q_len < kMostRows && lengths.k_len < kMostRows && lengths.total_k < kMostRows && p.q.row > 0 &&
           p.k.row > 0 && p.v.row > 0 && std::abs(rules.band.shift) < kMostRows &&
           p.batch * p.heads * ceil_div<int64_t>(lengths.q_len, kWarpgroupRows) < kMostRows;
}

}  // namespace bk
