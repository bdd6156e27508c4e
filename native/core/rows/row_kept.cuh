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
};

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

    BK_DEVICE void load(const Operands& operands, const F&, const At& at, const Row&, const RowTile<N, V>& where) {
        operands.template load<N, V>(at, where, cell);
    }
    BK_DEVICE Acc sum_up(const Operands& operands, const F& f, const Row& row, const RowTile<N, V>& where) const {
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
            if (!where.has_vector(v)) continue;
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
