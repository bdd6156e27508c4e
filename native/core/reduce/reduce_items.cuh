// SPDX-License-Identifier: Apache-2.0
// How a thread accumulates its items: vectors of each input, lane by lane, along one axis or over several.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/pointwise/pointwise.h"
#include "core/reduce/combine.cuh"
#include "core/reduce/reducer.h"
#include "core/types/vec.h"

namespace bk {

// Whether a reducer of contiguous items has no scalar kernel: the vector kernel loads unaligned inputs by elements.
template <class R, class = void>
constexpr bool kAlwaysVectors = false;
template <class R>
constexpr bool kAlwaysVectors<R, std::enable_if_t<R::always_vectors>> = true;
constexpr int kUnalignedBit = 16;  // first bit of `broadcast` that marks an unaligned input

template <int N, bool kMayBeUnaligned, class... In, size_t... I>
BK_DEVICE Words<Pack<Vec<In, N>...>> load_all(const Pack<const In*...>& in, const int64_t* offset, unsigned broadcast,
                                              std::index_sequence<I...>) {
    return {pack(load_lanes<N>(get<I>(in) + offset[I], broadcast >> I & 1,
                               kMayBeUnaligned && (broadcast >> (kUnalignedBit + I) & 1) != 0)...)};
}

template <int N, class... Out, size_t... O>
BK_DEVICE void store_present(const Pack<Out*...>& out, const int64_t* offset, const Pack<Vec<Out, N>...>& y,
                             std::index_sequence<O...>) {
    ((get<O>(out) != nullptr ? store<N>(get<O>(out) + offset[O], get<O>(y)) : void()), ...);
}

// Whether adjacent items share values that depend on their index, computed once a vector.
template <class R, class = void>
constexpr bool kSharesItems = false;
template <class R>
constexpr bool kSharesItems<R, std::void_t<decltype(std::declval<const R&>().items_from(int64_t{0}))>> = !kIgnoresIndex<R>;

// Adds a vector of each input, a lane to an accumulator, and stores what add() returns at `offset`.
template <int N, class R, class Each, class... In, size_t... I>
BK_DEVICE void add_lanes(const R& reducer, typename R::Acc (&acc)[N], int64_t index, int64_t step, const Each& each,
                         [[maybe_unused]] const int64_t* offset, const Words<Pack<Vec<In, N>...>>& words,
                         std::index_sequence<I...> inputs) {
    const Pack<Vec<In, N>...> x = from_words(words, inputs);
    [[maybe_unused]] typename Each::template Vectors<N> y;
    const auto each_lane = [&](const auto& add) {
#pragma unroll
        for (int lane = 0; lane < N; ++lane) {
            if constexpr (Each::count == 0)
                add(lane, widen(get<I>(x).lane[lane])...);
            else
                put(y, lane, add(lane, widen(get<I>(x).lane[lane])...));
        }
    };
    bool are_added = false;
    if constexpr (kSharesItems<R> && N > 1) {
        const auto items = reducer.items_from(index);
        are_added = step == 1 && items.count >= N;
        if (are_added) each_lane([&](int lane, auto... value) { return reducer.add_item(acc[lane], items, lane, value...); });
    }
    if (!are_added) each_lane([&](int lane, auto... value) { return reducer.add(acc[lane], index + lane * step, value...); });
    if constexpr (Each::count > 0) store_present<N>(each.pointer, offset, y, typename Each::Indices{});
}

template <int N, class R, class... In, size_t... I>
BK_DEVICE void start_lanes(const R& reducer, typename R::Acc (&acc)[N], const Words<Pack<Vec<In, N>...>>& words,
                           std::index_sequence<I...> inputs) {
    const Pack<Vec<In, N>...> x = from_words(words, inputs);
#pragma unroll
    for (int lane = 0; lane < N; ++lane) acc[lane] = start_of(reducer, 0, widen(get<I>(x).lane[lane])...);
}

template <int N, class R>
BK_DEVICE void settle_lanes(const R& reducer, typename R::Acc (&acc)[N], int64_t items) {
#pragma unroll
    for (int lane = 0; lane < N; ++lane) settle(reducer, acc[lane], items, 0);
}

// Adds items [t, end) of one axis, `result_threads` apart: offsets advance by a constant, without a walk.
template <int N, class R, class Grid, class Each, class... In, size_t... I>
BK_DEVICE void add_axis(const R& reducer, typename R::Acc (&acc)[N], const Pack<const In*...>& in, const Each& each,
                        const int64_t* base, const Grid& grid, int64_t t, int64_t end, int64_t lane_step,
                        std::index_sequence<I...> inputs) {
    constexpr int kIn = sizeof...(In), kOperands = kIn + Each::count,
                  kUnroll = kReduceUnrollOf<N, kHoistsBroadcast<R, Inputs<In...>, Each>, Each>,
                  kSteps = kSettleInterval / kUnroll;
    int64_t cursor[kOperands + 1], step[kOperands + 1];
#pragma unroll
    for (int k = 0; k <= kOperands; ++k) {
        const int64_t stride = grid.reduced.rank == 0 ? 0 : grid.reduced.stride[0][k];
        cursor[k] = (k < kOperands ? base[k] : 0) + t * stride;
        step[k] = grid.result_threads * stride;
    }
    int64_t left = (end - t + grid.result_threads - 1) / grid.result_threads;
    while (left >= kUnroll) {
        int steps = 0;
        for (; steps < kSteps && left >= kUnroll; ++steps, left -= kUnroll) {
            Words<Pack<Vec<In, N>...>> x[kUnroll];
            int64_t offset[kUnroll][kOperands];
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
                for (int k = 0; k < kOperands; ++k) offset[u][k] = cursor[k] + u * step[k];
                x[u] = load_all<N, kAlwaysVectors<R>>(in, offset[u], grid.broadcast, inputs);
            }
            if constexpr (kSharesItems<R> && Each::count == 0) {
                // Long items are not unrolled, since the instruction cache of an SM is small.
#pragma unroll 1
                for (int u = 0; u < kUnroll; ++u) {
                    add_lanes<N>(reducer, acc, cursor[kOperands] + u * step[kOperands], lane_step, each, nullptr, x[0], inputs);
#pragma unroll
                    for (int v = 1; v < kUnroll; ++v) x[v - 1] = x[v];
                }
            } else {
#pragma unroll
                for (int u = 0; u < kUnroll; ++u)
                    add_lanes<N>(reducer, acc, cursor[kOperands] + u * step[kOperands], lane_step, each, offset[u] + kIn, x[u],
                                 inputs);
            }
#pragma unroll
            for (int k = 0; k <= kOperands; ++k) cursor[k] += kUnroll * step[k];
        }
        settle_lanes<N>(reducer, acc, steps * kUnroll);
    }
    const int64_t tail = left;
#pragma unroll 1
    for (; left > 0; --left) {
        const auto x = load_all<N, kAlwaysVectors<R>>(in, cursor, grid.broadcast, inputs);
        add_lanes<N>(reducer, acc, cursor[kOperands], lane_step, each, cursor + kIn, x, inputs);
#pragma unroll
        for (int k = 0; k <= kOperands; ++k) cursor[k] += step[k];
    }
    if (tail > 0) settle_lanes<N>(reducer, acc, tail);
}

template <int N, int k, class... In>
using InputVector = Vec<std::decay_t<decltype(*get<k>(std::declval<const Pack<const In*...>&>()))>, N>;

// Adds items [t, end) of the segment at `base`, `result_threads` apart. Inputs behind the first, K, are broadcast or
// one a lane: broadcast_of() is called once for them.
template <int N, class R, class Grid, class... In, size_t... K, size_t... M>
BK_DEVICE void add_axis_broadcast(const R& reducer, typename R::Acc (&acc)[N], const Pack<const In*...>& in,
                                  const int64_t* base, const Grid& grid, int64_t t, int64_t end, std::index_sequence<K...>,
                                  std::index_sequence<M...>) {
    constexpr int kVarying = sizeof...(K), kSteps = kSettleInterval / kReduceUnroll;
    const auto load_at = [&](auto at, int64_t offset) {
        constexpr int k = decltype(at)::value;
        return load_lanes<N>(get<k>(in) + base[k] + offset, grid.broadcast >> k & 1);
    };
    const Pack<InputVector<N, kVarying + M, In...>...> values =
        pack(bit_cast<InputVector<N, kVarying + M, In...>>(load_at(std::integral_constant<int, kVarying + int{M}>{}, 0))...);
    typename R::Broadcast broadcast[N];
#pragma unroll
    for (int lane = 0; lane < N; ++lane) broadcast[lane] = reducer.broadcast_of(widen(get<M>(values).lane[lane])...);
    int64_t cursor[kVarying], step[kVarying];
#pragma unroll
    for (int k = 0; k < kVarying; ++k) {
        cursor[k] = t * grid.reduced.stride[0][k];
        step[k] = grid.result_threads * grid.reduced.stride[0][k];
    }
    const auto load = [&](int u) { return pack(load_at(std::integral_constant<int, int{K}>{}, cursor[K] + u * step[K])...); };
    const auto add = [&](const auto& word) {
        const Pack<InputVector<N, K, In...>...> x = pack(bit_cast<InputVector<N, K, In...>>(get<K>(word))...);
#pragma unroll
        for (int lane = 0; lane < N; ++lane) reducer.add_with(acc[lane], broadcast[lane], widen(get<K>(x).lane[lane])...);
    };
    int64_t left = (end - t + grid.result_threads - 1) / grid.result_threads;
    while (left >= kReduceUnroll) {
        int steps = 0;
        for (; steps < kSteps && left >= kReduceUnroll; ++steps, left -= kReduceUnroll) {
            decltype(load(0)) word[kReduceUnroll];
#pragma unroll
            for (int u = 0; u < kReduceUnroll; ++u) word[u] = load(u);
#pragma unroll
            for (int u = 0; u < kReduceUnroll; ++u) add(word[u]);
#pragma unroll
            for (int k = 0; k < kVarying; ++k) cursor[k] += kReduceUnroll * step[k];
        }
        settle_lanes<N>(reducer, acc, steps * kReduceUnroll);
    }
    const int64_t tail = left;
#pragma unroll 1
    for (; left > 0; --left) {
        add(load(0));
#pragma unroll
        for (int k = 0; k < kVarying; ++k) cursor[k] += step[k];
    }
    if (tail > 0) settle_lanes<N>(reducer, acc, tail);
}

// Adds items [t, end) of several axes, `result_threads` apart; a walk finds their offsets.
template <int N, class R, class Grid, class Each, class... In, size_t... I>
BK_DEVICE void add_walk(const R& reducer, typename R::Acc (&acc)[N], const Pack<const In*...>& in, const Each& each,
                        const int64_t* base, const Grid& grid, int64_t t, int64_t end, int64_t lane_step,
                        std::index_sequence<I...> inputs) {
    constexpr int kIn = sizeof...(In), kOperands = kIn + Each::count,
                  kUnroll = kReduceUnrollOf<N, kHoistsBroadcast<R, Inputs<In...>, Each>, Each>;
    int unsettled = 0;
#pragma unroll 1
    while (t < end) {
        int64_t offset[kUnroll][kOperands + 1];
        Words<Pack<Vec<In, N>...>> x[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            if (t + u * grid.result_threads >= end) continue;
#pragma unroll
            for (int k = 0; k <= kOperands; ++k) offset[u][k] = k < kOperands ? base[k] : 0;
            grid.reduced(t + u * grid.result_threads, offset[u]);
            x[u] = load_all<N, kAlwaysVectors<R>>(in, offset[u], grid.broadcast, inputs);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            if (t + u * grid.result_threads >= end) continue;
            add_lanes<N>(reducer, acc, offset[u][kOperands], lane_step, each, offset[u] + kIn, x[u], inputs);
            ++unsettled;
        }
        t += kUnroll * grid.result_threads;
        if (unsettled + kUnroll > kSettleInterval || t >= end) {
            settle_lanes<N>(reducer, acc, unsettled);
            unsettled = 0;
        }
    }
}

// Adds items [t, end), `step` apart, once more for the accumulators that are lost.
template <int N, class R, class Walk, class... In, size_t... I>
BK_DEVICE void recompute_lost(const R& reducer, typename R::Acc (&acc)[N], typename R::Acc (&again)[N],
                              const Pack<const In*...>& in, const int64_t* base, const Walk& walk, int64_t t, int64_t end,
                              int64_t step, int64_t lane_step, unsigned broadcast, std::index_sequence<I...> inputs) {
    constexpr int kIn = sizeof...(In);
#pragma unroll 1
    for (; t < end; t += step) {
        int64_t offset[kIn + 1];
#pragma unroll
        for (int k = 0; k <= kIn; ++k) offset[k] = base[k];
        walk(t, offset);
        const Pack<Vec<In, N>...> x = from_words(load_all<N, kAlwaysVectors<R>>(in, offset, broadcast, inputs), inputs);
        bool are_lost = false;
#pragma unroll
        for (int lane = 0; lane < N; ++lane) {
            explain(reducer, acc[lane], 0, widen(get<I>(x).lane[lane])...);
            reducer.add_again(again[lane], offset[kIn] + lane * lane_step, widen(get<I>(x).lane[lane])...);
            are_lost = are_lost || reducer.is_lost(acc[lane]);
        }
        if (!are_lost) return;
    }
}

// Adds items [begin, end): whole segments, or a range within one.
template <int N, class R, class Grid, class... In, size_t... I>
BK_DEVICE void add_segments_broadcast([[maybe_unused]] const R& reducer, [[maybe_unused]] typename R::Acc (&acc)[N],
                                      [[maybe_unused]] const Pack<const In*...>& in, [[maybe_unused]] const int64_t* base,
                                      [[maybe_unused]] const Grid& grid, [[maybe_unused]] int64_t begin,
                                      [[maybe_unused]] int64_t end, [[maybe_unused]] int thread_rank,
                                      std::index_sequence<I...>) {
    constexpr int kIn = sizeof...(In);
    if constexpr (kVaryingInputsOf<R> < kIn) {
#pragma unroll 1
        for (int64_t first = begin; first < end; first += grid.segment) {
            int64_t at[kIn + 1];
#pragma unroll
            for (int k = 0; k <= kIn; ++k) at[k] = k < kIn ? base[k] : 0;
            grid.reduced(first, at);
            const int64_t length = min(grid.segment, end - first);
            if (thread_rank < length)
                add_axis_broadcast<N>(reducer, acc, in, at, grid, thread_rank, length,
                                      std::make_index_sequence<kVaryingInputsOf<R>>{},
                                      std::make_index_sequence<kIn - kVaryingInputsOf<R>>{});
        }
    }
}

}  // namespace bk
