// What the kernels of rows share: loads and stores of a thread's elements, and the exchange of statistics between threads.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "core/pointwise/layout.h"
#include "core/pointwise/pointwise.h"
#include "core/reduce/pointwise_sum.h"
#include "core/types/pack.h"

namespace bk {

// A thread's neighbours: positions first, first + 1, ... of a row of n.
struct RowSpan {
    int64_t first, n;
    BK_DEVICE bool has(int i) const { return first + i < n; }
    template <int N>
    BK_DEVICE int count_of() const {
        return static_cast<int>(n - first < N ? n - first : N);
    }
    BK_DEVICE int count() const { return count_of<4>(); }
    BK_DEVICE int64_t at(int i) const { return first + i; }
};

template <int Full, int Single, class X, class K, class P, class Y, class S>
struct RowOperands;

template <int Full, int Single, class... In, class... Column, class... RowIn, class... Out, class... Saved>
struct RowOperands<Full, Single, Inputs<In...>, Inputs<Column...>, Inputs<RowIn...>, Outputs<Out...>, Outputs<Saved...>> {
    using At = Offsets<Full + Single, uint64_t>;
    static constexpr int kIn = sizeof...(In), kRowIn = sizeof...(RowIn);
    LongWalk<Full> inner;
    Walk<Full + Single, uint64_t> outer;
    int64_t n;
    Pack<const In*...> x;
    Pack<const Column*...> columns;
    Pack<const RowIn*...> row_inputs;
    Pack<Out*...> y;
    Pack<Saved*...> saved;

    BK_DEVICE At row(int64_t r) const { return outer(static_cast<uint64_t>(r)); }

    template <class F, size_t... I>
    BK_DEVICE typename F::Row start_of(const F& f, const At& at, std::index_sequence<I...>) const {
        return f.start(widen(get<I>(row_inputs)[signed_offset(at.of[Full + I])])...);
    }
    template <class F>
    BK_DEVICE typename F::Row start(const F& f, const At& at) const {
        return start_of(f, at, std::index_sequence_for<RowIn...>{});
    }

    template <class F, int N, class W, size_t... I>
    BK_DEVICE void hold_each(const F& f, const At& at, const typename F::Row& row, const W& where, typename F::Held (&held)[N],
                             std::index_sequence<I...>) const {
        Pack<In...> cell[N];
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (!where.has(i)) continue;
            int64_t offset[Full] = {};
            inner(static_cast<uint32_t>(where.at(i)), offset);
            ((get<I>(cell[i]) = get<I>(x)[signed_offset(at.of[I]) + offset[I]]), ...);
        }
#pragma unroll
        for (int i = 0; i < N; ++i) held[i] = where.has(i) ? f.hold(row, where.at(i), widen(get<I>(cell[i]))...) : f.pad();
    }
    template <class F, int N, class W>
    BK_DEVICE void hold(const F& f, const At& at, const typename F::Row& row, const W& where,
                        typename F::Held (&held)[N]) const {
        hold_each(f, at, row, where, held, std::index_sequence_for<In...>{});
    }

    template <class... C, size_t... O>
    BK_DEVICE void store_each(const At& at, const int64_t (&offset)[Full], const Pack<C...>& result,
                              std::index_sequence<O...>) const {
        ((get<O>(y) == nullptr
              ? (void)0
              : (void)(get<O>(y)[signed_offset(at.of[kIn + O]) + offset[kIn + O]] = narrow<Out>(get<O>(result)))),
         ...);
    }

    template <class T>
    static BK_DEVICE compute_t<T> column_at(const T* column, int64_t j) {
        return column == nullptr ? compute_t<T>(0) : widen(column[j]);
    }

    template <class F, int N, class W, size_t... K>
    BK_DEVICE void map_each(const F& f, const At& at, const typename F::Row& row, const typename F::Part& part, const W& where,
                            const typename F::Held (&held)[N], std::index_sequence<K...>) const {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (!where.has(i)) continue;
            const int64_t j = where.at(i);
            int64_t offset[Full] = {};
            inner(static_cast<uint32_t>(j), offset);
            store_each(at, offset, f.map(row, part, j, held[i], column_at(get<K>(columns), j)...),
                       std::index_sequence_for<Out...>{});
        }
    }
    template <class F, int N, class W>
    BK_DEVICE void map(const F& f, const At& at, const typename F::Row& row, const typename F::Part& part, const W& where,
                       const typename F::Held (&held)[N]) const {
        map_each(f, at, row, part, where, held, std::index_sequence_for<Column...>{});
    }

    template <class Result, size_t... I>
    BK_DEVICE void save_each(const At& at, const Result& result, std::index_sequence<I...>) const {
        ((get<I>(saved) == nullptr ? (void)0
                                   : (void)(get<I>(saved)[signed_offset(at.of[Full + kRowIn + I])] =
                                                narrow<Saved>(get<I>(result)))),
         ...);
    }
    template <class F>
    BK_DEVICE void save(const F& f, const At& at, const typename F::Row& row) const {
        save_each(at, f.saved(row), std::index_sequence_for<Saved...>{});
    }
};

// --- statistics between threads ---------------------------------------------------------------------------------------

template <class Acc>
BK_DEVICE Acc shuffle_xor(const Acc& mine, int distance) {
    constexpr int kWords = (sizeof(Acc) + 3) / 4;
    static_assert(sizeof(Acc) % 4 == 0, "words");
    uint32_t word[kWords];
    memcpy(word, &mine, sizeof(Acc));
#pragma unroll
    for (int i = 0; i < kWords; ++i) word[i] = __shfl_xor_sync(0xffffffffu, word[i], distance);
    Acc other;
    memcpy(&other, word, sizeof(Acc));
    return other;
}

// Of `lanes` neighbours, a power of two up to a warp; all of them get the same bits.
template <class F>
BK_DEVICE typename F::Acc combine_lanes(const F& f, typename F::Acc mine, int lanes) {
    for (int distance = 1; distance < lanes; distance *= 2) {
        const auto other = shuffle_xor(mine, distance);
        mine = threadIdx.x & distance ? f.combine(other, mine) : f.combine(mine, other);
    }
    return mine;
}

// Two places for each warp, taken in turns, so that one barrier an exchange is enough.
template <class Acc>
struct RowExchange {
    Acc part[2][32];
};

// Of a block; all threads get the same bits.
template <class F>
BK_DEVICE typename F::Acc combine_block(const F& f, typename F::Acc mine, RowExchange<typename F::Acc>& exchange, int turn) {
    const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
    mine = combine_lanes(f, mine, 32);
    if (lane == 0) exchange.part[turn & 1][threadIdx.x / 32] = mine;
    __syncthreads();
    mine = lane < warps ? exchange.part[turn & 1][lane] : f.identity();
    return combine_lanes(f, mine, 32);
}

}  // namespace bk
