// SPDX-License-Identifier: Apache-2.0
// Types of the weights of interpolation and of elements between its passes, and the rounding of a sum.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk::image {

constexpr int kByteWeightBits = 22;  // 8 bits of a byte, 2 of overshoot: sums fit 32 bits

template <class T>
using weight_t = std::conditional_t<std::is_same_v<T, uint8_t>, int32_t, compute_t<T>>;
// Elements between passes.
template <class T>
using between_t = std::conditional_t<std::is_same_v<T, uint8_t>, uint8_t, compute_t<T>>;

template <class T>
BK_HD T finish_pass(compute_t<T> sum) {
    return narrow<T>(sum);
}
template <class T>
BK_HD uint8_t finish_pass(int32_t sum) {
    const int32_t rounded = (sum + (1 << (kByteWeightBits - 1))) >> kByteWeightBits;
    return static_cast<uint8_t>(rounded < 0 ? 0 : rounded > 255 ? 255 : rounded);
}

}  // namespace bk::image
