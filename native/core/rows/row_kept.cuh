// What a thread keeps of its elements of a row from their loads to the map.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/rows/row_map.h"
#include "core/rows/row_operands.cuh"

namespace bk {

// Elements as hold() and then sum_up() leave them.
template <int N, int V, class F, class Operands>
struct KeptElements {
    using At = typename Operands::At;
    using Row = typename F::Row;
    using Acc = typename F::Acc;
    static constexpr bool kSumsFirst = !F::kOnlySums;  // the map needs sum_up() of what was just loaded
    typename F::Held held[N * V];

    BK_DEVICE void load(const Operands& operands, const F& f, const At& at, const Row& row, const RowTile<N, V>& where) {
        operands.template hold<N, V>(f, at, row, where, held);
    }
    BK_DEVICE Acc sum_up(const Operands&, const F& f, const Row& row, const RowTile<N, V>& where) {
        return f.sum_up(row, held, where);
    }
    BK_DEVICE void map(const Operands& operands, const F& f, const At& at, const Row& row, const Acc& mine,
                       const RowTile<N, V>& where) const {
        operands.template map<N, V>(f, at, row, f.part(row, mine), where, held);
    }
};

// A row function whose map() is its map_again().
template <class F>
struct MappedAgain : F {
    using Part = Nothing;
    template <class Row, class Held, class... K>
    BK_DEVICE auto map(const Row& row, Nothing, int64_t j, const Held& held, K... columns) const {
        return this->map_again(row, j, held, columns...);
    }
    template <class Row, class Held, class... K>
    BK_DEVICE auto map_other(const Row& row, Nothing, const Held& held, K... columns) const {
        return this->map_other_again(row, held, columns...);
    }
};

// The larger of each of two pairs of 16-bit elements in a word; of a number and NaN the number.
template <class T>
BK_DEVICE uint32_t larger_of_pairs(uint32_t a, uint32_t b) {
    using Pair = Vec<T, 2>;
#if BK_ON_GPU
    uint32_t y;
    if constexpr (std::is_same_v<T, bf16>)
        asm("max.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    else
        asm("max.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    return y;
#else
    Pair x = bit_cast<Pair>(a), other = bit_cast<Pair>(b);
    for (int i = 0; i < 2; ++i) x.lane[i] = narrow<T>(::fmaxf(widen(x.lane[i]), widen(other.lane[i])));
    return bit_cast<uint32_t>(x);
#endif
}

// The largest element of vectors.
template <class T, int N, int V>
BK_DEVICE compute_t<T> largest_of(const Pack<Vec<T, N>> (&cell)[V]) {
    if constexpr (sizeof(T) == 2) {
        struct Words {
            uint32_t word[N / 2];
        };
        uint32_t word[V * N / 2];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const Words words = bit_cast<Words>(get<0>(cell[v]));
#pragma unroll
            for (int i = 0; i < N / 2; ++i) word[v * N / 2 + i] = words.word[i];
        }
        const uint32_t pair = reduced(word, [](uint32_t a, uint32_t b) { return larger_of_pairs<T>(a, b); });
        const Vec<T, 2> last = bit_cast<Vec<T, 2>>(pair);
        return LargerOf{}(widen(last.lane[0]), widen(last.lane[1]));
    } else {
        T x[V * N];
#pragma unroll
        for (int i = 0; i < V * N; ++i) x[i] = get<0>(cell[i / N]).lane[i % N];
        return max_of(x);
    }
}

// Row functions of one input whose Acc has the largest element, max, and the sum of exponentials by it may have below(max),
// what these are made by (core/math/exp_below.h). All else that sum_up() gives is first_sums() then, which join(a, b) adds up
// where sums_first() says so.
template <class F, class = void>
constexpr bool kMaxFirst = false;
template <class F>
constexpr bool kMaxFirst<F, std::void_t<decltype(std::declval<const F&>().below(0))>> = true;

// A value that the compiler knows nothing of: what it made of it before is not kept in registers, but made anew.
template <class T>
BK_DEVICE T made_anew(const T& value) {
    struct Words {
        uint32_t word[sizeof(T) / sizeof(uint32_t)];
    };
    Words words = bit_cast<Words>(value);
#pragma unroll
    for (uint32_t& word : words.word) asm volatile("" : "+r"(word));
    return bit_cast<T>(words);
}

// Vectors as they lie in memory: of 16-bit elements twice as many as in the compute type. One after another is summed up, and
// mapped by map_again().
template <int N, int V, class F, class Operands>
struct KeptVectors {
    using At = typename Operands::At;
    using Row = typename F::Row;
    using Acc = typename F::Acc;
    static constexpr bool kSumsFirst = false;
    typename Operands::template Cell<N> cell[V];

    BK_DEVICE void load(const Operands& operands, const F& f, const At& at, const Row&, const RowTile<N, V>& where) {
        operands.template load<N, V>(f, at, where, cell);
    }
    BK_DEVICE Acc sum_up(const Operands& operands, const F& f, const Row& row, const RowTile<N, V>& where) const {
        if constexpr (kMaxFirst<F>)
            return sum_in_steps(operands, f, row, where);
        else
            return sum_vectors(operands, f, row, where);
    }
    BK_DEVICE Acc sum_in_steps(const Operands& operands, const F& f, const Row& row, const RowTile<N, V>& where) const {
        static_assert(kPadsInMemory<F>, "vectors behind the row are pads");
        typename F::Held held[N];
        Acc all = f.identity();
        const auto max = largest_of(cell);
        const auto below = f.below(max);
        typename F::C sum[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const RowTile<N, 1> one = where.vector(v);
            operands.template hold_vector<N>(f, row, one, cell[v], held);
            if (f.sums_first()) all = f.join(all, f.first_sums(row, held, one));
#pragma unroll
            for (auto& x : held) x = below(x);
            sum[v] = sum_of(held);
        }
        all.max = max;
        all.sum = sum_of(sum) * below.scale();
        return all;
    }
    BK_DEVICE Acc sum_vectors(const Operands& operands, const F& f, const Row& row, const RowTile<N, V>& where) const {
        Acc all = f.identity();
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (!where.has_vector(v)) continue;
            const RowTile<N, 1> one = where.vector(v);
            typename F::Held held[N];
            operands.template hold_vector<N>(f, row, one, cell[v], held);
            const Acc mine = f.sum_up(row, held, one);
            all = v == 0 ? mine : f.combine(all, mine);
        }
        return all;
    }
    BK_DEVICE void map(const Operands& operands, const F& f, const At& at, const Row& row, const Acc&,
                       const RowTile<N, V>& where) const {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (!kPadsInMemory<F> && !where.has_vector(v)) continue;
            const RowTile<N, 1> one = where.vector(v);
            typename F::Held held[N];
            operands.template hold_vector<N>(f, row, one, made_anew(cell[v]), held);
            operands.template map<N, 1>(MappedAgain<F>{f}, at, row, Nothing{}, one, held);
        }
    }
};

// Vectors of N that a thread keeps: as many elements as may be, or few, so that there are more threads.
template <class F, int N>
constexpr int kManyElementVectors = std::max<int>(1, F::kHeldBytes / static_cast<int>(sizeof(typename F::Held)) / N);
template <class F, int N>
constexpr int kFewRowVectors = std::max<int>(1, 32 / static_cast<int>(sizeof(typename F::Held)) / N);

template <class F, int N, class Operands>
constexpr int kManyKeptVectors = std::max<int>(1, F::kKeptBytes / Operands::kElementBytes / N);
template <class F, int N, class Operands>
constexpr bool kKeepsVectors =
    std::is_same_v<typename F::MapsAgain, F> && N > 1 && kManyKeptVectors<F, N, Operands> > kManyElementVectors<F, N>;
template <class F, int N, class Operands>
constexpr int kManyRowVectors = kKeepsVectors<F, N, Operands> ? kManyKeptVectors<F, N, Operands> : kManyElementVectors<F, N>;

template <int N, int V, class F, class Operands>
using Kept =
    std::conditional_t<kKeepsVectors<F, N, Operands> && V == kManyRowVectors<F, N, Operands> && V != kFewRowVectors<F, N>,
                       KeptVectors<N, V, F, Operands>, KeptElements<N, V, F, Operands>>;

}  // namespace bk
