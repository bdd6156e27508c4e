// SPDX-License-Identifier: Apache-2.0
// Loads, stores and address computation for a thread's elements of a row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/gather/bypass_l1.cuh"
#include "core/layout/layout.h"
#include "core/layout/long_walk.h"
#include "core/pointwise/pointwise.h"
#include "core/types/pack.h"

namespace bk {

// Indices of a thread's elements: V vectors of N, the first at `first`, the others `step` apart. The row length is a
// multiple of N, so a vector lies wholly inside the row or wholly past its end.
template <int N, int V>
struct RowTile {
    static constexpr int width = N;
    int first, step, n;
    BK_DEVICE int position(int i) const { return first + i / N * step + i % N; }
    BK_DEVICE bool has_vector(int v) const { return first + v * step < n; }
    BK_DEVICE bool has(int i) const { return has_vector(i / N); }
    BK_DEVICE int64_t at(int i) const { return position(i); }
    BK_DEVICE RowTile<N, 1> vector(int v) const { return {first + v * step, step, n}; }
    BK_DEVICE int count() const {
        int vectors = 0;
#pragma unroll
        for (int v = 0; v < V; ++v) vectors += has_vector(v);
        return vectors * N;
    }
};

// Vectors that a map-only thread loads at once: 64 bytes of inputs.
template <int N, class Operands>
constexpr int kVectorsAtOnce = std::max(1, 64 / (Operands::kElementBytes * N));

// Optional member of row functions of one input: kPadsInputs is true if the input type has the value pad() and transform()
// maps it to pad(). Vectors past the row end are then filled with pad() and need no test per element.
template <class F, class = void>
constexpr bool kPadsInputs = false;
template <class F>
constexpr bool kPadsInputs<F, std::void_t<decltype(F::kPadsInputs)>> = F::kPadsInputs;

// Optional members: target_index(row) is the index of the target or -1, and add_target(row, &all, x) adds that element of
// the first input to the accumulator of the first thread of a row.
template <class F, class = void>
constexpr bool kHasTarget = false;
template <class F>
constexpr bool kHasTarget<F, std::void_t<decltype(std::declval<const F&>().target_index(std::declval<typename F::Row>()))>> =
    true;

// Optional members: map_non_target() is map() of elements that are not the target and takes no index; excludes_target(row,
// first, count) says whether it applies to `count` elements from `first` on, tested once per vector.
template <class F, class = void>
constexpr bool kHasMapNonTarget = false;
template <class F>
constexpr bool kHasMapNonTarget<
    F, std::void_t<decltype(std::declval<const F&>().excludes_target(std::declval<typename F::Row>(), 0, 0u))>> = true;

// Optional member: kBypassesL1 is true if F reads a table for every row, such as class weights. Inputs, read once, then
// bypass L1 so that the table stays there.
template <class F, class = void>
constexpr bool kBypassesL1 = false;
template <class F>
constexpr bool kBypassesL1<F, std::void_t<decltype(F::kBypassesL1)>> = F::kBypassesL1;

template <int Full, int Single, class X, class K, class P, class Y, class S>
struct RowOperands;

template <int Full, int Single, class... In, class... Column, class... RowIn, class... Out, class... Saved>
struct RowOperands<Full, Single, Inputs<In...>, Inputs<Column...>, Inputs<RowIn...>, Outputs<Out...>, Outputs<Saved...>> {
    using At = Offsets<Full, uint64_t>;
    static constexpr int kIn = sizeof...(In), kRowIn = sizeof...(RowIn), kOut = sizeof...(Out);
    static constexpr int kElementBytes = (static_cast<int>(sizeof(In)) + ...);  // of all inputs, per index
    template <int N>
    using Cell = Pack<Vec<In, N>...>;  // one vector of each input
    LongWalk<Full> inner;              // unused for dense rows
    Walk<Full + Single, uint64_t> outer;
    Pack<const In*...> x;
    Pack<const Column*...> columns;
    Pack<const RowIn*...> row_inputs;
    Pack<Out*...> y;
    Pack<Saved*...> saved;

    // Offsets of operands [First, First + Count) of row r. The loop is not unrolled, for code size; few operands at a
    // time, since each takes two registers.
    template <int First, int Count>
    BK_DEVICE Offsets<Count, uint64_t> offsets_of(int64_t r) const {
        Offsets<Count, uint64_t> result{};
        uint64_t index = static_cast<uint64_t>(r);
#pragma unroll 1
        for (int d = 0; d < outer.rank; ++d) {
            uint64_t coordinate = index;
            if (d + 1 < outer.rank) {
                const DivMod<uint64_t> split = outer.extent[d](index);
                coordinate = split.remainder;
                index = split.quotient;
            }
#pragma unroll
            for (int k = 0; k < Count; ++k) result.of[k] += coordinate * outer.stride[d][First + k];
        }
        return result;
    }
    BK_DEVICE At row(int64_t r) const { return offsets_of<0, Full>(r); }

    template <class F>
    BK_DEVICE typename F::Row start(const F& f, int64_t r) const {
        return start(f, r, std::index_sequence_for<RowIn...>{});
    }
    template <class F, size_t... I>
    BK_DEVICE typename F::Row start(const F& f, int64_t r, std::index_sequence<I...> inputs) const {
        if constexpr (kRowIn == 0)
            return f.start();
        else if (!kHasFirstOffset<typename F::Row> && ((get<I>(row_inputs) == nullptr) && ...))
            return f.start(compute_t<RowIn>(0)...);
        else
            return start_row(f, row_inputs, offsets_of<Full, kRowIn>(r).of, inputs);
    }

    // Calls body(i, offsets of the operands) for each element of a thread that exists. With one inner axis the offsets
    // advance by a constant stride.
    template <int V, class Body>
    BK_DEVICE void each_element(const RowTile<1, V>& where, const Body& body) const {
        int64_t offset[Full] = {};
        if (inner.rank <= 1) {
            int64_t step[Full];
#pragma unroll
            for (int k = 0; k < Full; ++k) {
                offset[k] = where.first * inner.stride[0][k];
                step[k] = where.step * inner.stride[0][k];
            }
#pragma unroll
            for (int i = 0; i < V; ++i) {
                if (where.has(i)) body(i, offset);
#pragma unroll
                for (int k = 0; k < Full; ++k) offset[k] += step[k];
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < V; ++i) {
            if (!where.has(i)) continue;
            offsets_along(where.position(i), offset);
            body(i, offset);
        }
    }

    // Offsets within the row of index j, for several inner axes.
    BK_DEVICE void offsets_along(int j, int64_t (&offset)[Full]) const {
        uint32_t index = static_cast<uint32_t>(j);
#pragma unroll
        for (int k = 0; k < Full; ++k) offset[k] = 0;
#pragma unroll 1
        for (int d = 0; d < inner.rank; ++d) {
            const DivMod<uint32_t> split = inner.extent[d](index);
            const int64_t coordinate = d + 1 < inner.rank ? split.remainder : index;
            index = split.quotient;
#pragma unroll
            for (int k = 0; k < Full; ++k) offset[k] += coordinate * inner.stride[d][k];
        }
    }

    // Whether all elements of a vector share one PositionParams.
    template <int N, class F>
    static BK_DEVICE bool shares_params(const F& f) {
        if constexpr (kHasPositionParams<F>)
            return f.shares_params(N);
        else
            return false;
    }

    // Steps to the next element of a vector, at index j.
    template <int N, class F, class PositionParams>
    static BK_DEVICE void advance(const F& f, const typename F::Row& row, int64_t j, PositionParams& position_params) {
        if (shares_params<N>(f))
            advance_params(f, position_params);
        else
            position_params = position_params_of(f, row, j);
    }

    // --- loads ---

    // Element j of the first input; 0 for j < 0.
    template <int N>
    BK_DEVICE auto element(const At& at, int j) const {
        int64_t offset[Full] = {j};
        if (N == 1 && j > 0) offsets_along(j, offset);
        return j < 0 ? decltype(widen(*get<0>(x)))(0) : widen(get<0>(x)[signed_offset(at.of[0]) + offset[0]]);
    }

    template <class F, int N, int V, class T>
    static BK_DEVICE Vec<T, N> load_vector(const T* row, const RowTile<N, V>& where, int v) {
        const T* const from = row + where.position(v * N);
        if constexpr (kBypassesL1<F>)
            return load_if_bypass_l1<N>(where.has_vector(v), from);
        else
            return load_if<N>(where.has_vector(v), from);
    }

    template <int N, int V, class F, size_t... I>
    BK_DEVICE void load(const F& f, const At& at, const RowTile<N, V>& where, Cell<N> (&cell)[V],
                        std::index_sequence<I...>) const {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if constexpr (kPadsInputs<F>) (fill_vector<I, N>(f.pad(), cell[v]), ...);
            if (!kPadsInputs<F> || where.has_vector(v))
                ((get<I>(cell[v]) = load_vector<F>(get<I>(x) + signed_offset(at.of[I]), where, v)), ...);
        }
    }
    template <int N, int V, class F>
    BK_DEVICE void load(const F& f, const At& at, const RowTile<N, V>& where, Cell<N> (&cell)[V]) const {
        load<N, V>(f, at, where, cell, std::index_sequence_for<In...>{});
    }
    template <size_t I, int N, class C>
    static BK_DEVICE void fill_vector(C value, Cell<N>& cell) {
#pragma unroll
        for (auto& lane : get<I>(cell).lane) lane = narrow<std::decay_t<decltype(lane)>>(value);
    }

    // transform() of each element of one vector.
    template <int N, class F, size_t... I>
    BK_DEVICE void transform_vector(const F& f, const typename F::Row& row, const RowTile<N, 1>& where, const Cell<N>& cell,
                                    typename F::Cached* cached, std::index_sequence<I...>) const {
        const bool is_cached = F::kZeroPads || kPadsInputs<F> || where.has_vector(0);
        auto position_params = position_params_of(f, row, where.at(0));
#pragma unroll
        for (int lane = 0; lane < N; ++lane) {
            if (lane > 0) advance<N>(f, row, where.at(lane), position_params);
            cached[lane] = is_cached ? f.transform(row, position_params, widen_lane(get<I>(cell), lane)...) : f.pad();
        }
    }
    template <int N, class F>
    BK_DEVICE void transform_vector(const F& f, const typename F::Row& row, const RowTile<N, 1>& where, const Cell<N>& cell,
                                    typename F::Cached* cached) const {
        transform_vector<N>(f, row, where, cell, cached, std::index_sequence_for<In...>{});
    }

    template <int N, int V, class F, size_t... I>
    BK_DEVICE void transform(const F& f, const At& at, const typename F::Row& row, const RowTile<N, V>& where,
                             typename F::Cached (&cached)[N * V], std::index_sequence<I...> ins) const {
        if constexpr (N > 1) {
            Cell<N> cell[V];
            load<N, V>(f, at, where, cell, ins);
#pragma unroll
            for (int v = 0; v < V; ++v) transform_vector<N>(f, row, where.vector(v), cell[v], cached + v * N, ins);
        } else {
            Pack<In...> cell[V];
            each_element(where, [&](int i, const int64_t (&offset)[Full]) {
                ((get<I>(cell[i]) = get<I>(x)[signed_offset(at.of[I]) + offset[I]]), ...);
            });
#pragma unroll
            for (int i = 0; i < V; ++i)
                cached[i] = where.has(i) ? f.transform(row, position_params_of(f, row, where.at(i)), widen(get<I>(cell[i]))...)
                                         : f.pad();
        }
    }
    template <int N, int V, class F>
    BK_DEVICE void transform(const F& f, const At& at, const typename F::Row& row, const RowTile<N, V>& where,
                             typename F::Cached (&cached)[N * V]) const {
        transform<N, V>(f, at, row, where, cached, std::index_sequence_for<In...>{});
    }

    // --- the map ---

    template <int N, int V, class T>
    static BK_DEVICE Vec<T, N> load_column(const T* column, const RowTile<N, V>& where, int v) {
        return load_if<N>(column != nullptr && where.has_vector(v), column + where.position(v * N));
    }

    template <int N, int V, class T>
    static BK_DEVICE void store_vector(T* row, const RowTile<N, V>& where, int v, const Vec<T, N>& cell) {
        if (where.has_vector(v)) store<N>(row + where.position(v * N), cell);
    }

    template <int N, class... C, size_t... O>
    static BK_DEVICE void set_lane(Pack<Vec<Out, N>...>& cell, int lane, const Pack<C...>& result, std::index_sequence<O...>) {
        ((get<O>(cell).lane[lane] = narrow<Out>(get<O>(result))), ...);
    }

    template <class... C, size_t... O>
    BK_DEVICE void store_each(const At& at, const int64_t (&offset)[Full], const Pack<C...>& result,
                              std::index_sequence<O...>) const {
        ((get<O>(y) == nullptr
              ? (void)0
              : (void)(get<O>(y)[signed_offset(at.of[kIn + O]) + offset[kIn + O]] = narrow<Out>(get<O>(result)))),
         ...);
    }

    template <int N, int V, class F, size_t... K, size_t... O>
    BK_DEVICE void map(const F& f, const At& at, const typename F::Row& row, const typename F::TileParams& tile_params,
                       const RowTile<N, V>& where, const typename F::Cached (&cached)[N * V], std::index_sequence<K...>,
                       std::index_sequence<O...> outs) const {
        if constexpr (N == 1) {
            each_element(where, [&](int i, const int64_t (&offset)[Full]) {
                store_each(at, offset,
                           f.map(row, tile_params, position_params_of(f, row, where.at(i)), cached[i],
                                 widen(load_column(get<K>(columns), where, i).lane[0])...),
                           outs);
            });
        } else {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                [[maybe_unused]] Pack<Vec<Column, N>...> column;
                ((get<K>(column) = load_column(get<K>(columns), where, v)), ...);
                Pack<Vec<Out, N>...> cell;
                bool is_non_target = false;
                if constexpr (kHasMapNonTarget<F>) {
#pragma unroll
                    for (int lane = 0; lane < N; ++lane)
                        set_lane<N>(
                            cell, lane,
                            f.map_non_target(row, tile_params, cached[v * N + lane], widen_lane(get<K>(column), lane)...),
                            outs);
                    is_non_target = f.excludes_target(row, where.position(v * N), N);
                }
                if (!is_non_target) {
                    auto position_params = position_params_of(f, row, where.at(v * N));
#pragma unroll
                    for (int lane = 0; lane < N; ++lane) {
                        if (lane > 0) advance<N>(f, row, where.at(v * N + lane), position_params);
                        set_lane<N>(
                            cell, lane,
                            f.map(row, tile_params, position_params, cached[v * N + lane], widen_lane(get<K>(column), lane)...),
                            outs);
                    }
                }
                ((get<O>(y) == nullptr ? (void)0
                                       : store_vector<N>(get<O>(y) + signed_offset(at.of[kIn + O]), where, v, get<O>(cell))),
                 ...);
            }
        }
    }
    template <int N, int V, class F>
    BK_DEVICE void map(const F& f, const At& at, const typename F::Row& row, const typename F::TileParams& tile_params,
                       const RowTile<N, V>& where, const typename F::Cached (&cached)[N * V]) const {
        map<N, V>(f, at, row, tile_params, where, cached, std::index_sequence_for<Column...>{},
                  std::index_sequence_for<Out...>{});
    }

    // --- per-column parameters ---

    template <class F>
    using PositionParamsOf =
        decltype(position_params_of(std::declval<const F&>(), std::declval<const typename F::Row&>(), int64_t{}));
    template <int N, class F>
    struct MapParams {
        PositionParamsOf<F> position_params[N];
        typename F::MapParams of[N];
    };

    template <int N, class F, size_t... K>
    BK_DEVICE MapParams<N, F> map_params(const F& f, const typename F::Row& row, const RowTile<N, 1>& where,
                                         std::index_sequence<K...>) const {
        MapParams<N, F> result;
        [[maybe_unused]] Pack<Vec<Column, N>...> column;
        ((get<K>(column) = load_column(get<K>(columns), where, 0)), ...);
        auto position_params = position_params_of(f, row, where.at(0));
#pragma unroll
        for (int lane = 0; lane < N; ++lane) {
            if (lane > 0) advance<N>(f, row, where.at(lane), position_params);
            result.position_params[lane] = position_params;
            result.of[lane] = f.map_params(row, position_params, widen_lane(get<K>(column), lane)...);
        }
        return result;
    }
    template <int N, class F>
    BK_DEVICE MapParams<N, F> map_params(const F& f, const typename F::Row& row, const RowTile<N, 1>& where) const {
        return map_params<N>(f, row, where, std::index_sequence_for<Column...>{});
    }

    // Offsets of the row that follows `at` by r rows along the last outer axis.
    BK_DEVICE At behind(const At& at, int64_t r) const {
        At result;
#pragma unroll
        for (int k = 0; k < Full; ++k) result.of[k] = at.of[k] + static_cast<uint64_t>(r) * outer.stride[0][k];
        return result;
    }
    template <int N, class F>
    BK_DEVICE void load_row(const F& f, const At& at, int64_t r, int64_t rows, RowTile<N, 1> where, Cell<N>& cell) const {
        if (r >= rows) where.n = 0;
        Cell<N> loaded[1];
        load<N, 1>(f, behind(at, r), where, loaded);
        cell = loaded[0];
    }
    template <int N, class F, size_t... I, size_t... O>
    BK_DEVICE void map_row(const F& f, const At& at, const typename F::Row& row, const RowTile<N, 1>& where,
                           const Cell<N>& cell, const MapParams<N, F>& of, std::index_sequence<I...>,
                           std::index_sequence<O...> outs) const {
        Pack<Vec<Out, N>...> result;
#pragma unroll
        for (int lane = 0; lane < N; ++lane) {
            const auto cached = f.transform(row, of.position_params[lane], widen_lane(get<I>(cell), lane)...);
            set_lane<N>(result, lane, f.map_with_params(of.of[lane], cached), outs);
        }
        ((get<O>(y) == nullptr ? (void)0
                               : store_vector<N>(get<O>(y) + signed_offset(at.of[kIn + O]), where, 0, get<O>(result))),
         ...);
    }
    template <int N, class F>
    BK_DEVICE void map_row(const F& f, const At& at, int64_t r, const typename F::Row& row, const RowTile<N, 1>& where,
                           const Cell<N>& cell, const MapParams<N, F>& of) const {
        map_row<N>(f, behind(at, r), row, where, cell, of, std::index_sequence_for<In...>{}, std::index_sequence_for<Out...>{});
    }

    template <class At, class Result, size_t... I>
    BK_DEVICE void save(const At& at, const Result& result, std::index_sequence<I...>) const {
        ((get<I>(saved) == nullptr ? (void)0 : (void)(get<I>(saved)[signed_offset(at.of[I])] = narrow<Saved>(get<I>(result)))),
         ...);
    }
    template <class F>
    BK_DEVICE void save(const F& f, int64_t r, const typename F::Row& row) const {
        constexpr int kSaved = sizeof...(Saved);
        if constexpr (kSaved > 0) save(offsets_of<Full + kRowIn, kSaved>(r), f.saved(row), std::index_sequence_for<Saved...>{});
    }
};

}  // namespace bk
