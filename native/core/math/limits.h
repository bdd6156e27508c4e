// SPDX-License-Identifier: Apache-2.0
// Largest and smallest values of a floating-point type.
#pragma once

#include <limits>

namespace bk {

template <class C>
constexpr C kInfinity = std::numeric_limits<C>::infinity();
template <class C>
constexpr C kNaN = std::numeric_limits<C>::quiet_NaN();
template <class C>
constexpr C kGreatest = std::numeric_limits<C>::max();

}  // namespace bk
