// SPDX-License-Identifier: Apache-2.0
// Register cache of a thread's elements of a row, from load to map: transformed elements, or raw input vectors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/row/row_map.h"
#include "core/row/row_operands.cuh"

namespace bk {

// Caches elements as left by transform() and reduce_tile().
template <int N, int V, class F, class Operands>
struct CachedElements {
    using At = typename Operands::At;
    using Row = typename F::Row;
    using Acc = typename F::Acc;
    static constexpr bool kReducesBeforeMap = !F::kPureReduce;  // a reload needs reduce_tile() before map()
    typename F::Cached cached[N * V];

    BK_DEVICE void load(const Operands& operands, const F& f, const At& at, const Row& row, const RowTile<N, V>& where) {
        operands.template transform<N, V>(f, at, row, where, cached);
    }
    BK_DEVICE Acc reduce_tile(const Operands&, const F& f, const Row& row, const RowTile<N, V>& where) {
        return f.reduce_tile(row, cached, where);
    }
    BK_DEVICE void map(const Operands& operands, const F& f, const At& at, const Row& row, const Acc& mine,
                       const RowTile<N, V>& where) const {
        operands.template map<N, V>(f, at, row, f.tile_params(row, mine), where, cached);
    }
};

// Adapter: map() calls map_recompute().
template <class F>
struct Recomputed : F {
    using TileParams = Nothing;
    template <class Row, class Cached, class... K>
    BK_DEVICE auto map(const Row& row, Nothing, int64_t j, const Cached& cached, K... columns) const {
        return this->map_recompute(row, j, cached, columns...);
    }
    template <class Row, class Cached, class... K>
    BK_DEVICE auto map_non_target(const Row& row, Nothing, const Cached& cached, K... columns) const {
        return this->map_non_target_recompute(row, cached, columns...);
    }
};

// Lane-wise maximum of two pairs of 16-bit floats; NaN loses to a number.
template <class T>
BK_DEVICE uint32_t max_of_pairs(uint32_t a, uint32_t b) {
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

// Maximum over all elements of V vectors.
template <class T, int N, int V>
BK_DEVICE compute_t<T> max_of_vectors(const Pack<Vec<T, N>> (&cell)[V]) {
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
        const uint32_t pair = reduce_array(word, [](uint32_t a, uint32_t b) { return max_of_pairs<T>(a, b); });
        const Vec<T, 2> last = bit_cast<Vec<T, 2>>(pair);
        return MaxOp{}(widen(last.lane[0]), widen(last.lane[1]));
    } else {
        T x[V * N];
#pragma unroll
        for (int i = 0; i < V * N; ++i) x[i] = get<0>(cell[i / N]).lane[i % N];
        return max_of(x);
    }
}

// Optional members of one-input functions whose Acc has `max` and `sum` = sum of exp(x - max): shifted_exp(max) is the
// exponential shifted by max (core/math/exp_below.h); reduce_without_exp() is reduce_tile() without `sum`, needed if
// has_sums_without_exp() and added up by combine_same_base(a, b).
template <class F, class = void>
constexpr bool kHasShiftedExp = false;
template <class F>
constexpr bool kHasShiftedExp<F, std::void_t<decltype(std::declval<const F&>().shifted_exp(0))>> = true;

// Launders a value: the compiler recomputes what derives from it and keeps no registers for that.
template <class T>
BK_DEVICE T launder(const T& value) {
    struct Words {
        uint32_t word[sizeof(T) / sizeof(uint32_t)];
    };
    Words words = bit_cast<Words>(value);
#pragma unroll
    for (uint32_t& word : words.word) asm volatile("" : "+r"(word));
    return bit_cast<T>(words);
}

// Caches raw input vectors: of 16-bit types twice as many elements as in f32. Each vector is transformed and reduced in
// order, then transformed again for map_recompute().
template <int N, int V, class F, class Operands>
struct CachedVectors {
    using At = typename Operands::At;
    using Row = typename F::Row;
    using Acc = typename F::Acc;
    static constexpr bool kReducesBeforeMap = false;
    typename Operands::template Cell<N> cell[V];

    BK_DEVICE void load(const Operands& operands, const F& f, const At& at, const Row&, const RowTile<N, V>& where) {
        operands.template load<N, V>(f, at, where, cell);
    }
    BK_DEVICE Acc reduce_tile(const Operands& operands, const F& f, const Row& row, const RowTile<N, V>& where) const {
        if constexpr (kHasShiftedExp<F>)
            return reduce_shifted_exp(operands, f, row, where);
        else
            return reduce_vectors(operands, f, row, where);
    }
    BK_DEVICE Acc reduce_shifted_exp(const Operands& operands, const F& f, const Row& row, const RowTile<N, V>& where) const {
        static_assert(kPadsInputs<F>, "vectors past the row end are pads");
        typename F::Cached cached[N];
        Acc all = f.identity();
        const auto max = max_of_vectors(cell);
        const auto shifted_exp = f.shifted_exp(max);
        typename F::C sum[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const RowTile<N, 1> one = where.vector(v);
            operands.template transform_vector<N>(f, row, one, cell[v], cached);
            if (f.has_sums_without_exp()) all = f.combine_same_base(all, f.reduce_without_exp(row, cached, one));
#pragma unroll
            for (auto& x : cached) x = shifted_exp(x);
            sum[v] = sum_of(cached);
        }
        all.max = max;
        all.sum = sum_of(sum) * shifted_exp.scale();
        return all;
    }
    BK_DEVICE Acc reduce_vectors(const Operands& operands, const F& f, const Row& row, const RowTile<N, V>& where) const {
        Acc all = f.identity();
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (!where.has_vector(v)) continue;
            const RowTile<N, 1> one = where.vector(v);
            typename F::Cached cached[N];
            operands.template transform_vector<N>(f, row, one, cell[v], cached);
            const Acc mine = f.reduce_tile(row, cached, one);
            all = v == 0 ? mine : f.combine(all, mine);
        }
        return all;
    }
    BK_DEVICE void map(const Operands& operands, const F& f, const At& at, const Row& row, const Acc&,
                       const RowTile<N, V>& where) const {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (!kPadsInputs<F> && !where.has_vector(v)) continue;
            const RowTile<N, 1> one = where.vector(v);
            typename F::Cached cached[N];
            operands.template transform_vector<N>(f, row, one, launder(cell[v]), cached);
            operands.template map<N, 1>(Recomputed<F>{f}, at, row, Nothing{}, one, cached);
        }
    }
};

// Vectors of N that a thread caches: as many as registers allow, or 32 bytes for more threads.
template <class F, int N>
constexpr int kMaxTransformedVectors = std::max<int>(1, F::kCachedBytes / static_cast<int>(sizeof(typename F::Cached)) / N);
template <class F, int N>
constexpr int kFewVectors = std::max<int>(1, 32 / static_cast<int>(sizeof(typename F::Cached)) / N);

template <class F, int N, class Operands>
constexpr int kMaxRawVectors = std::max<int>(1, F::kCachedInputBytes / Operands::kElementBytes / N);
template <class F, int N, class Operands>
constexpr bool kCachesRaw =
    std::is_same_v<typename F::RecomputesMap, F> && N > 1 && kMaxRawVectors<F, N, Operands> > kMaxTransformedVectors<F, N>;
template <class F, int N, class Operands>
constexpr int kMaxVectors = kCachesRaw<F, N, Operands> ? kMaxRawVectors<F, N, Operands> : kMaxTransformedVectors<F, N>;

template <int N, int V, class F, class Operands>
using CachedTile = std::conditional_t<kCachesRaw<F, N, Operands> && V == kMaxVectors<F, N, Operands> && V != kFewVectors<F, N>,
                                      CachedVectors<N, V, F, Operands>, CachedElements<N, V, F, Operands>>;

}  // namespace bk
