// How a thread of a reduction collects its terms: vectors of each input, lane by lane, along a line or by a walk over several
// axes.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/pointwise/pointwise.h"
#include "core/reduce/combine.cuh"
#include "core/reduce/reducer.h"
#include "core/types/vec.h"

namespace bk {

// Whether a reducer, of a single line of terms, has no kernel of single elements: inputs that are not aligned are loaded
// element by element in the kernel of vectors.
template <class R, class = void>
constexpr bool kAlwaysVectors = false;
template <class R>
constexpr bool kAlwaysVectors<R, std::enable_if_t<R::always_vectors>> = true;
constexpr int kApartBit = 16;  // of the bits of `broadcast`, the first of those of inputs that are not aligned

template <int N, bool kMayBeApart, class... In, size_t... I>
BK_DEVICE Words<Pack<Vec<In, N>...>> load_all(const Pack<const In*...>& in, const int64_t* offset, unsigned broadcast,
                                              std::index_sequence<I...>) {
    return {pack(
        load_lanes<N>(get<I>(in) + offset[I], broadcast >> I & 1, kMayBeApart && (broadcast >> (kApartBit + I) & 1) != 0)...)};
}

template <int N, class... Out, size_t... O>
BK_DEVICE void store_present(const Pack<Out*...>& out, const int64_t* offset, const Pack<Vec<Out, N>...>& y,
                             std::index_sequence<O...>) {
    ((get<O>(out) != nullptr ? store<N>(get<O>(out) + offset[O], get<O>(y)) : void()), ...);
}

// Whether terms have something of their index that neighbours share, so that it is made once a vector.
template <class R, class = void>
constexpr bool kSharesTerms = false;
template <class R>
constexpr bool kSharesTerms<R, std::void_t<decltype(std::declval<const R&>().terms_from(int64_t{0}))>> = !kIgnoresIndex<R>;

// Adds a vector of each input, a lane to an Acc, and stores what is made of them at `offset`.
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
    if constexpr (kSharesTerms<R> && N > 1) {
        const auto terms = reducer.terms_from(index);
        are_added = step == 1 && terms.count >= N;
        if (are_added) each_lane([&](int lane, auto... value) { return reducer.add_term(acc[lane], terms, lane, value...); });
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
BK_DEVICE void settle_lanes(const R& reducer, typename R::Acc (&acc)[N], int64_t terms) {
#pragma unroll
    for (int lane = 0; lane < N; ++lane) settle(reducer, acc[lane], terms, 0);
}

// Terms [t, end) at steps of `deep` of one axis: their places are one sum apart from those before, and so need no walk.
template <int N, class R, class Grid, class Each, class... In, size_t... I>
BK_DEVICE void add_line(const R& reducer, typename R::Acc (&acc)[N], const Pack<const In*...>& in, const Each& each,
                        const int64_t* base, const Grid& grid, int64_t t, int64_t end, int64_t lane_step,
                        std::index_sequence<I...> inputs) {
    constexpr int kIn = sizeof...(In), kPlaces = kIn + Each::count,
                  kRound = kReduceRoundOf<N, kLooksOnce<R, Inputs<In...>, Each>, Each>, kRounds = kReduceRun / kRound;
    int64_t place[kPlaces + 1], step[kPlaces + 1];
#pragma unroll
    for (int k = 0; k <= kPlaces; ++k) {
        const int64_t stride = grid.reduced.rank == 0 ? 0 : grid.reduced.stride[0][k];
        place[k] = (k < kPlaces ? base[k] : 0) + t * stride;
        step[k] = grid.deep * stride;
    }
    int64_t left = (end - t + grid.deep - 1) / grid.deep;
    while (left >= kRound) {
        int rounds = 0;
        for (; rounds < kRounds && left >= kRound; ++rounds, left -= kRound) {
            Words<Pack<Vec<In, N>...>> x[kRound];
            int64_t offset[kRound][kPlaces];
#pragma unroll
            for (int u = 0; u < kRound; ++u) {
#pragma unroll
                for (int k = 0; k < kPlaces; ++k) offset[u][k] = place[k] + u * step[k];
                x[u] = load_all<N, kAlwaysVectors<R>>(in, offset[u], grid.broadcast, inputs);
            }
            if constexpr (kSharesTerms<R> && Each::count == 0) {
                // Long terms once, not kRound times, in the code, of which a multiprocessor keeps little at hand.
#pragma unroll 1
                for (int u = 0; u < kRound; ++u) {
                    add_lanes<N>(reducer, acc, place[kPlaces] + u * step[kPlaces], lane_step, each, nullptr, x[0], inputs);
#pragma unroll
                    for (int v = 1; v < kRound; ++v) x[v - 1] = x[v];
                }
            } else {
#pragma unroll
                for (int u = 0; u < kRound; ++u)
                    add_lanes<N>(reducer, acc, place[kPlaces] + u * step[kPlaces], lane_step, each, offset[u] + kIn, x[u],
                                 inputs);
            }
#pragma unroll
            for (int k = 0; k <= kPlaces; ++k) place[k] += kRound * step[k];
        }
        settle_lanes<N>(reducer, acc, rounds * kRound);
    }
    const int64_t rest = left;
#pragma unroll 1
    for (; left > 0; --left) {
        const auto x = load_all<N, kAlwaysVectors<R>>(in, place, grid.broadcast, inputs);
        add_lanes<N>(reducer, acc, place[kPlaces], lane_step, each, place + kIn, x, inputs);
#pragma unroll
        for (int k = 0; k <= kPlaces; ++k) place[k] += step[k];
    }
    if (rest > 0) settle_lanes<N>(reducer, acc, rest);
}

template <int N, int k, class... In>
using InputVector = Vec<std::decay_t<decltype(*get<k>(std::declval<const Pack<const In*...>&>()))>, N>;

// Terms [t, end) of the line that begins at `base`, at steps of `deep`. Inputs behind the first, K, are one for all of them, or
// one a lane: what add_beside() needs to know of these is made once.
template <int N, class R, class Grid, class... In, size_t... K, size_t... M>
BK_DEVICE void add_line_beside(const R& reducer, typename R::Acc (&acc)[N], const Pack<const In*...>& in, const int64_t* base,
                               const Grid& grid, int64_t t, int64_t end, std::index_sequence<K...>, std::index_sequence<M...>) {
    constexpr int kMoving = sizeof...(K), kRounds = kReduceRun / kReduceRound;
    const auto load_at = [&](auto at, int64_t offset) {
        constexpr int k = decltype(at)::value;
        return load_lanes<N>(get<k>(in) + base[k] + offset, grid.broadcast >> k & 1);
    };
    const Pack<InputVector<N, kMoving + M, In...>...> numbers =
        pack(bit_cast<InputVector<N, kMoving + M, In...>>(load_at(std::integral_constant<int, kMoving + int{M}>{}, 0))...);
    typename R::Still still[N];
#pragma unroll
    for (int lane = 0; lane < N; ++lane) still[lane] = reducer.still(widen(get<M>(numbers).lane[lane])...);
    int64_t place[kMoving], step[kMoving];
#pragma unroll
    for (int k = 0; k < kMoving; ++k) {
        place[k] = t * grid.reduced.stride[0][k];
        step[k] = grid.deep * grid.reduced.stride[0][k];
    }
    const auto load = [&](int u) { return pack(load_at(std::integral_constant<int, int{K}>{}, place[K] + u * step[K])...); };
    const auto add = [&](const auto& word) {
        const Pack<InputVector<N, K, In...>...> x = pack(bit_cast<InputVector<N, K, In...>>(get<K>(word))...);
#pragma unroll
        for (int lane = 0; lane < N; ++lane) reducer.add_beside(acc[lane], still[lane], widen(get<K>(x).lane[lane])...);
    };
    int64_t left = (end - t + grid.deep - 1) / grid.deep;
    while (left >= kReduceRound) {
        int rounds = 0;
        for (; rounds < kRounds && left >= kReduceRound; ++rounds, left -= kReduceRound) {
            decltype(load(0)) word[kReduceRound];
#pragma unroll
            for (int u = 0; u < kReduceRound; ++u) word[u] = load(u);
#pragma unroll
            for (int u = 0; u < kReduceRound; ++u) add(word[u]);
#pragma unroll
            for (int k = 0; k < kMoving; ++k) place[k] += kReduceRound * step[k];
        }
        settle_lanes<N>(reducer, acc, rounds * kReduceRound);
    }
    const int64_t rest = left;
#pragma unroll 1
    for (; left > 0; --left) {
        add(load(0));
#pragma unroll
        for (int k = 0; k < kMoving; ++k) place[k] += step[k];
    }
    if (rest > 0) settle_lanes<N>(reducer, acc, rest);
}

// Terms [t, end) at steps of `deep` of several axes, whose places a walk finds.
template <int N, class R, class Grid, class Each, class... In, size_t... I>
BK_DEVICE void add_walk(const R& reducer, typename R::Acc (&acc)[N], const Pack<const In*...>& in, const Each& each,
                        const int64_t* base, const Grid& grid, int64_t t, int64_t end, int64_t lane_step,
                        std::index_sequence<I...> inputs) {
    constexpr int kIn = sizeof...(In), kPlaces = kIn + Each::count,
                  kRound = kReduceRoundOf<N, kLooksOnce<R, Inputs<In...>, Each>, Each>;
    int run = 0;
#pragma unroll 1
    while (t < end) {
        int64_t offset[kRound][kPlaces + 1];
        Words<Pack<Vec<In, N>...>> x[kRound];
#pragma unroll
        for (int u = 0; u < kRound; ++u) {
            if (t + u * grid.deep >= end) continue;
#pragma unroll
            for (int k = 0; k <= kPlaces; ++k) offset[u][k] = k < kPlaces ? base[k] : 0;
            grid.reduced(t + u * grid.deep, offset[u]);
            x[u] = load_all<N, kAlwaysVectors<R>>(in, offset[u], grid.broadcast, inputs);
        }
#pragma unroll
        for (int u = 0; u < kRound; ++u) {
            if (t + u * grid.deep >= end) continue;
            add_lanes<N>(reducer, acc, offset[u][kPlaces], lane_step, each, offset[u] + kIn, x[u], inputs);
            ++run;
        }
        t += kRound * grid.deep;
        if (run + kRound > kReduceRun || t >= end) {
            settle_lanes<N>(reducer, acc, run);
            run = 0;
        }
    }
}

// Terms [t, end) at steps of `step` of a walk, again, for the Accs that are lost.
template <int N, class R, class Walk, class... In, size_t... I>
BK_DEVICE void find_lost(const R& reducer, typename R::Acc (&acc)[N], typename R::Acc (&again)[N], const Pack<const In*...>& in,
                         const int64_t* base, const Walk& walk, int64_t t, int64_t end, int64_t step, int64_t lane_step,
                         unsigned broadcast, std::index_sequence<I...> inputs) {
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

// Terms [begin, end), of whole lines or of a part of one.
template <int N, class R, class Grid, class... In, size_t... I>
BK_DEVICE void add_lines_beside([[maybe_unused]] const R& reducer, [[maybe_unused]] typename R::Acc (&acc)[N],
                                [[maybe_unused]] const Pack<const In*...>& in, [[maybe_unused]] const int64_t* base,
                                [[maybe_unused]] const Grid& grid, [[maybe_unused]] int64_t begin, [[maybe_unused]] int64_t end,
                                [[maybe_unused]] int depth, std::index_sequence<I...>) {
    constexpr int kIn = sizeof...(In);
    if constexpr (kMovingOf<R> < kIn) {
#pragma unroll 1
        for (int64_t first = begin; first < end; first += grid.line) {
            int64_t at[kIn + 1];
#pragma unroll
            for (int k = 0; k <= kIn; ++k) at[k] = k < kIn ? base[k] : 0;
            grid.reduced(first, at);
            const int64_t length = min(grid.line, end - first);
            if (depth < length)
                add_line_beside<N>(reducer, acc, in, at, grid, depth, length, std::make_index_sequence<kMovingOf<R>>{},
                                   std::make_index_sequence<kIn - kMovingOf<R>>{});
        }
    }
}

}  // namespace bk
