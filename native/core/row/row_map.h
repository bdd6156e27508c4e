// SPDX-License-Identifier: Apache-2.0
// Row reduce + map: a statistic per row, then a map over its elements. Softmax, norms, cross entropy and gradients.
//
// A row function F is a small trivially copyable struct, written once for CUDA and CPU in compute types. Its types:
//
//   Row            state of a row; a member `first_offset` is set to the offset of the first input of one value per row
//   Acc            accumulator of the statistic
//   Cached         an element between its load and its store
//   TileParams     what map() needs of the tile that an element was reduced with
//
// Those that it does not need are `Nothing`. Its members:
//
//   Row start(P... row_inputs) const                  from the inputs of one value per row, 0 for null ones
//   Cached transform(const Row&, int64_t j, C... x) const      the inputs at index j of the row
//   Cached pad() const                                the value past the end of the row
//   Acc identity() const
//   template <class W, int N> Acc reduce_tile(const Row&, Cached (&x)[N], const W& where) const
//                      reduces N elements, and may overwrite them for map(). where.has(i): x[i] is in the row;
//                      where.count(): how many are; where.at(i): the index of x[i]
//   Acc combine(const Acc& a, const Acc& b) const     elements of `a` precede those of `b` or interleave with them
//   template <class L> Acc merge(const Acc& mine, const L& lanes) const        optional: the whole combine over the GPU
//                      lanes that share a row, by lanes.sum(), lanes.largest() and lanes.first() of scalars
//   bool finish(Row&, const Acc&, int64_t n) const    true: another pass with this Row. After false, further calls must
//                      leave Row unchanged, since other rows may need more passes
//   TileParams tile_params(const Row&, const Acc& mine) const        `mine`: what reduce_tile() returned for this tile
//   Y map(const Row&, const TileParams&, int64_t j, const Cached&, K... column_inputs) const
//                      a Pack, one value per output
//   Y map_recompute(const Row&, int64_t j, const Cached&, K... column_inputs) const
//                      optional: map() of an element as transform() returns it, so that inputs can be cached instead
//   S saved(const Row&) const                         a Pack, one value per output of one value per row
//
// If transform() or map() look up parameters that consecutive indices share (as those of a channel), they take a
// PositionParams, not j:
//
//   PositionParams position_params(const Row&, int64_t j) const      of index j; past the end of the row, any value
//   bool shares_params(int64_t n) const               whether each aligned block of n indices shares one
//   void next(PositionParams&) const                  optional: steps from one index to the next within such a block
//
// Functions that only map and need per-index parameters split map() in two:
//
//   MapParams map_params(const Row&, int64_t j or const PositionParams&, K... column_inputs) const
//   Y map_with_params(const MapParams&, const Cached&) const
//
// Functions of one or two passes can vectorise on the CPU across adjacent rows, given
//
//   static auto row_members(), acc_members()          a Pack of pointers to the members of Row and Acc that differ by row;
//                                                     Nothing for a scalar
//   static F at(F f, int64_t j)                       optional: f with its lookups for index j done, for all rows
//
// A row that does not fit on chip is transformed and reduced again in each pass, so what reduce_tile() writes must depend
// only on what map() knows. A row is read before it is written, unless it is longer than that; an output may then still
// alias an input of the same layout. All orders of operations follow from shapes and alignments alone.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/compiler_cpu.h"
#include "core/layout/layout.h"
#include "core/math/math.h"
#include "core/pointwise/pointwise.h"
#include "core/types/pack.h"
#include "core/types/vec.h"

// BK_HELD_LOOP precedes an independent loop over cached elements: unrolled into registers on a GPU, vectorised on the
// CPU. BK_SHORT_LOOP is for at most 16 iterations.
#if BK_CUDA
#define BK_HELD_LOOP BK_UNROLL
#define BK_SHORT_LOOP BK_UNROLL
#else
#define BK_HELD_LOOP BK_CHUNK_LOOP
#define BK_SHORT_LOOP BK_VECTOR_LOOP
#endif

namespace bk {

struct Nothing {};

// Base of Row if the first of two passes finds the row maximum.
struct MaxKnown {
    bool knows_max = false;
};
template <bool kTwice>
using TwoPassMax = std::conditional_t<kTwice, MaxKnown, Nothing>;

// Defaults of the optional members.
struct RowDefaults {
    static constexpr bool kOnePass = false;               // finish() always returns false, apart from kMayRescale
    static constexpr bool kMayRescale = false;            // rare rows take one more pass: RescaledCombine
    static constexpr bool kPureReduce = false;            // reduce_tile() does not overwrite elements; TileParams is Nothing
    static constexpr bool kMapOnly = false;               // there is no reduction: MapOnly
    static constexpr bool kMapIsElementwise = false;      // map() reads Row and the element only, no TileParams
    static constexpr bool kZeroPads = false;              // transform() of zeros may replace pad()
    static constexpr bool kVectorizesAcrossRows = false;  // the CPU may vectorise across adjacent rows
    static constexpr int kCachedBytes = 128;              // cached elements of a GPU thread
    static constexpr int kCachedInputBytes = 128;         // cached inputs of a GPU thread, with map_recompute()
    static constexpr int kMaxChunk = 128;                 // CPU elements per chunk: 64 to save stack
    using TileParams = Nothing;
    using RecomputesMap = void;                          // F itself if F, and not just a base of it, has map_recompute()
    BK_HD bool keeps_elements() const { return false; }  // with kMapIsElementwise: kPureReduce at run time
    template <class F>
    static const F& at(const F& f, int64_t) {
        return f;
    }
    BK_HD Nothing start() const { return {}; }
    template <class Row, class Acc>
    BK_HD Nothing tile_params(const Row&, const Acc&) const {
        return {};
    }
    template <class Row>
    BK_HD Pack<> saved(const Row&) const {
        return {};
    }
};

// Base of functions without a reduction.
struct MapOnly : RowDefaults {
    static constexpr bool kOnePass = true, kPureReduce = true, kMapOnly = true, kZeroPads = true;
    using Acc = float;  // unused

    BK_HD Acc identity() const { return 0; }
    template <class Row, class Cached, class W, int N>
    BK_HD Acc reduce_tile(const Row&, Cached (&)[N], const W&) const {
        return 0;
    }
    BK_HD Acc combine(Acc a, Acc) const { return a; }
    template <class L>
    BK_HD Acc merge(Acc mine, const L&) const {
        return mine;
    }
    template <class Row>
    BK_HD bool finish(Row&, Acc, int64_t) const {
        return false;
    }
};

template <class F, class = void>
constexpr bool kHasPositionParams = false;
template <class F>
constexpr bool kHasPositionParams<F, std::void_t<decltype(std::declval<F>().shares_params(1))>> = true;

// Argument of transform() and map() for index j: shared parameters or j itself.
template <class F>
BK_HD auto position_params_of(const F& f, const typename F::Row& row, int64_t j) {
    if constexpr (kHasPositionParams<F>)
        return f.position_params(row, j);
    else
        return j;
}

template <class F, class PositionParams, class = void>
constexpr bool kHasNext = false;
template <class F, class PositionParams>
constexpr bool
    kHasNext<F, PositionParams, std::void_t<decltype(std::declval<const F&>().next(std::declval<PositionParams&>()))>> = true;

template <class F, class PositionParams>
BK_HD void advance_params([[maybe_unused]] const F& f, [[maybe_unused]] PositionParams& position_params) {
    if constexpr (kHasNext<F, PositionParams>) f.next(position_params);
}

template <class Row, class = void>
constexpr bool kHasFirstOffset = false;
template <class Row>
constexpr bool kHasFirstOffset<Row, std::void_t<decltype(Row::first_offset)>> = true;

// Row state from the row inputs, whose offsets are of[0], of[1], ...
template <class F, class... P, size_t... I>
BK_HD typename F::Row start_row(const F& f, const Pack<const P*...>& inputs, const uint64_t* of, std::index_sequence<I...>) {
    typename F::Row row =
        f.start((get<I>(inputs) == nullptr ? compute_t<P>(0) : widen(get<I>(inputs)[signed_offset(of[I])]))...);
    if constexpr (kHasFirstOffset<typename F::Row>) row.first_offset = signed_offset(of[0]);
    return row;
}

// Layouts of the operands: `inner` within a row, `outer` over rows. Order: inputs, outputs; in `outer` then the inputs
// and outputs of one value per row. Indices j count along `inner` in row-major order, so its axes may be merged, not
// permuted. Inputs may be broadcast (stride 0). Column inputs are dense vectors of one value per index j.
template <int Full, int Single = 0>
struct RowAxes {
    Layout<Full + Single> outer;
    Layout<Full> inner;
};

// y, saved = F(rows of x). Column inputs (then 0) and outputs may be null. A workspace speeds up few long rows.
template <class F, int Full, int Single, class... In, class... Column, class... RowIn, class... Out, class... Saved>
Status map_rows(const Launch& launch, const RowAxes<Full, Single>& axes, const F& f, const Inputs<In...>& x,
                const Inputs<Column...>& columns, const Inputs<RowIn...>& row_inputs, const Outputs<Out...>& y,
                const Outputs<Saved...>& saved);

// --- sums and extrema of cached elements -----------------------------------------------------------------------------

struct AddOp {
    template <class C>
    BK_HD C operator()(C a, C b) const {
        return a + b;
    }
};

// Maximum; if an operand is NaN, either of them.
struct MaxOp {
    template <class C>
    BK_HD C operator()(C a, C b) const {
#if BK_ON_GPU
        return ::max(a, b);
#else
        return a > b ? a : b;  // compiles to one instruction
#endif
    }
};

// half[i] = op(x[i], x[i + kWidth]); `half` may be x.
template <int kWidth, class Op, class C>
BK_HD void reduce_halves(const C* x, C* half, const Op& op) {
    if constexpr (kWidth > 16) {
        BK_HELD_LOOP
        for (int i = 0; i < kWidth; ++i) half[i] = op(x[i], x[i + kWidth]);
    } else {
        BK_SHORT_LOOP
        for (int i = 0; i < kWidth; ++i) half[i] = op(x[i], x[i + kWidth]);
    }
}

// Tree reduction into x[0]; on the CPU each level is vectorised.
template <int kWidth, class Op, class C>
BK_HD void reduce_pairs(C* x, const Op& op) {
    if constexpr (kWidth > 0) {
        reduce_halves<kWidth>(x, x, op);
        reduce_pairs<kWidth / 2>(x, op);
    }
}

template <class Op, class C, int N>
BK_HD C reduce_array(const C (&x)[N], const Op& op) {
    static_assert((N & (N - 1)) == 0, "halves");
    if constexpr (N == 1) {
        return x[0];
    } else {
        C half[N / 2];
        reduce_halves<N / 2>(x, half, op);
        reduce_pairs<N / 4>(half, op);
        return half[0];
    }
}

template <class C, int N>
BK_HD C sum_of(const C (&x)[N]) {
    return reduce_array(x, AddOp{});
}

// Dot product: a GPU uses up to four FMA chains, the CPU a tree.
template <class C, int N>
BK_HD C sum_of_products(const C (&x)[N], const C (&y)[N]) {
#if BK_IN_KERNEL
    constexpr int kChains = N < 4 ? N : 4;
    C chain[kChains];
#pragma unroll
    for (int i = 0; i < N; ++i) chain[i % kChains] = i < kChains ? x[i] * y[i] : fma(x[i], y[i], chain[i % kChains]);
    return sum_of(chain);
#else
    C product[N];
    BK_HELD_LOOP
    for (int i = 0; i < N; ++i) product[i] = x[i] * y[i];
    return sum_of(product);
#endif
}

// Sum of summand(i) over i: a GPU adds in up to four chains and stores no summand.
template <int N, class Summand>
BK_HD auto sum_generated(const Summand& summand) -> decltype(summand(0)) {
    using C = decltype(summand(0));
#if BK_IN_KERNEL
    constexpr int kChains = N < 4 ? N : 4;
    C chain[kChains];
#pragma unroll
    for (int i = 0; i < N; ++i) chain[i % kChains] = i < kChains ? summand(i) : chain[i % kChains] + summand(i);
    return sum_of(chain);
#else
    C made[N];
    BK_HELD_LOOP
    for (int i = 0; i < N; ++i) made[i] = summand(i);
    return sum_of(made);
#endif
}

template <int N, class Summand>
BK_HD auto sum_of_squares_generated(const Summand& summand) -> decltype(summand(0)) {
    using C = decltype(summand(0));
#if BK_IN_KERNEL
    constexpr int kChains = N < 4 ? N : 4;
    C chain[kChains];
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const C x = summand(i);
        chain[i % kChains] = i < kChains ? x * x : fma(x, x, chain[i % kChains]);
    }
    return sum_of(chain);
#else
    C made[N];
    BK_HELD_LOOP
    for (int i = 0; i < N; ++i) made[i] = summand(i);
    return sum_of_products(made, made);
#endif
}

// Launders a value on a GPU: the compiler recomputes what depends on it and keeps no registers for it.
template <class C>
BK_HD C opaque(C value) {
#if BK_ON_GPU
    if constexpr (sizeof(C) == 4)
        asm volatile("" : "+f"(value));
    else
        asm volatile("" : "+d"(value));
#endif
    return value;
}

template <class C, int N>
BK_HD C max_of(const C (&x)[N]) {
    return reduce_array(x, MaxOp{});
}

// Merges adjacent axes that are contiguous for all operands and drops those of extent 1; keeps the order.
template <int Operands>
BK_COLD Layout<Operands> merge_axes(const Layout<Operands>& given) {
    Layout<Operands> merged;
    for (int d = 0; d < given.rank; ++d) {
        if (given.extent[d] == 1) continue;
        bool is_mergeable = merged.rank > 0;
        for (int k = 0; is_mergeable && k < Operands; ++k)
            is_mergeable = merged.stride[k][merged.rank - 1] == given.extent[d] * given.stride[k][d];
        if (!is_mergeable) ++merged.rank;
        const int at = merged.rank - 1;
        merged.extent[at] = is_mergeable ? merged.extent[at] * given.extent[d] : given.extent[d];
        for (int k = 0; k < Operands; ++k) merged.stride[k][at] = given.stride[k][d];
    }
    return merged;
}

}  // namespace bk

#if BK_CUDA
#include "core/row/row_map_cuda.cuh"
#else
#include "core/row/row_map_cpu.h"
#endif
