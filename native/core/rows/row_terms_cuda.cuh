#pragma once

#include <algorithm>
#include <cstdint>

#include "core/reduce/combine_cluster.cuh"
#include "core/reduce/sums.h"
#include "core/rows/row_exchange.cuh"
#include "core/rows/row_kept.cuh"
#include "core/rows/row_terms.h"

namespace bk {

constexpr int kTermThreads = 256;
constexpr int64_t kTermsOfBlock = 4096;

// Of a block; every thread has it.
template <class C>
BK_DEVICE C sum_threads(C mine) {
    __shared__ C part[kTermThreads];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int half = kTermThreads / 2; half > 0; half /= 2) {
        if (static_cast<int>(threadIdx.x) < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    return part[0];
}

// Terms that lie `step` apart, `each` of them to a block, whose sum takes the place of its first one and whose scaled sum,
// which has a range to spare, that of the second, if there is one. With one block the sum is added to *total and, if `out` is
// there, written. Scaled sums stand behind the first `pairs` terms.
template <class T, class C>
__global__ void __launch_bounds__(kTermThreads)
    sum_terms(C* terms, int64_t count, int64_t step, int64_t pairs, int64_t each, C* total, bool is_first, C factor, T* out) {
    const int64_t begin = blockIdx.x * each, end = min(begin + each, count);
    C sum = 0, scaled = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += kTermThreads) {
        sum += terms[i * step];
        scaled += i < pairs ? terms[i * step + 1] : terms[i * step] * kScale<C>;
    }
    sum = sum_threads(sum);
    __syncthreads();
    scaled = sum_threads(scaled);
    if (threadIdx.x != 0) return;
    if (gridDim.x > 1) {
        terms[begin * step] = sum;
        if (begin + 1 < count) terms[begin * step + 1] = scaled;
        return;
    }
    if (!is_first) {
        sum += *total;
        scaled += *total * kScale<C>;
    }
    *total = sum;
    if (out != nullptr) *out = narrow<T>(SumAcc<C>{sum, scaled}.times(factor));
}

// One sum after another, in runs of 64 and of 64 runs, so that the error grows with the roots of as many.
template <class C>
class LongSum {
    static constexpr int kRun = 64;
    C own_ = 0, runs_ = 0, all_ = 0;
    int terms_ = 0;

public:
    BK_DEVICE void add(C term) {
        own_ += term;
        if (++terms_ % kRun != 0) return;
        runs_ += own_;
        own_ = 0;
        if (terms_ != kRun * kRun) return;
        all_ += runs_;
        runs_ = 0;
        terms_ = 0;
    }
    BK_DEVICE C result() const { return all_ + runs_ + own_; }
};

// Sums, and beside them those of the scaled terms, which have a range to spare.
template <class C>
struct AddSums {
    using Acc = SumAcc<C>;
    BK_DEVICE Acc identity() const { return {0, 0}; }
    BK_DEVICE Acc combine(const Acc& a, const Acc& b) const { return {a.sum + b.sum, a.recent + b.recent}; }
};

// Without a workspace there is one launch, of blocks that can add up what each of them has: those of a cluster, or one where
// chips have no clusters. A block has a multiprocessor to itself; of 1024 threads each would have fewer loads in flight.
constexpr int kAloneThreads = 768;

// How the threads of a launch share rows: a team has one row after another, as many rows apart as there are teams.
struct TermTeams {
    int lanes;         // threads of a team: one, a warp, or a block
    bool has_vectors;  // whether every row is whole vectors
};

// Elements of a vector, and vectors that a thread loads at once: of as many elements as it may hold, and of at most 128 bytes
// of all inputs; of f64, whose functions need registers, of 64.
template <class... In>
constexpr int kTermLanes = kVectorBytes / static_cast<int>(std::max({sizeof(In)...}));
template <class... In>
constexpr int kTermBytes = kTermLanes<In...> == 2 ? 64 : 128;
template <class F, class... In>
constexpr int kTermVectors =
    std::max(1, std::min(kManyElementVectors<F, kTermLanes<In...>>,
                         kTermBytes<In...> / (kTermLanes<In...> * (static_cast<int>(sizeof(In)) + ...))));

// The positions of a thread's elements: V times N neighbours in a row of whole vectors, or N that a team's threads lie between.
template <int N, int V>
struct TermTile {
    static constexpr int width = 1;
    uint32_t first, vector_step, step, n;  // positions behind a row of any length still fit
    BK_DEVICE static TermTile of(const TermTeams& teams, uint32_t lane, uint32_t begin, uint32_t n) {
        const uint32_t lanes = static_cast<uint32_t>(teams.lanes);
        return {begin + (teams.has_vectors ? lane * N : lane), lanes * N, teams.has_vectors ? 1 : lanes, n};
    }
    BK_DEVICE uint32_t place(int i) const { return first + i / N * vector_step + i % N * step; }
    BK_DEVICE int position(int i) const { return static_cast<int>(place(i)); }
    BK_DEVICE bool has(int i) const { return place(i) < n; }
    BK_DEVICE int64_t at(int i) const { return position(i); }
    BK_DEVICE int count() const {
        int elements = 0;
#pragma unroll
        for (int i = 0; i < N * V; ++i) elements += has(i);
        return elements;
    }
};

// A thread's elements of an input. All are loaded before the first is waited for.
template <class T, int N, int V>
struct TermCells {
    Vec<T, N> vector[V];
    BK_DEVICE void load(const T* row, int64_t step, const TermTile<N, V>& where, bool has_vectors, T behind_row) {
#pragma unroll
        for (int i = 0; i < N * V; ++i) vector[i / N].lane[i % N] = behind_row;
        if (has_vectors) {
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (where.has(v * N)) vector[v] = bk::load<N>(row + where.place(v * N));
        } else {
#pragma unroll
            for (int i = 0; i < N * V; ++i)
                if (where.has(i)) vector[i / N].lane[i % N] = row[where.place(i) * step];
        }
    }
};

// What an input has behind a row.
template <class T, class F>
BK_DEVICE T behind_row([[maybe_unused]] const F& f) {
    if constexpr (kPadsInMemory<F>)
        return narrow<T>(f.pad());
    else
        return T{};
}

template <class F, class T, class C, class... In, class... RowIn, size_t... I, size_t... R>
BK_DEVICE void sum_rows_of_teams(const F& f, const TermRows<sizeof...(In)>& given, const Inputs<In...>& x,
                                 const Inputs<RowIn...>& row_inputs, const TermTeams& teams, C factor, T* out,
                                 std::index_sequence<I...>, std::index_sequence<R...>) {
    using Acc = typename F::Acc;
    constexpr int N = kTermLanes<In...>, V = kTermVectors<F, In...>;
    __shared__ RowExchange<Acc> exchange;
    __shared__ RowExchange<SumAcc<C>> of_terms;
    const int lanes = teams.lanes, lane = static_cast<int>(threadIdx.x) % lanes;
    const uint32_t n = static_cast<uint32_t>(given.columns), tile = static_cast<uint32_t>(lanes * N * V);
    const int teams_of_block = kAloneThreads / lanes, step = static_cast<int>(gridDim.x) * teams_of_block;
    const int64_t first = static_cast<int>(blockIdx.x) * teams_of_block + static_cast<int>(threadIdx.x) / lanes;
    LongSum<C> sum, scaled;
    int turn = 0;
    for (int64_t r = first; r < given.rows; r += step) {
        const Pack<const In*...> of_row = pack(get<I>(x.pointer) + given.offset(I, r)...);
        Pack<TermCells<In, N, V>...> cells;
        uint32_t begin = 0;
        bool is_loaded = true;
        const auto load = [&] {
            (get<I>(cells).load(get<I>(of_row), given.column_step, TermTile<N, V>::of(teams, lane, begin, n), teams.has_vectors,
                                behind_row<In>(f)),
             ...);
        };
        load();  // on their way while what the row starts with is waited for
        auto row = f.start(widen(get<R>(row_inputs.pointer)[r * given.row_step])...);
        Acc all;
        do {
            all = f.identity();
            for (begin = 0; begin < n; begin += tile) {
                if (!is_loaded) load();
                is_loaded = false;
                const auto where = TermTile<N, V>::of(teams, lane, begin, n);
                typename F::Held held[N * V];
#pragma unroll
                for (int i = 0; i < N * V; ++i) {
                    const bool is_held = F::kHoldsZeros || kPadsInMemory<F> || where.has(i);
                    held[i] = is_held ? f.hold(row, where.at(i), widen(get<I>(cells).vector[i / N].lane[i % N])...) : f.pad();
                }
                const Acc mine = f.sum_up(row, held, where);
                all = begin == 0 ? mine : f.combine(all, mine);
            }
            all = lanes > 32 ? combine_block(f, all, exchange, turn++) : combine_lanes(f, all, lanes);
            if constexpr (kPicks<F>) {
                const int64_t j = f.picks(row);
                if (lane == 0 && j >= 0) f.pick(row, &all, widen(get<0>(of_row)[j * given.column_step]));
            }
        } while (f.finish(row, all, given.columns));
        if (lane != 0) continue;
        sum.add(get<1>(f.saved(row)));
        scaled.add(get<1>(f.saved(row)) * kScale<C>);
    }
    const SumAcc<C> of_block = combine_block(AddSums<C>{}, SumAcc<C>{sum.result(), scaled.result()}, of_terms, 0);
    const SumAcc<C> total = combine_cluster(AddSums<C>{}, of_block);
    if (blockIdx.x == 0 && threadIdx.x == 0) *out = narrow<T>(total.times(factor));
}

template <class F, class T, class C, class In, class RowIn, int N>
__global__ void __launch_bounds__(kAloneThreads)
    sum_rows_alone(F f, TermRows<N> given, In x, RowIn row_inputs, TermTeams teams, C factor, T* out) {
    sum_rows_of_teams(f, given, x, row_inputs, teams, factor, out, typename In::Indices{}, typename RowIn::Indices{});
}

template <class F, class T, class... In, class... RowIn, size_t... I>
Status sum_rows_in_one_launch(const Launch& launch, const TermRows<sizeof...(In)>& given, const F& f, const Inputs<In...>& x,
                              const Inputs<RowIn...>& row_inputs, compute_t<T> factor, T* out, std::index_sequence<I...>) {
    constexpr int N = kTermLanes<In...>;
    constexpr int64_t kOfThread = N * kTermVectors<F, In...>;
    const int64_t n = given.columns;  // of 32 bits
    const unsigned blocks = given.rows > 1 ? most_cluster_blocks() : 1;
    const int64_t threads = int64_t{blocks} * kAloneThreads;
    // A thread takes a row where rows lie side by side and many threads get one; a warp takes one where every warp gets one, or
    // where it is short. A thread that adds up many tiles of a row, one after another, loses digits: a block takes long rows.
    constexpr int64_t kMostTiles = 256;
    const bool across = given.neighbours >= 8 && given.rows >= threads / 4 && n <= kMostTiles * kOfThread;
    const bool by_warps = n <= 32 * kOfThread || (given.rows >= threads / 32 && n <= kMostTiles * 32 * kOfThread);
    const bool has_vectors = given.column_step == 1 && given.neighbours == 1 && n % N == 0 &&
                             ((given.stride[I] % N == 0) && ...) && all_aligned(x.pointer, N, std::index_sequence<I...>{});
    const TermTeams teams{across ? 1 : by_warps ? 32 : kAloneThreads, has_vectors};
    return launch_kernel(launch, Grid{dim3(blocks), dim3(kAloneThreads), blocks},
                         sum_rows_alone<F, T, compute_t<T>, Inputs<In...>, Inputs<RowIn...>, static_cast<int>(sizeof...(In))>,
                         f, given, x, row_inputs, teams, factor, out);
}

// The total, and the terms of as many rows as there is room for.
template <class C>
size_t row_terms_workspace(int64_t rows) {
    return (static_cast<size_t>(std::min(rows, kMostBytes)) + 2) * sizeof(C);  // of rows without elements there may be more
}

template <class T, class C>
Status add_terms(const Launch& launch, C* terms, int64_t count, C* total, bool is_first, C factor, T* out) {
    int64_t step = 1, pairs = 0;
    if (count > kTermsOfBlock) {
        const int64_t blocks = ceil_div(count, kTermsOfBlock);
        BK_TRY((launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kTermThreads)}, sum_terms<T, C>, terms,
                              count, step, pairs, kTermsOfBlock, total, is_first, factor, out)));
        pairs = count / kTermsOfBlock + (count % kTermsOfBlock > 1 ? 1 : 0);
        count = blocks;
        step = kTermsOfBlock;
    }
    return launch_kernel(launch, Grid{dim3(1), dim3(kTermThreads)}, sum_terms<T, C>, terms, count, step, pairs, count, total,
                         is_first, factor, out);
}

template <class F, class T, class... In, class... RowIn>
Status sum_row_terms(const Launch& launch, const TermRows<sizeof...(In)>& given, const F& f, const Inputs<In...>& x,
                     const Inputs<RowIn...>& row_inputs, compute_t<T> factor, T* out) {
    using C = compute_t<T>;
    const uintptr_t address = reinterpret_cast<uintptr_t>(launch.workspace), start = (address + sizeof(C) - 1) / sizeof(C);
    const uintptr_t end = address + (launch.workspace == nullptr ? 0 : launch.workspace_bytes);
    const int64_t room = static_cast<int64_t>(end / sizeof(C)) - static_cast<int64_t>(start) - 1;  // one is the total's
    if (room < 1 || launch.workspace == nullptr)
        return sum_rows_in_one_launch(launch, given, f, x, row_inputs, factor, out, std::index_sequence_for<In...>{});
    C* const total = reinterpret_cast<C*>(start * sizeof(C));
    int64_t done = 0;
    for (int64_t first = 0; first < given.rows; first = done) {
        const TermRows<sizeof...(In)> run = given.run(first, room);
        done = first + run.rows;
        const bool is_last = done == given.rows;
        BK_TRY((row_terms<F, T>(
            Launch{nullptr, 0, launch.stream}, run, f, from_row(x, given, first, std::index_sequence_for<In...>{}),
            rows_from(row_inputs, first * given.row_step, std::index_sequence_for<RowIn...>{}), nullptr, total + 1)));
        BK_TRY(add_terms(launch, total + 1, run.rows, total, first == 0, factor, is_last ? out : nullptr));
    }
    return Status::kOk;
}

}  // namespace bk
