#pragma once

#include <algorithm>
#include <cstdint>

#include "core/rows/row_terms.h"

namespace bk {

constexpr int kTermThreads = 256;
constexpr int64_t kTermsOfBlock = 16384;

// Of a block; thread 0 has it.
template <class C>
BK_DEVICE C sum_threads(C mine) {
    __shared__ C part[kTermThreads];
    part[threadIdx.x] = mine;
    for (int half = kTermThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    const C all = threadIdx.x == 0 ? part[0] : C(0);  // written by itself
    __syncthreads();
    return all;
}

// Terms that lie `step` apart, `each` of them to a block, whose sum takes the place of its first one. With one block the sum
// is added to *total and, if `out` is there, written.
template <class T, class C>
__global__ void __launch_bounds__(kTermThreads)
    sum_terms(C* terms, int64_t count, int64_t step, int64_t each, C* total, bool is_first, C factor, T* out) {
    const int64_t begin = blockIdx.x * each, end = min(begin + each, count);
    C sum = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += kTermThreads) sum += terms[i * step];
    sum = sum_threads(sum);
    if (threadIdx.x != 0) return;
    if (gridDim.x > 1) {
        terms[begin * step] = sum;
        return;
    }
    if (!is_first) sum += *total;
    *total = sum;
    if (out != nullptr) *out = narrow<T>(sum * factor);
}

// A thread's element of a row.
struct OneCell {
    static constexpr int width = 1;
    int64_t place;
    bool exists;
    BK_DEVICE bool has(int) const { return exists; }
    BK_DEVICE int count() const { return exists ? 1 : 0; }
    BK_DEVICE int64_t at(int) const { return place; }
    BK_DEVICE int position(int) const { return static_cast<int>(place); }
};

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

// One block, row after row.
template <class F, class T, class C, class In, class RowIn, size_t... I, size_t... R>
BK_DEVICE void sum_each_row(const F& f, const TermRows<sizeof...(I)>& given, const In& x, const RowIn& row_inputs, C factor,
                            T* out, std::index_sequence<I...>, std::index_sequence<R...>) {
    using Acc = typename F::Acc;
    __shared__ RowExchange<Acc> exchange;
    LongSum<C> sum;
    int turn = 0;
    for (int64_t r = 0; r < given.rows; ++r) {
        auto row = f.start(widen(get<R>(row_inputs.pointer)[r * given.row_step])...);
        Acc all;
        do {
            all = f.identity();
            for (int64_t j = threadIdx.x; j < given.columns; j += kTermThreads) {
                typename F::Held held[1] = {
                    f.hold(row, j, widen(get<I>(x.pointer)[given.offset(I, r) + j * given.column_step])...)};
                all = f.combine(all, f.sum_up(row, held, OneCell{j, true}));
            }
            all = combine_block(f, all, exchange, turn++);
            if constexpr (kPicks<F>) {
                const int64_t j = f.picks(row);
                if (threadIdx.x == 0 && j >= 0)
                    f.pick(row, &all, widen(get<0>(x.pointer)[given.offset(0, r) + j * given.column_step]));
            }
        } while (f.finish(row, all, given.columns));
        sum.add(get<1>(f.saved(row)));
    }
    if (threadIdx.x == 0) *out = narrow<T>(sum.result() * factor);
}

template <class F, class T, class C, class In, class RowIn, int N>
__global__ void __launch_bounds__(kTermThreads)
    sum_rows_of_block(F f, TermRows<N> given, In x, RowIn row_inputs, C factor, T* out) {
    sum_each_row(f, given, x, row_inputs, factor, out, typename In::Indices{}, typename RowIn::Indices{});
}

// The total, and the terms of as many rows as there is room for.
template <class C>
size_t row_terms_workspace(int64_t rows) {
    return (static_cast<size_t>(rows) + 2) * sizeof(C);
}

template <class T, class C>
Status add_terms(const Launch& launch, C* terms, int64_t count, C* total, bool is_first, C factor, T* out) {
    int64_t step = 1;
    if (count > kTermsOfBlock) {
        const int64_t blocks = ceil_div(count, kTermsOfBlock);
        BK_TRY((launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kTermThreads)}, sum_terms<T, C>, terms,
                              count, step, kTermsOfBlock, total, is_first, factor, out)));
        count = blocks;
        step = kTermsOfBlock;
    }
    return launch_kernel(launch, Grid{dim3(1), dim3(kTermThreads)}, sum_terms<T, C>, terms, count, step, count, total, is_first,
                         factor, out);
}

template <class F, class T, class... In, class... RowIn>
Status sum_row_terms(const Launch& launch, const TermRows<sizeof...(In)>& given, const F& f, const Inputs<In...>& x,
                     const Inputs<RowIn...>& row_inputs, compute_t<T> factor, T* out) {
    using C = compute_t<T>;
    const uintptr_t address = reinterpret_cast<uintptr_t>(launch.workspace), start = (address + sizeof(C) - 1) / sizeof(C);
    const uintptr_t end = address + (launch.workspace == nullptr ? 0 : launch.workspace_bytes);
    const int64_t room = static_cast<int64_t>(end / sizeof(C)) - static_cast<int64_t>(start) - 1;  // one is the total's
    if (room < 1 || launch.workspace == nullptr)
        return launch_kernel(launch, Grid{dim3(1), dim3(kTermThreads)},
                             sum_rows_of_block<F, T, C, Inputs<In...>, Inputs<RowIn...>, static_cast<int>(sizeof...(In))>, f,
                             given, x, row_inputs, factor, out);
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
