// SPDX-License-Identifier: Apache-2.0
// Element types of products of two 8-bit formats: kernels have one type for both factors, which tells their formats.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/types/convert.h"
#include "core/types/dtype.h"

namespace bk {

// Elements of A are e5m2, those of B e4m3, or the other way round.
struct e5m2_by_e4m3 {
    uint8_t bits;
};
struct e4m3_by_e5m2 {
    uint8_t bits;
};

// The dtypes of A and B behind an element type, and the element type of the transposed product.
template <class E>
struct Factors {
    using A = E;
    using B = E;
    using Transposed = E;
};
template <>
struct Factors<e5m2_by_e4m3> {
    using A = e5m2;
    using B = e4m3;
    using Transposed = e4m3_by_e5m2;
};

// The element type of a product of A and B.
template <class A, class B>
struct ProductOf;
template <class E>
struct ProductOf<E, E> {
    using Element = E;
};
template <>
struct ProductOf<e5m2, e4m3> {
    using Element = e5m2_by_e4m3;
};

template <class E>
constexpr bool kHasFp8Factors = kIsFp8<typename Factors<E>::A>;

}  // namespace bk
