// SPDX-License-Identifier: Apache-2.0
// Casts from and to 4-bit integers, two a byte.
//
// A byte and its two elements are one element of the pointwise skeleton. If operands are not aligned to vectors, even
// and odd elements of the wide side become two operands.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/pointwise/pointwise.h"
#include "core/types/convert.h"
#include "core/types/nibbles.h"
#include "elementwise/cast_by_code.h"

namespace bk {

template <class T>
struct ElementPair {
    T first, second;
};

template <class P, class U>
struct UnpackPairFunctor {
    static constexpr bool always_dense = true;
    BK_HD ElementPair<U> operator()(P x) const {
        return {narrow<U>(convert<U>(low_nibble(x))), narrow<U>(convert<U>(high_nibble(x)))};
    }
};

template <class Bits>
struct UnpackByCode {
    bool is_signed;
    int to;
    BK_HD Pack<Bits, Bits> operator()(uint8_t x) const {
        return pack(CastTypeList::converted<Bits>(to, nibble(x)),
                    CastTypeList::converted<Bits>(to, nibble(static_cast<uint8_t>(x >> 4))));
    }
    BK_HD int8_t nibble(uint8_t x) const { return is_signed ? low_nibble(s4x2{x}) : static_cast<int8_t>(low_nibble(u4x2{x})); }
};

template <class P, class U>
struct UnpackFunctor {
    using ByCode = UnpackByCode<bits_t<U>>;
    static constexpr ByCode by_code() { return {std::is_same_v<P, s4x2>, kCastCode<U>}; }
    static constexpr bool never_dense = true;
    using C = decltype(convert<U>(nibble_t<P>()));
    BK_HD Pack<C, C> operator()(P x) const { return pack(convert<U>(low_nibble(x)), convert<U>(high_nibble(x))); }
};

template <class T, class P>
struct PackPairFunctor {
    static constexpr bool always_dense = true;
    BK_HD P operator()(ElementPair<T> x) const { return to_nibbles<P>(widen(x.first), widen(x.second)); }
};

template <class Bits>
struct PackByCode {
    int from;
    bool is_signed;
    BK_HD uint8_t operator()(Bits first, Bits second) const {
        return static_cast<uint8_t>(nibble(first) | nibble(second) << 4);
    }
    BK_HD uint32_t nibble(Bits bits) const {
        uint32_t result = 0;
        CastTypeList::with_value(from, bits, [&](auto x) { result = is_signed ? to_nibble<s4x2>(x) : to_nibble<u4x2>(x); });
        return result;
    }
};

template <class T, class P>
struct PackFunctor {
    using ByCode = PackByCode<bits_t<T>>;
    static constexpr ByCode by_code() { return {kCastCode<T>, std::is_same_v<P, s4x2>}; }
    static constexpr bool never_dense = true;
    BK_HD P operator()(compute_t<T> first, compute_t<T> second) const { return to_nibbles<P>(first, second); }
};

template <class P, class Q>
struct RepackFunctor {
    BK_HD Q operator()(P x) const { return to_nibbles<Q>(low_nibble(x), high_nibble(x)); }
};

inline Status require_even(int64_t numel) {
    BK_TRY(require_non_negative({{"numel", numel}}));
    if (numel % 2 != 0) return fail(Status::kInvalidProblem, "numel is %lld, must be even", static_cast<long long>(numel));
    return Status::kOk;
}

// Casts P, two elements a byte, to U.
template <class P, class U>
struct Unpack {
    int64_t numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_even(numel); }
    Status run(const P* x, U* y, const Launch& launch) const {
        const int64_t bytes = numel / 2;
        if (is_aligned(x, kVectorBytes) && is_aligned(y, kVectorBytes))
            return pointwise(launch, bytes, UnpackPairFunctor<P, U>{}, outputs(reinterpret_cast<ElementPair<U>*>(y)),
                             inputs(x));
        Layout<3> layout;
        layout.append(bytes, {2, 2, 1});
        return pointwise_strided(launch, layout, UnpackFunctor<P, U>{}, outputs(y, y + 1), inputs(x));
    }
};

// Casts T to P, two elements a byte.
template <class T, class P>
struct PackBits {
    int64_t numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_even(numel); }
    Status run(const T* x, P* y, const Launch& launch) const {
        const int64_t bytes = numel / 2;
        if (is_aligned(x, kVectorBytes) && is_aligned(y, kVectorBytes))
            return pointwise(launch, bytes, PackPairFunctor<T, P>{}, outputs(y),
                             inputs(reinterpret_cast<const ElementPair<T>*>(x)));
        Layout<3> layout;
        layout.append(bytes, {1, 2, 2});
        return pointwise_strided(launch, layout, PackFunctor<T, P>{}, outputs(y), inputs(x, x + 1));
    }
};

template <class P, class Q>
struct Repack {
    int64_t numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_even(numel); }
    Status run(const P* x, Q* y, const Launch& launch) const {
        if constexpr (std::is_same_v<P, Q>)
            return pointwise(launch, numel / 2, CopyFunctor{}, outputs(y), inputs(x));
        else
            return pointwise(launch, numel / 2, RepackFunctor<P, Q>{}, outputs(y), inputs(x));
    }
};

}  // namespace bk
