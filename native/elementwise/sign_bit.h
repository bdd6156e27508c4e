// SPDX-License-Identifier: Apache-2.0
// The sign bit of floats. Functors that use it alone take elements as bits, which avoids rounding and conversion.
#pragma once

#include <type_traits>

#include "core/types/dtype.h"

namespace bk::op {

template <class T>
constexpr bool kIsFloating = !std::is_integral_v<compute_t<T>>;
template <class T>
constexpr bits_t<T> kSignBit = static_cast<bits_t<T>>(bits_t<T>(1) << (8 * sizeof(T) - 1));

}  // namespace bk::op
