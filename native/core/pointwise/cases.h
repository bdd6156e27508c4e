// SPDX-License-Identifier: Apache-2.0
// Functors whose parameters choose between formulas. Vector loops must not branch, so the CPU compiles one for each
// choice.
//
// Such a functor has
//
//   template <class F, class Body> static void each_case(const F& f, const Body& body)
//
// which calls body once with a copy of f (its own type or a derived one) whose choosing parameters are compile-time
// constants.
#pragma once

#include <type_traits>
#include <utility>

#include "core/platform.h"

namespace bk {

// Calls body(f) with the flag as a compile-time constant.
template <class F, class Owner, class Flag, class Body>
BK_HD void each_value(F f, Flag Owner::* flag, const Body& body) {
    if (f.*flag) {
        f.*flag = Flag(1);
        body(f);
    } else {
        f.*flag = Flag(0);
        body(f);
    }
}

struct AnyBody {
    template <class F>
    void operator()(const F&) const {}
};

template <class F, class = void>
constexpr bool kHasCases = false;
template <class F>
constexpr bool kHasCases<F, std::void_t<decltype(F::each_case(std::declval<const F&>(), AnyBody{}))>> = true;

template <class F, class Body>
BK_HD void in_case(const F& f, const Body& body) {
    if constexpr (kHasCases<F>)
        F::each_case(f, body);
    else
        body(f);
}

}  // namespace bk
