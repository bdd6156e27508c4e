// SPDX-License-Identifier: Apache-2.0
// Top-k of rows of any length and any number of results, a block a row: a radix select finds the threshold, and a last pass
// takes the elements within it in index order. Up to kSharedResults are sorted in shared memory, more of them where they
// lie.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/topk/merge_exchange.cuh"
#include "core/topk/radix_select.cuh"
#include "core/topk/row_selection.h"

namespace bk {

constexpr int kRowSelectThreads = 512, kRowSelectItems = 4;
constexpr int kSharedResults = 2048;

// A key with its index in the row, ordered by both. Keys of at most 32 bits share a word with the index.
template <class Bits>
struct RankedItem {
    uint64_t word;
    static BK_DEVICE RankedItem of(Bits key, uint32_t index) { return {static_cast<uint64_t>(key) << 32 | index}; }
    BK_DEVICE Bits key() const { return static_cast<Bits>(word >> 32); }
    BK_DEVICE uint32_t index() const { return static_cast<uint32_t>(word); }
    BK_DEVICE bool operator<(const RankedItem& other) const { return word < other.word; }
};

template <>
struct RankedItem<uint64_t> {
    uint64_t first;
    uint64_t second;
    static BK_DEVICE RankedItem of(uint64_t key, uint32_t index) { return {key, index}; }
    BK_DEVICE uint64_t key() const { return first; }
    BK_DEVICE uint32_t index() const { return static_cast<uint32_t>(second); }
    BK_DEVICE bool operator<(const RankedItem& other) const {
        return first < other.first || (first == other.first && second < other.second);
    }
};

// The rows as kernels take them.
template <class Bits>
struct RowTable {
    const Bits* x;
    Bits* values;
    IndexArray indices, offsets;
    Walk<3, uint64_t> walk;
    int64_t rows, length, results;
    int64_t step[3];
    KeyOrder<Bits> order;
    Bits padding;
    bool has_offsets, is_sorted;

    RowTable(const TopKRows<Bits>& given, const Bits* x_, Bits* values_, IndexArray indices_)
        : x(x_),
          values(values_),
          indices(indices_),
          offsets(given.offsets),
          walk(collapse(given.rows)),
          rows(given.rows.numel()),
          length(given.length),
          results(given.results),
          order(given.order),
          padding(given.padding),
          has_offsets(given.has_offsets),
          is_sorted(given.is_sorted) {
        for (int k = 0; k < 3; ++k) step[k] = given.step[k];
    }
};

template <class Bits>
struct DeviceRow {
    const Bits* x;
    Bits* values;
    IndexArray indices;
    int64_t length, step, value_at, value_step, index_at, index_step;
    KeyOrder<Bits> order;

    BK_DEVICE DeviceRow(const RowTable<Bits>& table, int64_t row) {
        const Offsets<3, uint64_t> at = table.walk(static_cast<uint64_t>(row));
        int64_t first = static_cast<int64_t>(at.of[0]);
        length = table.length;
        if (table.has_offsets) {
            const int64_t begin = table.offsets[row], end = table.offsets[row + 1];
            first = begin < 0 ? 0 : begin < table.length ? begin : table.length;
            length = (end < first ? first : end < table.length ? end : table.length) - first;
        }
        step = table.step[0];
        x = table.x + first;
        values = table.values;
        value_at = static_cast<int64_t>(at.of[1]);
        value_step = table.step[1];
        indices = table.indices;
        index_at = static_cast<int64_t>(at.of[2]);
        index_step = table.step[2];
        order = table.order;
    }
    BK_DEVICE Bits element(int64_t i) const { return x[i * step]; }
    BK_DEVICE Bits key(int64_t i) const { return order(element(i)); }
    BK_DEVICE void set(int64_t k, Bits value, int64_t index) const {
        values[value_at + k * value_step] = value;
        indices.set(index_at + k * index_step, index);
    }
};

// emit(rank, index, key) for the elements within the threshold, in index order; rank counts them.
template <class Bits, class Emit>
BK_DEVICE void emit_within(const DeviceRow<Bits>& row, RankThreshold<Bits> threshold, const Emit& emit) {
    constexpr int kWarps = kRowSelectThreads / 32, kWarpItems = 32 * kRowSelectItems, kTile = kWarps * kWarpItems;
    __shared__ uint32_t warp_counts[kWarps];  // below the threshold and equal to it, 16 bits each
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const uint32_t lower_lanes = (1u << lane) - 1;
    int64_t below = 0, ties = 0;
    for (int64_t first = 0; first < row.length; first += kTile) {
        Bits key[kRowSelectItems];
        uint32_t is_below[kRowSelectItems], is_tie[kRowSelectItems];
        uint32_t counts = 0;
#pragma unroll
        for (int u = 0; u < kRowSelectItems; ++u) {
            const int64_t i = first + warp * kWarpItems + u * 32 + lane;
            const bool exists = i < row.length;
            key[u] = exists ? row.key(i) : Bits{0};
            is_below[u] = __ballot_sync(0xffffffffu, exists && key[u] < threshold.key);
            is_tie[u] = __ballot_sync(0xffffffffu, exists && key[u] == threshold.key);
            counts += static_cast<uint32_t>(__popc(is_below[u])) | static_cast<uint32_t>(__popc(is_tie[u])) << 16;
        }
        __syncthreads();
        if (lane == 0) warp_counts[warp] = counts;
        __syncthreads();
        uint32_t before = 0, all = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
            if (w == warp) before = all;
            all += warp_counts[w];
        }
        int64_t below_before = below + (before & 0xffff), ties_before = ties + (before >> 16);
#pragma unroll
        for (int u = 0; u < kRowSelectItems; ++u) {
            const int64_t i = first + warp * kWarpItems + u * 32 + lane;
            const int64_t own_below = below_before + __popc(is_below[u] & lower_lanes);
            const int64_t own_ties = ties_before + __popc(is_tie[u] & lower_lanes);
            if (is_below[u] >> lane & 1)
                emit(own_below + (own_ties < threshold.ties ? own_ties : threshold.ties), i, key[u]);
            else if ((is_tie[u] >> lane & 1) && own_ties < threshold.ties)
                emit(own_below + own_ties, i, key[u]);
            below_before += __popc(is_below[u]);
            ties_before += __popc(is_tie[u]);
        }
        below += all & 0xffff;
        ties += all >> 16;
    }
    __syncthreads();
}

// Sorts the results of a row where they lie.
template <class Bits>
BK_DEVICE void sort_results(const DeviceRow<Bits>& row, int64_t count) {
    merge_exchange(count, [&](int64_t a, int64_t b) {
        const Bits first = row.values[row.value_at + a * row.value_step],
                   second = row.values[row.value_at + b * row.value_step];
        const int64_t i = row.indices[row.index_at + a * row.index_step], j = row.indices[row.index_at + b * row.index_step];
        const Bits first_key = row.order(first), second_key = row.order(second);
        if (first_key < second_key || (first_key == second_key && i < j)) return;
        row.set(a, second, j);
        row.set(b, first, i);
    });
}

template <class Bits>
__global__ void __launch_bounds__(kRowSelectThreads, 2) top_k_rows_kernel(const __grid_constant__ RowTable<Bits> table) {
    union Shared {
        RadixHistogram histogram;
        RankedItem<Bits> item[kSharedResults];
    };
    __shared__ uint4 memory[(sizeof(Shared) + 15) / 16];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    for (int64_t r = blockIdx.x; r < table.rows; r += gridDim.x) {
        const DeviceRow<Bits> row(table, r);
        const int64_t count = row.length < table.results ? row.length : table.results;
        for (int64_t k = count + threadIdx.x; k < table.results; k += kRowSelectThreads) row.set(k, table.padding, -1);
        if (count == 0) continue;
        RankThreshold<Bits> threshold{KeyOrder<Bits>::kAll, 0, count};
        if (count < row.length)
            threshold = block_threshold<kRowSelectThreads, Bits>(
                shared.histogram, [&](int64_t i) { return row.key(i); }, row.length, count, true);
        const bool in_shared = table.is_sorted && count <= kSharedResults && row.length <= int64_t{1} << 32;
        if (!in_shared) {
            emit_within(row, threshold, [&](int64_t k, int64_t i, Bits) { row.set(k, row.element(i), i); });
            if (table.is_sorted) sort_results(row, count);
            continue;
        }
        emit_within(row, threshold, [&](int64_t k, int64_t i, Bits key) {
            shared.item[k] = RankedItem<Bits>::of(key, static_cast<uint32_t>(i));
        });
        merge_exchange(static_cast<int>(count), [&](int a, int b) {
            const RankedItem<Bits> first = shared.item[a], second = shared.item[b];
            if (first < second) return;
            shared.item[a] = second;
            shared.item[b] = first;
        });
        for (int64_t k = threadIdx.x; k < count; k += kRowSelectThreads) {
            const int64_t i = shared.item[k].index();
            row.set(k, row.element(i), i);
        }
        __syncthreads();
    }
}

template <class Bits>
Status top_k_by_rows(const Launch& launch, const RowTable<Bits>& table) {
    const int64_t blocks = table.rows < kMaxGridX ? table.rows : kMaxGridX;
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kRowSelectThreads)}, top_k_rows_kernel<Bits>,
                         table);
}

}  // namespace bk
