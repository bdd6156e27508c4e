// SPDX-License-Identifier: Apache-2.0
// Ordered keys: the bits of an element become an unsigned integer whose order is the sort order.
//
//   unsigned       the bits                      signed    the bits with the sign bit flipped
//   float          +x: the sign bit set, -x: all bits flipped; -0 has the key of +0, and every NaN, of either sign,
//                  the largest key
//   boolean        0 or 1
//   descending     the complement, so that a stable sort by ascending keys keeps the order of ties and NaN is first
//
// Equal keys are ties: the map loses the sign of zero and the payload of NaN, so values are moved by index or as bits, never
// made from keys. The kind is a run-time number; kernels are instantiated by the width of keys only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk {

enum class KeyKind : int32_t { kUnsigned, kSigned, kFloat, kBoolean };

template <class Bits>
struct KeyOrder {
    static_assert(std::is_unsigned_v<Bits>, "keys are unsigned integers");
    static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    static constexpr Bits kAll = static_cast<Bits>(~Bits{0});

    KeyKind kind;
    Bits largest;  // of a float: the largest magnitude that is no NaN, as bits
    Bits flip;     // kAll if descending, else 0

    BK_HD Bits operator()(Bits bits) const {
        Bits key = bits;
        if (kind == KeyKind::kFloat) {
            const Bits magnitude = static_cast<Bits>(bits & static_cast<Bits>(~kSign));
            const bool is_negative = (bits & kSign) != 0 && magnitude != 0;
            key = magnitude > largest ? kAll : is_negative ? static_cast<Bits>(~bits) : static_cast<Bits>(magnitude | kSign);
        } else if (kind == KeyKind::kSigned) {
            key = static_cast<Bits>(bits ^ kSign);
        } else if (kind == KeyKind::kBoolean) {
            key = static_cast<Bits>(bits != 0);
        }
        return static_cast<Bits>(key ^ flip);
    }
    // The key without branches, for GPUs: a float's by its comparisons as an unsigned integer.
    BK_HD Bits selected(Bits bits) const {
        const Bits magnitude = static_cast<Bits>(bits & static_cast<Bits>(~kSign));
        const Bits of_sign = static_cast<Bits>(bits > kSign ? ~bits : bits | kSign);
        const Bits of_float = magnitude > largest ? kAll : of_sign;
        const Bits of_integer = static_cast<Bits>(bits ^ (kind == KeyKind::kSigned ? kSign : Bits{0}));
        const Bits of_bits = kind == KeyKind::kBoolean ? static_cast<Bits>(bits != 0) : of_integer;
        return static_cast<Bits>((kind == KeyKind::kFloat ? of_float : of_bits) ^ flip);
    }
};

template <class T>
struct KeyTraits {
    static_assert(std::is_integral_v<T>, "a dtype without an order");
    static constexpr KeyKind kKind = std::is_signed_v<T> ? KeyKind::kSigned : KeyKind::kUnsigned;
    static constexpr bits_t<T> kLargest = 0;
};

template <class T, uint64_t kBits>
struct FloatKeyTraits {
    static constexpr KeyKind kKind = KeyKind::kFloat;
    static constexpr bits_t<T> kLargest = static_cast<bits_t<T>>(kBits);
};

// Infinities; e4m3 has none, and one NaN of each sign, so that its largest number is 448.
template <>
struct KeyTraits<double> : FloatKeyTraits<double, 0x7ff0000000000000u> {};
template <>
struct KeyTraits<float> : FloatKeyTraits<float, 0x7f800000u> {};
template <>
struct KeyTraits<f16> : FloatKeyTraits<f16, 0x7c00u> {};
template <>
struct KeyTraits<bf16> : FloatKeyTraits<bf16, 0x7f80u> {};
template <>
struct KeyTraits<e5m2> : FloatKeyTraits<e5m2, 0x7cu> {};
template <>
struct KeyTraits<e4m3> : FloatKeyTraits<e4m3, 0x7eu> {};
template <>
struct KeyTraits<boolean> {
    static constexpr KeyKind kKind = KeyKind::kBoolean;
    static constexpr uint8_t kLargest = 0;
};

template <class T>
constexpr KeyOrder<bits_t<T>> key_order(bool descending) {
    using Order = KeyOrder<bits_t<T>>;
    return {KeyTraits<T>::kKind, KeyTraits<T>::kLargest, descending ? Order::kAll : bits_t<T>{0}};
}

// The key of one element, ascending; the kind is known to the compiler.
template <class T>
BK_HD bits_t<T> ordered_key(T x) {
    constexpr KeyOrder<bits_t<T>> order{KeyTraits<T>::kKind, KeyTraits<T>::kLargest, 0};
    return order(bit_cast<bits_t<T>>(x));
}

}  // namespace bk
