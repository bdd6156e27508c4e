// SPDX-License-Identifier: Apache-2.0
// CUDA sums of row values: through the workspace (sum_values_kernel), or in one launch (sum_rows_kernel).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/collectives/combine_cluster.cuh"
#include "core/collectives/row_exchange.cuh"
#include "core/reduce/sums.h"
#include "core/row/row_cache.cuh"
#include "core/row/row_values.h"

namespace bk {

constexpr int kRowSumThreads = 256;
constexpr int64_t kValuesPerBlock = 4096;

// Block-wide sum by a shared-memory tree; all threads get it.
template <class C>
BK_DEVICE C block_sum(C mine) {
    __shared__ C partial[kRowSumThreads];
    partial[threadIdx.x] = mine;
    __syncthreads();
    for (int half = kRowSumThreads / 2; half > 0; half /= 2) {
        if (static_cast<int>(threadIdx.x) < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    return partial[0];
}

// Each block sums values_per_block values, `step` apart, in place: the sum replaces the first value, and the sum of
// scaled values (which cannot overflow) the second, if any. The first `pairs` values already have a scaled sum next to
// them. A single block adds to *total instead and, if `out` is not null, stores factor * total.
template <class T, class C>
__global__ void __launch_bounds__(kRowSumThreads)
    sum_values_kernel(C* values, int64_t count, int64_t step, int64_t pairs, int64_t values_per_block, C* total, bool is_first,
                      C factor, T* out) {
    const int64_t begin = blockIdx.x * values_per_block, end = min(begin + values_per_block, count);
    C sum = 0, scaled = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += kRowSumThreads) {
        sum += values[i * step];
        scaled += i < pairs ? values[i * step + 1] : values[i * step] * kScale<C>;
    }
    sum = block_sum(sum);
    __syncthreads();
    scaled = block_sum(scaled);
    if (threadIdx.x != 0) return;
    if (gridDim.x > 1) {
        values[begin * step] = sum;
        if (begin + 1 < count) values[begin * step + 1] = scaled;
        return;
    }
    if (!is_first) {
        sum += *total;
        scaled += *total * kScale<C>;
    }
    *total = sum;
    if (out != nullptr) *out = narrow<T>(SumAcc<C>{sum, scaled}.times(factor));
}

// Running sum in three levels, by 64 and 64 * 64 values, which bounds error growth.
template <class C>
class NestedSum {
    static constexpr int kChunk = 64;
    C inner_ = 0, outer_ = 0, all_ = 0;
    int count_ = 0;

public:
    BK_DEVICE void add(C value) {
        inner_ += value;
        if (++count_ % kChunk != 0) return;
        outer_ += inner_;
        inner_ = 0;
        if (count_ != kChunk * kChunk) return;
        all_ += outer_;
        outer_ = 0;
        count_ = 0;
    }
    BK_DEVICE C result() const { return all_ + outer_ + inner_; }
};

// Adds sums and sums of scaled values, which cannot overflow.
template <class C>
struct CombineSums {
    using Acc = SumAcc<C>;
    BK_DEVICE Acc identity() const { return {0, 0}; }
    BK_DEVICE Acc combine(const Acc& a, const Acc& b) const { return {a.sum + b.sum, a.recent + b.recent}; }
};

// One-launch sum without a workspace: the blocks of one cluster, or one block before sm_90, so that blocks can combine
// sums. Each block has an SM to itself; with 1024 threads a block would have fewer loads in flight per thread.
constexpr int kSingleLaunchThreads = 768;

// Thread mapping: a team loops over rows with a stride of the number of teams.
struct RowTeams {
    int lanes;         // threads per team: one, a warp, or a block
    bool has_vectors;  // rows are dense, aligned and a multiple of the vector width
};

// Elements per vector, and vectors in flight per thread: limited by its element cache and by 128 bytes of inputs; 64
// for f64, whose functions need more registers.
template <class... In>
constexpr int kVectorElements = kVectorBytes / static_cast<int>(std::max({sizeof(In)...}));
template <class... In>
constexpr int kLoadBytes = kVectorElements<In...> == 2 ? 64 : 128;
template <class F, class... In>
constexpr int kLoadVectors =
    std::max(1, std::min(kMaxTransformedVectors<F, kVectorElements<In...>>,
                         kLoadBytes<In...> / (kVectorElements<In...> * (static_cast<int>(sizeof(In)) + ...))));

// Indices of a thread's elements in a tile: V vectors of N if has_vectors, else N * V scalars, one team size apart.
template <int N, int V>
struct TeamTile {
    static constexpr int width = 1;
    uint32_t first, vector_step, step, n;  // unsigned: indices past the longest row fit
    BK_DEVICE static TeamTile of(const RowTeams& teams, uint32_t lane, uint32_t begin, uint32_t n) {
        const uint32_t lanes = static_cast<uint32_t>(teams.lanes);
        return {begin + (teams.has_vectors ? lane * N : lane), lanes * N, teams.has_vectors ? 1 : lanes, n};
    }
    BK_DEVICE uint32_t index(int i) const { return first + i / N * vector_step + i % N * step; }
    BK_DEVICE int position(int i) const { return static_cast<int>(index(i)); }
    BK_DEVICE bool has(int i) const { return index(i) < n; }
    BK_DEVICE int64_t at(int i) const { return position(i); }
    BK_DEVICE int count() const {
        int elements = 0;
#pragma unroll
        for (int i = 0; i < N * V; ++i) elements += has(i);
        return elements;
    }
};

// A thread's elements of one input. Loads have no dependent use in between, so that all are in flight together.
template <class T, int N, int V>
struct TeamVectors {
    Vec<T, N> vector[V];
    BK_DEVICE void load(const T* row, int64_t step, const TeamTile<N, V>& where, bool has_vectors, T row_padding) {
#pragma unroll
        for (int i = 0; i < N * V; ++i) vector[i / N].lane[i % N] = row_padding;
        if (has_vectors) {
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (where.has(v * N)) vector[v] = bk::load<N>(row + where.index(v * N));
        } else {
#pragma unroll
            for (int i = 0; i < N * V; ++i)
                if (where.has(i)) vector[i / N].lane[i % N] = row[where.index(i) * step];
        }
    }
};

// Value of inputs past the row end.
template <class T, class F>
BK_DEVICE T row_padding([[maybe_unused]] const F& f) {
    if constexpr (kPadsInputs<F>)
        return narrow<T>(f.pad());
    else
        return T{};
}

template <class F, class T, class C, class... In, class... RowIn, size_t... I, size_t... R>
BK_DEVICE void sum_rows_by_teams(const F& f, const StridedRows<sizeof...(In)>& given, const Inputs<In...>& x,
                                 const Inputs<RowIn...>& row_inputs, const RowTeams& teams, C factor, T* out,
                                 std::index_sequence<I...>, std::index_sequence<R...>) {
    using Acc = typename F::Acc;
    constexpr int N = kVectorElements<In...>, V = kLoadVectors<F, In...>;
    __shared__ RowExchange<Acc> exchange;
    __shared__ RowExchange<SumAcc<C>> sum_exchange;
    const int lanes = teams.lanes, lane = static_cast<int>(threadIdx.x) % lanes;
    const uint32_t n = static_cast<uint32_t>(given.columns), tile = static_cast<uint32_t>(lanes * N * V);
    const int teams_per_block = kSingleLaunchThreads / lanes, step = static_cast<int>(gridDim.x) * teams_per_block;
    const int64_t first = static_cast<int>(blockIdx.x) * teams_per_block + static_cast<int>(threadIdx.x) / lanes;
    NestedSum<C> sum, scaled;
    int phase = 0;
    for (int64_t r = first; r < given.rows; r += step) {
        const Pack<const In*...> row_x = pack(get<I>(x.pointer) + given.offset(I, r)...);
        Pack<TeamVectors<In, N, V>...> cells;
        uint32_t begin = 0;
        bool is_loaded = true;
        const auto load = [&] {
            (get<I>(cells).load(get<I>(row_x), given.column_step, TeamTile<N, V>::of(teams, lane, begin, n), teams.has_vectors,
                                row_padding<In>(f)),
             ...);
        };
        load();  // in flight during the loads of the row inputs
        auto row = f.start(widen(get<R>(row_inputs.pointer)[r * given.row_step])...);
        Acc all;
        do {
            all = f.identity();
            for (begin = 0; begin < n; begin += tile) {
                if (!is_loaded) load();
                is_loaded = false;
                const auto where = TeamTile<N, V>::of(teams, lane, begin, n);
                typename F::Cached cached[N * V];
#pragma unroll
                for (int i = 0; i < N * V; ++i) {
                    const bool is_cached = F::kZeroPads || kPadsInputs<F> || where.has(i);
                    cached[i] =
                        is_cached ? f.transform(row, where.at(i), widen(get<I>(cells).vector[i / N].lane[i % N])...) : f.pad();
                }
                const Acc mine = f.reduce_tile(row, cached, where);
                all = begin == 0 ? mine : f.combine(all, mine);
            }
            all = lanes > 32 ? combine_block(f, all, exchange, phase++) : combine_lanes(f, all, lanes);
            if constexpr (kHasTarget<F>) {
                const int64_t j = f.target_index(row);
                if (lane == 0 && j >= 0) f.add_target(row, &all, widen(get<0>(row_x)[j * given.column_step]));
            }
        } while (f.finish(row, all, given.columns));
        if (lane != 0) continue;
        sum.add(get<1>(f.saved(row)));
        scaled.add(get<1>(f.saved(row)) * kScale<C>);
    }
    const SumAcc<C> of_block = combine_block(CombineSums<C>{}, SumAcc<C>{sum.result(), scaled.result()}, sum_exchange, 0);
    const SumAcc<C> total = combine_cluster(CombineSums<C>{}, of_block);
    if (blockIdx.x == 0 && threadIdx.x == 0) *out = narrow<T>(total.times(factor));
}

template <class F, class T, class C, class In, class RowIn, int N>
__global__ void __launch_bounds__(kSingleLaunchThreads)
    sum_rows_kernel(F f, StridedRows<N> given, In x, RowIn row_inputs, RowTeams teams, C factor, T* out) {
    sum_rows_by_teams(f, given, x, row_inputs, teams, factor, out, typename In::Indices{}, typename RowIn::Indices{});
}

template <class F, class T, class... In, class... RowIn, size_t... I>
Status sum_rows_in_one_launch(const Launch& launch, const StridedRows<sizeof...(In)>& given, const F& f, const Inputs<In...>& x,
                              const Inputs<RowIn...>& row_inputs, compute_t<T> factor, T* out, std::index_sequence<I...>) {
    constexpr int N = kVectorElements<In...>;
    constexpr int64_t kPerThread = N * kLoadVectors<F, In...>;
    const int64_t n = given.columns;  // fits 32 bits
    const unsigned blocks = given.rows > 1 ? most_cluster_blocks() : 1;
    const int64_t threads = int64_t{blocks} * kSingleLaunchThreads;
    // One thread per row if rows are adjacent and occupy a quarter of the threads; one warp if rows occupy all warps or
    // are short. Serial sums of many tiles lose accuracy, so long rows take a block.
    constexpr int64_t kMostTiles = 256;
    const bool by_threads = given.rows_per_item >= 8 && given.rows >= threads / 4 && n <= kMostTiles * kPerThread;
    const bool by_warps = n <= 32 * kPerThread || (given.rows >= threads / 32 && n <= kMostTiles * 32 * kPerThread);
    const bool has_vectors = given.column_step == 1 && given.rows_per_item == 1 && n % N == 0 &&
                             ((given.stride[I] % N == 0) && ...) && all_aligned(x.pointer, N, std::index_sequence<I...>{});
    const RowTeams teams{by_threads ? 1 : by_warps ? 32 : kSingleLaunchThreads, has_vectors};
    return launch_kernel(launch, Grid{dim3(blocks), dim3(kSingleLaunchThreads), blocks},
                         sum_rows_kernel<F, T, compute_t<T>, Inputs<In...>, Inputs<RowIn...>, static_cast<int>(sizeof...(In))>,
                         f, given, x, row_inputs, teams, factor, out);
}

// Space for the total and for the values of all rows.
template <class C>
size_t row_values_workspace(int64_t rows) {
    return (static_cast<size_t>(std::min(rows, kMaxOperandBytes)) + 2) * sizeof(C);  // empty rows may exceed kMaxOperandBytes
}

template <class T, class C>
Status add_values(const Launch& launch, C* values, int64_t count, C* total, bool is_first, C factor, T* out) {
    int64_t step = 1, pairs = 0;
    if (count > kValuesPerBlock) {
        const int64_t blocks = ceil_div(count, kValuesPerBlock);
        BK_TRY((launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kRowSumThreads)}, sum_values_kernel<T, C>,
                              values, count, step, pairs, kValuesPerBlock, total, is_first, factor, out)));
        pairs = count / kValuesPerBlock + (count % kValuesPerBlock > 1 ? 1 : 0);
        count = blocks;
        step = kValuesPerBlock;
    }
    return launch_kernel(launch, Grid{dim3(1), dim3(kRowSumThreads)}, sum_values_kernel<T, C>, values, count, step, pairs,
                         count, total, is_first, factor, out);
}

template <class F, class T, class... In, class... RowIn>
Status sum_row_values(const Launch& launch, const StridedRows<sizeof...(In)>& given, const F& f, const Inputs<In...>& x,
                      const Inputs<RowIn...>& row_inputs, compute_t<T> factor, T* out) {
    using C = compute_t<T>;
    const uintptr_t address = reinterpret_cast<uintptr_t>(launch.workspace), start = (address + sizeof(C) - 1) / sizeof(C);
    const uintptr_t end = address + (launch.workspace == nullptr ? 0 : launch.workspace_bytes);
    const int64_t capacity = static_cast<int64_t>(end / sizeof(C)) - static_cast<int64_t>(start) - 1;  // less the total
    if (capacity < 1 || launch.workspace == nullptr)
        return sum_rows_in_one_launch(launch, given, f, x, row_inputs, factor, out, std::index_sequence_for<In...>{});
    C* const total = reinterpret_cast<C*>(start * sizeof(C));
    int64_t done = 0;
    for (int64_t first = 0; first < given.rows; first = done) {
        const StridedRows<sizeof...(In)> slice = given.slice(first, capacity);
        done = first + slice.rows;
        const bool is_last = done == given.rows;
        BK_TRY((row_values<F, T>(
            Launch{nullptr, 0, launch.stream}, slice, f, from_row(x, given, first, std::index_sequence_for<In...>{}),
            rows_from(row_inputs, first * given.row_step, std::index_sequence_for<RowIn...>{}), nullptr, total + 1)));
        BK_TRY(add_values(launch, total + 1, slice.rows, total, first == 0, factor, is_last ? out : nullptr));
    }
    return Status::kOk;
}

}  // namespace bk
