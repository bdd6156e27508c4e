// SPDX-License-Identifier: Apache-2.0
// Backward attention on Hopper, after FlashAttention-3 (Shah et al. 2024): with P = 2^(score - lse) and delta = rowsum(dy y)
// of the prologue, dV = P^T dY, dS = P (dY V^T - delta), dK = scale dS^T Q, dQ = scale dS K. sm_90a alone.
//
// Blocks of a producer warpgroup and two consumer warpgroups take tiles of keys from a counter. The consumers keep dK and dV
// in registers while the queries go by, the last first, each tile of them for all heads of the group. They multiply transposed:
// S^T = K Q^T and dP^T = V dY^T, so that P^T and dS^T are A fragments of dV and dK; dS^T goes to shared memory as well, where
// both warpgroups read it as the transposed A of dQ.
//
// Two warps of the producer add dQ in f32 to global memory, each every second step. The sums of a tile of queries are added
// in the order of the keys, which a semaphore keeps; a block waits only for tiles that were taken from the counter before its
// own, so that one of them always goes on. All tiles of keys go through the queries and heads in the same sequence: the
// n-th lags behind the one before, and does not meet it again at the next head.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/sm90/backward_own_keys.cuh"
#include "attention/sm90/backward_rows.cuh"
#include "attention/sm90/backward_split.cuh"
#include "attention/sm90/backward_tile.cuh"
#include "attention/sm90/backward_transfers.cuh"

namespace bk {

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1) backward_kernel(const __grid_constant__ BackwardWgmma<T> g) {
    BK_LAUNCH_SHARED(uint4, shared_words);
    const BackwardMemory<Tile> memory(reinterpret_cast<char*>(shared_words));
    if (threadIdx.x == 0) memory.init();
    __syncthreads();
    if (threadIdx.x >= Tile::kConsumerThreads) {
        reg_dealloc<Tile::kProducerRegisters>();
        if (threadIdx.x == Tile::kConsumerThreads) load_operands<T, Tile>(g, memory);
        const int adder = static_cast<int>(threadIdx.x) - Tile::kConsumerThreads - 32;
        if (adder == 0 || adder == 32) add_queries<T, Tile>(g, memory, adder / 32);
    } else {
        reg_alloc<Tile::kConsumerRegisters>();
        if constexpr (!Tile::kSplitsProducts) {
            consume_own_keys<T, Tile>(g, memory);
        } else if (threadIdx.x < kWarpgroup) {
            consume_products<T, Tile, 0>(g, memory);
        } else {
            consume_products<T, Tile, 1>(g, memory);
        }
    }
}

template <class T, class Tile>
Status launch_backward(const Launch& launch, const AttentionBackward<T>& p, bool is_ordered, bool* is_taken,
                       int64_t least_heads = 1) {
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
                            std::min(group * lengths.q_len * (f.d_k + f.d_v), (int64_t{24} << 20) / least_heads));
    *is_taken = true;
    BK_TRY((start_backward_rows<T, Tile>(launch, g)));
    if (!is_ordered)
        BK_TRY(fill_bytes(
            launch, g.scratch.dq, 0,
            static_cast<size_t>(g.scratch.copies * f.heads * g.scratch.q_tiles * Tile::kRows * Tile::kDk) * sizeof(float)));
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
