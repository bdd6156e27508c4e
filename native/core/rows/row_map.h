// The row skeleton: a statistic of each row, then a map over its elements: softmax, norms and their gradients.
//
// A row function F is a small trivially copyable struct, written once for both targets in the compute types. What it has:
//
//   Row, Acc, Held, Part                plain structs: what is known of a row; a statistic of some of its elements; what is
//                                       kept of an element between its load and its store; what map() needs to know of the
//                                       elements that were summed up together with one. Where any of them needs no member it
//                                       is `Nothing`.
//   Row start(P... row_inputs) const                    from the inputs of one value a row, 0 for one that is null. Where
//                                       Row has a member `place`, that is then the offset of the first of them
//   Held hold(const Row&, int64_t j, C... x) const      from the inputs' elements at position j of the row
//   Held pad() const                                    what stands where the row has no element
//   Acc identity() const
//   template <class W, int N> Acc sum_up(const Row&, Held (&held)[N], const W& where) const
//                                       of N elements; may replace them by what map() reads. where.has(i) says whether held[i]
//                                       is an element, where.count() how many are, where.at(i) which position it has
//   Acc combine(const Acc& a, const Acc& b) const       elements of `a` precede those of `b`, or lie among them
//   template <class L> Acc merge(const Acc& mine, const L& lanes) const      may be left out: what the neighbours on a GPU that
//                                       share a row have combined, from lanes.sum(), lanes.largest() and lanes.first() of
//                                       the numbers of each
//   bool finish(Row&, const Acc&, int64_t n) const      true: all elements are summed up once more, with this Row; once it was
//                                       false, more calls must leave Row as it is, since other rows may need more passes
//   Part part(const Row&, const Acc& mine) const        `mine`: what sum_up() gave for these elements
//   Y map(const Row&, const Part&, int64_t j, const Held&, K... column_inputs) const      a Pack, one value an output
//   Y map_again(const Row&, int64_t j, const Held&, K... column_inputs) const      may be left out: what map() gives, from what
//                                       hold() does
//   S saved(const Row&) const                           a Pack, one value for each output of one value a row
//
// Where hold() or map() look up what several neighbours have in common, both take a Near in place of j:
//
//   Near near(const Row&, int64_t j) const      of position j; of one beyond the row, anything
//   bool spans(int64_t n) const                 whether the n positions from each multiple of n share it
//   void next(Near&) const                      may be left out: from a position to the one behind it, that shares
//
// Where there is nothing to sum up, and map() needs what is of a position, it has two steps:
//
//   Numbers numbers(const Row&, int64_t j or const Near&, K... column_inputs) const
//   Y map_by(const Numbers&, const Held&) const
//
// Where rows that lie across memory are to have lanes of the CPU's vectors, functions of one or two passes have
//
//   static auto row_members(), acc_members()    a Pack of pointers to those members of Row and Acc that differ from row to row;
//                                               Nothing where it is a number
//   static F at(F f, int64_t j)                 may be left out: f with what it looks up for the elements at position j of rows
//
// RowDefaults has the simple ones. An element is held and summed up more than once where a row does not fit on the chip; then
// sum_up() sees the finished Row at last, so that what it replaces must not depend on more than map() knows.
// A row is read before any of it is written, except for rows that are longer than what a chip holds: there an output may still
// be an input of the same layout. All orders of operations follow from shapes and alignments alone.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/compiler_cpu.h"
#include "core/math/math.h"
#include "core/pointwise/layout.h"
#include "core/pointwise/pointwise.h"
#include "core/types/pack.h"
#include "core/types/vec.h"

// Before a loop over held elements, no step of which reads what another wrote: on a GPU they are registers, on the CPU vectors.
// BK_SHORT_LOOP is for those that may be at most 16.
#if BK_CUDA
#define BK_HELD_LOOP BK_UNROLL
#define BK_SHORT_LOOP BK_UNROLL
#else
#define BK_HELD_LOOP BK_CHUNK_LOOP
#define BK_SHORT_LOOP BK_VECTOR_LOOP
#endif

namespace bk {

struct Nothing {};

// What a Row derives from where the first of two passes finds the largest element.
struct KnowsLargest {
    bool knows_max = false;
};
template <bool kTwice>
using LargestKnown = std::conditional_t<kTwice, KnowsLargest, Nothing>;

// What row functions have that need none of it.
struct RowDefaults {
    static constexpr bool kOnePass = false;     // says, if true, that finish() is always false, but for kRepeats
    static constexpr bool kRepeats = false;     // says, if true, that rare rows have a pass more: RowParts says what for it
    static constexpr bool kOnlySums = false;    // says, if true, that sum_up() leaves elements as they are; Part is Nothing
    static constexpr bool kOnlyMaps = false;    // says, if true, that there is nothing to sum up: OnlyMaps
    static constexpr bool kMapsAlone = false;   // says, if true, that map() knows the Row and what sum_up() left of an element
    static constexpr bool kHoldsZeros = false;  // says, if true, that hold() of zeros may stand in place of pad()
    static constexpr bool kTakesLanes = false;  // says, if true, that rows which lie across memory may have lanes of the CPU
    static constexpr int kHeldBytes = 128;      // of a thread of a GPU
    static constexpr int kKeptBytes = 128;      // of its inputs, where map_again() lets it keep them as they lie
    static constexpr int kMostChunk = 128;      // of the CPU: 64 where sums and terms are much for its stack
    using Part = Nothing;
    using MapsAgain = void;  // the row function itself, if it has map_again(), which is not that of one derived from it
    BK_HD bool keeps_elements() const { return false; }  // says, with kMapsAlone, the same of sum_up() as kOnlySums
    template <class F>
    static const F& at(const F& f, int64_t) {
        return f;
    }
    BK_HD Nothing start() const { return {}; }
    template <class Row, class Acc>
    BK_HD Nothing part(const Row&, const Acc&) const {
        return {};
    }
    template <class Row>
    BK_HD Pack<> saved(const Row&) const {
        return {};
    }
};

// What row functions have that only map.
struct OnlyMaps : RowDefaults {
    static constexpr bool kOnePass = true, kOnlySums = true, kOnlyMaps = true, kHoldsZeros = true;
    using Acc = float;  // of nothing

    BK_HD Acc identity() const { return 0; }
    template <class Row, class Held, class W, int N>
    BK_HD Acc sum_up(const Row&, Held (&)[N], const W&) const {
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
constexpr bool kHasNear = false;
template <class F>
constexpr bool kHasNear<F, std::void_t<decltype(std::declval<F>().spans(1))>> = true;

// What hold() and map() take of position j.
template <class F>
BK_HD auto near_of(const F& f, const typename F::Row& row, int64_t j) {
    if constexpr (kHasNear<F>)
        return f.near(row, j);
    else
        return j;
}

template <class F, class Near, class = void>
constexpr bool kHasNext = false;
template <class F, class Near>
constexpr bool kHasNext<F, Near, std::void_t<decltype(std::declval<const F&>().next(std::declval<Near&>()))>> = true;

template <class F, class Near>
BK_HD void to_next([[maybe_unused]] const F& f, [[maybe_unused]] Near& near) {
    if constexpr (kHasNext<F, Near>) f.next(near);
}

template <class Row, class = void>
constexpr bool kHasPlace = false;
template <class Row>
constexpr bool kHasPlace<Row, std::void_t<decltype(Row::place)>> = true;

// Row inputs at their offsets, the first of which is of[0].
template <class F, class... P, size_t... I>
BK_HD typename F::Row start_row(const F& f, const Pack<const P*...>& inputs, const uint64_t* of, std::index_sequence<I...>) {
    typename F::Row row =
        f.start((get<I>(inputs) == nullptr ? compute_t<P>(0) : widen(get<I>(inputs)[signed_offset(of[I])]))...);
    if constexpr (kHasPlace<typename F::Row>) row.place = signed_offset(of[0]);
    return row;
}

// Where the elements lie. Operands of both layouts: inputs, then outputs, of the row's shape; of `outer` also the inputs and
// then the outputs of one value a row. Positions count along `inner` row-major, so its axes are merged at most. Inputs may
// stand still (stride 0). Column inputs have one value a position and are dense.
template <int Full, int Single = 0>
struct RowAxes {
    Layout<Full + Single> outer;
    Layout<Full> inner;
};

// y, saved = F of the rows of x. Column inputs may be null, and are 0 then; so may outputs be. A workspace helps few long rows.
template <class F, int Full, int Single, class... In, class... Column, class... RowIn, class... Out, class... Saved>
Status map_rows(const Launch& launch, const RowAxes<Full, Single>& axes, const F& f, const Inputs<In...>& x,
                const Inputs<Column...>& columns, const Inputs<RowIn...>& row_inputs, const Outputs<Out...>& y,
                const Outputs<Saved...>& saved);

// --- sums and extrema of held elements --------------------------------------------------------------------------------

struct SumOf {
    template <class C>
    BK_HD C operator()(C a, C b) const {
        return a + b;
    }
};

// The larger; where one is NaN, any of them.
struct LargerOf {
    template <class C>
    BK_HD C operator()(C a, C b) const {
#if BK_ON_GPU
        return ::max(a, b);
#else
        return a > b ? a : b;  // which compilers know as one instruction
#endif
    }
};

// half[i] = op(x[i], x[i + kWidth]); `half` may be x.
template <int kWidth, class Op, class C>
BK_HD void halve(const C* x, C* half, const Op& op) {
    if constexpr (kWidth > 16) {
        BK_HELD_LOOP
        for (int i = 0; i < kWidth; ++i) half[i] = op(x[i], x[i + kWidth]);
    } else {
        BK_SHORT_LOOP
        for (int i = 0; i < kWidth; ++i) half[i] = op(x[i], x[i + kWidth]);
    }
}

// In pairs, into x[0]; on the CPU each step is one of vectors.
template <int kWidth, class Op, class C>
BK_HD void reduce_pairs(C* x, const Op& op) {
    if constexpr (kWidth > 0) {
        halve<kWidth>(x, x, op);
        reduce_pairs<kWidth / 2>(x, op);
    }
}

template <class Op, class C, int N>
BK_HD C reduced(const C (&x)[N], const Op& op) {
    static_assert((N & (N - 1)) == 0, "halves");
    if constexpr (N == 1) {
        return x[0];
    } else {
        C half[N / 2];
        halve<N / 2>(x, half, op);
        reduce_pairs<N / 4>(half, op);
        return half[0];
    }
}

template <class C, int N>
BK_HD C sum_of(const C (&x)[N]) {
    return reduced(x, SumOf{});
}

// Products as they are summed up: a GPU adds them in few chains of fused steps, the CPU in pairs.
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

// Sums of what `term(i)` makes: a GPU holds none of these, and adds them in few chains.
template <int N, class Term>
BK_HD auto sum_made(const Term& term) -> decltype(term(0)) {
    using C = decltype(term(0));
#if BK_IN_KERNEL
    constexpr int kChains = N < 4 ? N : 4;
    C chain[kChains];
#pragma unroll
    for (int i = 0; i < N; ++i) chain[i % kChains] = i < kChains ? term(i) : chain[i % kChains] + term(i);
    return sum_of(chain);
#else
    C made[N];
    BK_HELD_LOOP
    for (int i = 0; i < N; ++i) made[i] = term(i);
    return sum_of(made);
#endif
}

template <int N, class Term>
BK_HD auto sum_of_squares_made(const Term& term) -> decltype(term(0)) {
    using C = decltype(term(0));
#if BK_IN_KERNEL
    constexpr int kChains = N < 4 ? N : 4;
    C chain[kChains];
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const C x = term(i);
        chain[i % kChains] = i < kChains ? x * x : fma(x, x, chain[i % kChains]);
    }
    return sum_of(chain);
#else
    C made[N];
    BK_HELD_LOOP
    for (int i = 0; i < N; ++i) made[i] = term(i);
    return sum_of_products(made, made);
#endif
}

// A value that is opaque to a GPU's compiler, which then computes anew what depends on it and keeps no registers for it.
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
    return reduced(x, LargerOf{});
}

// Merges neighbouring axes that all operands cross in one stride, and drops those of extent 1; their order stays.
template <int Operands>
BK_COLD Layout<Operands> merge_axes(const Layout<Operands>& given) {
    Layout<Operands> merged;
    for (int d = 0; d < given.rank; ++d) {
        if (given.extent[d] == 1) continue;
        bool joins = merged.rank > 0;
        for (int k = 0; joins && k < Operands; ++k)
            joins = merged.stride[k][merged.rank - 1] == given.extent[d] * given.stride[k][d];
        if (!joins) ++merged.rank;
        const int at = merged.rank - 1;
        merged.extent[at] = joins ? merged.extent[at] * given.extent[d] : given.extent[d];
        for (int k = 0; k < Operands; ++k) merged.stride[k][at] = given.stride[k][d];
    }
    return merged;
}

}  // namespace bk

#if BK_CUDA
#include "core/rows/row_map_cuda.cuh"
#else
#include "core/rows/row_map_cpu.h"
#endif
