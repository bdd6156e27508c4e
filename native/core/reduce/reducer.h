// SPDX-License-Identifier: Apache-2.0
// The reducer protocol: what a reduction accumulates, combines and writes.
//
// A reducer R is a trivially copyable struct, parameters are its members:
//
//   using Acc = ...;                             the accumulator: up to 5 scalars, at most 40 bytes
//   Acc identity() const;                        the accumulator of no items
//   void add(Acc&, int64_t index, C... x) const; adds one item, the inputs widened; `index` is its position along the
//                                                reduced axes, row-major
//   Acc combine(const Acc& a, const Acc& b) const;
//   Pack<...> or one value finish(const Acc&, int64_t count) const; a value an output, in compute types; count of items
//
// and, optionally,
//
//   static constexpr int kVaryingInputs;         inputs from this index on are mostly broadcast along adjacent items.
//                                                It comes with Broadcast broadcast_of(C... x) const of these, and void
//                                                add_with(Acc&, const Broadcast&, C... x) const of the others, which
//                                                together are add()
//   Acc start(C... x) const;                     replaces identity() if x is the first item; x is added, too
//   Acc one(C... x) const;                       what add() makes of identity(). Says that combine() of adjacent items,
//                                                grouped in any way but in order, gives the same bits
//   void settle(Acc&, int64_t items) const;      adds recent items to the total, after at most kSettleInterval of them
//                                                and before combine(): `items` were added since the last call
//   static constexpr bool ignores_index = true;  add() does not read the index: axes merge whatever their order
//   static constexpr bool keeps_first = true;    of equal items add() keeps the one that came first: they come by
//                                                position
//   static constexpr bool may_be_lost;           finite items may leave the range of an Acc. It comes with bool
//                                                is_lost(const Acc&) const of settled items, which are then added a
//                                                second time: Acc start_again() const, void add_again(Acc&, index,
//                                                C...) const and Acc end_again(const Acc&) const make an Acc without
//                                                settle(), which finish() and, on a GPU, combine() accept among others.
//                                                void explain(Acc&, C...) const clears the loss if the item x explains
//                                                it
//   void store(const Pack<Out*...>&, const int64_t* offset, const Acc&, int64_t count) const;
//                                                replaces finish(): writes the outputs at their offsets, in elements
//   P combiner() const;                          a reducer of the same Acc that combines partials and finishes in place
//                                                of this one, so that many reducers share its kernel
//   static constexpr bool kRepeats = true;       results may require other passes over their items, in which a member
//                                                `unit` of the reducer multiplies the inputs. It comes with C
//                                                wanted(const Acc&) const: the unit that a result of the first pass
//                                                requires, 1, SquareScale::kDown or kUp, and with stamp(Acc&) const,
//                                                which marks what a pass combined; combiner() then reconciles marked Accs
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/platform.h"
#include "core/types/convert.h"
#include "core/types/pack.h"

namespace bk {

template <class R, class = void>
constexpr bool kIgnoresIndex = false;
template <class R>
constexpr bool kIgnoresIndex<R, std::enable_if_t<R::ignores_index>> = true;

template <class R, class = void>
constexpr bool kKeepsFirst = false;
template <class R>
constexpr bool kKeepsFirst<R, std::enable_if_t<R::keeps_first>> = true;

template <class R, class = void>
constexpr bool kRepeats = false;
template <class R>
constexpr bool kRepeats<R, std::enable_if_t<R::kRepeats>> = true;

// Inputs of a reducer that vary along adjacent items: all, or the first R::kVaryingInputs.
template <class R, class = void>
constexpr int kVaryingInputsOf = 1 << 20;
template <class R>
constexpr int kVaryingInputsOf<R, std::enable_if_t<(R::kVaryingInputs > 0)>> = R::kVaryingInputs;

template <class R, class = void>
constexpr bool kMayBeLost = false;
template <class R>
constexpr bool kMayBeLost<R, std::enable_if_t<R::may_be_lost>> = true;

template <class R, class... C>
BK_HD auto explain(const R& reducer, typename R::Acc& acc, int, C... x) -> decltype(reducer.explain(acc, x...)) {
    reducer.explain(acc, x...);
}
template <class R, class... C>
BK_HD void explain(const R&, typename R::Acc&, long, C...) {}

template <class R, class... C>
BK_HD auto start_of(const R& reducer, int, C... x) -> decltype(reducer.start(x...)) {
    return reducer.start(x...);
}
template <class R, class... C>
BK_HD typename R::Acc start_of(const R& reducer, long, C...) {
    return reducer.identity();
}

template <class R>
BK_HD auto settle(const R& reducer, typename R::Acc& acc, int64_t items, int) -> decltype(reducer.settle(acc, items)) {
    reducer.settle(acc, items);
}
template <class R>
BK_HD void settle(const R&, typename R::Acc&, int64_t, long) {}

template <class Void, class R, class... C>
constexpr bool kHasStart = false;
template <class R, class... C>
constexpr bool kHasStart<std::void_t<decltype(std::declval<const R&>().start(std::declval<C>()...))>, R, C...> = true;

template <class Void, class R, class... C>
constexpr bool kHasOne = false;
template <class R, class... C>
constexpr bool kHasOne<std::void_t<decltype(std::declval<const R&>().one(std::declval<C>()...))>, R, C...> = true;

template <class R, class = void>
constexpr bool kFinishes = false;
template <class R>
constexpr bool kFinishes<R, std::void_t<decltype(std::declval<const R&>().finish(std::declval<const typename R::Acc&>(), 0))>> =
    true;

template <class R>
BK_HD auto combiner_of(const R& reducer, int) -> decltype(reducer.combiner()) {
    return reducer.combiner();
}
template <class R>
BK_HD R combiner_of(const R& reducer, long) {
    return reducer;
}

// Passes over items whose results may require units: the first, and those that scale down and up.
constexpr int kPasses = 3;

template <class R>
BK_HD R in_pass(R reducer, [[maybe_unused]] int pass) {
    if constexpr (kRepeats<R>) reducer.unit = pass == 0 ? typename R::C(1) : pass == 1 ? R::Scale::kDown : R::Scale::kUp;
    return reducer;
}

// The pass that has the result, given `acc` of the first pass.
template <class R>
BK_HD int pass_of([[maybe_unused]] const R& reducer, [[maybe_unused]] const typename R::Acc& acc) {
    if constexpr (kRepeats<R>) {
        const typename R::C unit = reducer.wanted(acc);
        return unit == typename R::C(1) ? 0 : unit < typename R::C(1) ? 1 : 2;
    } else {
        return 0;
    }
}

template <class R>
BK_HD void stamp([[maybe_unused]] const R& reducer, [[maybe_unused]] typename R::Acc& acc) {
    if constexpr (kRepeats<R>) reducer.stamp(acc);
}

template <class... Out, class... C, size_t... O>
BK_HD void store_each(const Pack<Out*...>& out, const int64_t* offset, const Pack<C...>& values, std::index_sequence<O...>) {
    ((get<O>(out) != nullptr ? void(get<O>(out)[offset[O]] = narrow<Out>(get<O>(values))) : void()), ...);
}
template <class Out, class C, size_t... O>
BK_HD void store_each(const Pack<Out*>& out, const int64_t* offset, const C& value, std::index_sequence<O...>) {
    get<0>(out)[offset[0]] = narrow<Out>(value);
}
template <class Out, class C, size_t... O>
BK_HD void store_each(const Pack<Out*>& out, const int64_t* offset, const Pack<C>& value, std::index_sequence<O...>) {
    get<0>(out)[offset[0]] = narrow<Out>(get<0>(value));
}

template <class R, class... Out>
BK_HD auto store_result(const R& reducer, const Pack<Out*...>& out, const int64_t* offset, const typename R::Acc& acc,
                        int64_t count, int) -> decltype(reducer.store(out, offset, acc, count)) {
    reducer.store(out, offset, acc, count);
}
template <class R, class... Out>
BK_HD void store_result(const R& reducer, const Pack<Out*...>& out, const int64_t* offset, const typename R::Acc& acc,
                        int64_t count, long) {
    store_each(out, offset, reducer.finish(acc, count), std::index_sequence_for<Out...>{});
}

}  // namespace bk
