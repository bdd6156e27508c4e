// SPDX-License-Identifier: Apache-2.0
// Kernels around the Hopper backward kernel: statistics of the queries before it, and dQ in T after it.
#pragma once

#include <cstdint>

#include "attention/sm80/rows.cuh"
#include "attention/sm90/backward_tile.cuh"
#include "attention/sm90/softmax_tile.cuh"

namespace bk {

constexpr int kRowsThreads = 128;

// A tile of queries of one head, from the block's number.
struct QueryTileIndex {
    int batch, head, tile;

    BK_DEVICE QueryTileIndex(int number, int tiles, int heads)
        : batch(number / tiles / heads), head(number / tiles % heads), tile(number % tiles) {}
};

template <class T>
BK_DEVICE float dot_of_words(const uint4& a, const uint4& b) {
    const uint32_t x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        sum = fmaf(widen(T{static_cast<uint16_t>(x[i])}), widen(T{static_cast<uint16_t>(y[i])}), sum);
        sum = fmaf(widen(T{static_cast<uint16_t>(x[i] >> 16)}), widen(T{static_cast<uint16_t>(y[i] >> 16)}), sum);
    }
    return sum;
}

// Statistics of a tile of queries: lse in base 2, +inf for rows without keys and behind the sequence, and delta. Resets the
// tile's semaphore and the counter, and zeroes the rows of the gradients that no sequence owns.
template <class T, class Tile>
__global__ void __launch_bounds__(kRowsThreads) backward_statistics_kernel(const __grid_constant__ BackwardWgmma<T> g) {
    constexpr int kLanes = Tile::kDv <= 64    ? 8
                           : Tile::kDv <= 128 ? 16
                                              : 32,
                  kPass = kRowsThreads / kLanes, kPasses = Tile::kRows / kPass;
    static_assert(kLanes * 8 >= Tile::kDv && Tile::kRows % kPass == 0, "whole rows");
    const AttentionForward<T>& f = g.p.forward;
    const int thread = static_cast<int>(threadIdx.x);
    const QueryTileIndex at(static_cast<int>(blockIdx.x), g.sequence_tiles, static_cast<int>(f.heads));
    if (blockIdx.x == 0 && thread == 0) *g.scratch.counter = 0;
    if (at.tile == 0) {
        for (int before = at.batch == 0 ? -1 : at.batch; before <= at.batch; ++before) {
            if (f.lengths.q_offsets != nullptr && g.p.dq.data != nullptr)
                sm80::zero_rows(g.p.dq, at.batch, at.head, sm80::unowned_queries(f.lengths, f.batch, before),
                                static_cast<int>(f.d_k), thread, kRowsThreads);
            if (f.lengths.k_offsets != nullptr && at.head < f.kv_heads) {
                Lengths lengths = f.lengths;
                lengths.k_lens = nullptr;
                const KeyRange rows = sm80::unowned_keys(lengths, f.batch, before);
                if (g.p.dk.data != nullptr)
                    sm80::zero_rows(g.p.dk, at.batch, at.head, rows, static_cast<int>(f.d_k), thread, kRowsThreads);
                if (g.p.dv.data != nullptr)
                    sm80::zero_rows(g.p.dv, at.batch, at.head, rows, static_cast<int>(f.d_v), thread, kRowsThreads);
            }
        }
    }
    const Sequence s = sequence_of(f.lengths, at.batch);
    const int first = at.tile * Tile::kRows, q_len = static_cast<int>(s.q_len);
    if (first >= q_len) return;
    const int64_t slot = at.head * g.scratch.q_tiles + first_query_tile(g, s, at.batch, Tile::kRows) + at.tile;
    if (thread < g.scratch.copies) g.scratch.semaphores[thread * f.heads * g.scratch.q_tiles + slot] = 0;
    float* const statistics = g.scratch.statistics + slot * (2 * Tile::kRows);
    const int column = thread % kLanes * 8;
    uint4 y[kPasses], dy[kPasses];
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
        const int row = first + pass * kPass + thread / kLanes;
        y[pass] = dy[pass] = make_uint4(0, 0, 0, 0);
        if (row < q_len && column < f.d_v) {
            y[pass] = *reinterpret_cast<const uint4*>(g.p.y.at(at.batch, at.head, s.q_begin + row) + column);
            dy[pass] = *reinterpret_cast<const uint4*>(g.p.dy.at(at.batch, at.head, s.q_begin + row) + column);
        }
    }
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
        float sum = dot_of_words<T>(y[pass], dy[pass]);
#pragma unroll
        for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
        const int row = first + pass * kPass + thread / kLanes;
        if (thread % kLanes == 0) statistics[Tile::kRows + row - first] = sum;
    }
    for (int r = thread; r < Tile::kRows; r += kRowsThreads) {
        float lse = INFINITY;
        if (first + r < q_len)
            lse = static_cast<const float*>(
                f.lse.data)[at.batch * f.lse.batch + at.head * f.lse.head + (s.q_begin + first + r) * f.lse.row];
        statistics[r] = fabsf(lse) == INFINITY ? INFINITY : lse * kLog2E;
    }
}

// dQ of a tile of queries in T: the sum of its copies, in order. A thread has 8 columns of rows r and r + 8, which 4 threads
// of the consumers left side by side.
template <class T, class Tile>
__global__ void __launch_bounds__(kRowsThreads) convert_dq_kernel(const __grid_constant__ BackwardWgmma<T> g) {
    constexpr int kOctets = Tile::kDk / 8, kChunks = Tile::kRows * Tile::kDk / 16;
    const AttentionForward<T>& f = g.p.forward;
    const QueryTileIndex at(static_cast<int>(blockIdx.x), g.sequence_tiles, static_cast<int>(f.heads));
    const Sequence s = sequence_of(f.lengths, at.batch);
    const int first = at.tile * Tile::kRows, q_len = static_cast<int>(s.q_len);
    if (first >= q_len) return;
    const KeyRange keys = keys_of_rows(f.rules.band, s, first, min(first + Tile::kRows, q_len) - 1);
    const int first_key_tile = static_cast<int>(keys.first / Tile::kKeys);
    const int end_key_tile =
        keys.end > keys.first ? static_cast<int>((keys.end + Tile::kKeys - 1) / Tile::kKeys) : first_key_tile;
    const int copies = min(g.scratch.copies, end_key_tile - first_key_tile);  // that some tile of keys was added to
    const int64_t slot = at.head * g.scratch.q_tiles + first_query_tile(g, s, at.batch, Tile::kRows) + at.tile;
    const int64_t step = f.heads * g.scratch.q_tiles * (Tile::kRows * Tile::kDk / 4);
    const float4* const sums = reinterpret_cast<const float4*>(g.scratch.dq) + slot * (Tile::kRows * Tile::kDk / 4);
#pragma unroll 4
    for (int chunk = static_cast<int>(threadIdx.x); chunk < kChunks; chunk += kRowsThreads) {
        const int octet = chunk % kOctets, row_in_part = chunk / kOctets % 32, part = chunk / kOctets / 32;
        const int row = first + part * kWarpgroupRows + row_in_part / 8 * 16 + row_in_part % 8, column = octet * 8;
        const float4* const from = sums + ((part * kOctets + octet) * kWarpgroup + row_in_part * 4);
        float4 x[4] = {};
        for (int copy = 0; copy < copies; ++copy)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float4 addend = from[(first_key_tile + copy) % g.scratch.copies * step + i];
                x[i] = make_float4(x[i].x + addend.x, x[i].y + addend.y, x[i].z + addend.z, x[i].w + addend.w);
            }
        uint32_t words[2][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            words[0][i] = pack_pair<T>(x[i].x * f.rules.scale, x[i].y * f.rules.scale);
            words[1][i] = pack_pair<T>(x[i].z * f.rules.scale, x[i].w * f.rules.scale);
        }
#pragma unroll
        for (int r = 0; r < 2; ++r)
            if (row + 8 * r < q_len && column < f.d_k)
                *reinterpret_cast<uint4*>(g.p.dq.at(at.batch, at.head, s.q_begin + row + 8 * r) + column) =
                    make_uint4(words[r][0], words[r][1], words[r][2], words[r][3]);
    }
}

template <class T, class Tile>
Status start_backward_rows(const Launch& launch, const BackwardWgmma<T>& g) {
    const int64_t blocks = g.p.forward.batch * g.p.forward.heads * g.sequence_tiles;
    return launch_kernel(launch, {dim3(static_cast<unsigned>(blocks)), dim3(kRowsThreads)}, backward_statistics_kernel<T, Tile>,
                         g);
}

template <class T, class Tile>
Status start_convert_dq(const Launch& launch, const BackwardWgmma<T>& g) {
    if (g.p.dq.data == nullptr) return Status::kOk;
    const int64_t blocks = g.p.forward.batch * g.p.forward.heads * g.sequence_tiles;
    return launch_kernel(launch, {dim3(static_cast<unsigned>(blocks)), dim3(kRowsThreads)}, convert_dq_kernel<T, Tile>, g);
}

}  // namespace bk
