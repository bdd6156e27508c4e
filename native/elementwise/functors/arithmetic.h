// SPDX-License-Identifier: Apache-2.0
// Signs, powers and roots of one operand; sums, differences and products of two. Integers wrap modulo 2^width.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"
#include "core/types/pack.h"
#include "elementwise/sign_bit.h"

namespace bk::op {

// Unsigned type in which integers of type C wrap; at least 32 bits, since narrower products would be of type int.
template <class C>
using wrapping_t = std::conditional_t<(sizeof(C) > 4), uint64_t, uint32_t>;

// Powers of two s and 1 / s for which (s x)^2 is normal and finite for any x but 0; s = 1 in mid-range. Then dy x^2 =
// ((dy / s) (s x)^2) / s and dy / x^2 = ((dy s) / (s x)^2) s do not overflow or underflow unduly, since dy / s and dy s
// leave the range only if the result does.
template <class C>
struct SquareScale {
    C scale, inverse;
    BK_HD explicit SquareScale(C x) {
        constexpr bool kDouble = sizeof(C) == 8;
        constexpr C kLarge = kDouble ? C(0x1p500) : C(0x1p60), kSmall = kDouble ? C(0x1p-500) : C(0x1p-60);
        constexpr C kUp = kDouble ? C(0x1p600) : C(0x1p90), kDown = kDouble ? C(0x1p-600) : C(0x1p-90);
        const C size = math::fabs<C>(x);
        scale = math::select(size > kLarge, kDown, math::select(size < kSmall, kUp, C(1)));
        inverse = math::select(size > kLarge, kUp, math::select(size < kSmall, kDown, C(1)));
    }
};

// 3 z^2, corrected for the rounding of 3 z.
template <class C>
BK_HD C triple_square(C z) {
    const C triple = C(3) * z, lost = math::fma(C(3), z, -triple);
    return math::select(math::fabs<C>(z) < C(INFINITY), math::fma(triple, z, lost * z), triple * z);
}

// --- One operand -----------------------------------------------------------------------------------------------------

template <class T>
struct Neg {
    static constexpr bool ignores_sign = true, takes_bits = kIsFloating<T>;
    using Element = std::conditional_t<takes_bits, bits_t<T>, T>;
    BK_HD Element operator()(Element x) const {
        if constexpr (takes_bits)
            return static_cast<Element>(x ^ kSignBit<T>);
        else
            return static_cast<T>(wrapping_t<T>(0) - static_cast<wrapping_t<T>>(x));
    }
};

template <class T>
struct NegBackward {
    static constexpr bool takes_bits = true;
    BK_HD bits_t<T> operator()(bits_t<T> dy, bits_t<T>) const { return Neg<T>()(dy); }
};

template <class T>
struct Abs {
    static constexpr bool takes_bits = kIsFloating<T>;
    using Element = std::conditional_t<takes_bits, bits_t<T>, T>;
    BK_HD Element operator()(Element x) const {
        if constexpr (takes_bits)
            return static_cast<Element>(x & ~kSignBit<T>);
        else if constexpr (std::is_signed_v<T>)
            return math::select(x < 0, Neg<T>()(x), x);
        else
            return x;
    }
};

template <class T>
struct Sign {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        if constexpr (std::is_unsigned_v<C>)
            return static_cast<C>(x != 0);
        else
            return math::select(x > C(0), C(1), math::select(x < C(0), C(-1), C(0)));
    }
};

template <class T>
struct AbsBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const { return dy * Sign<T>()(x); }
};

template <class T>
struct SignBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C, C) const { return C(0); }
};

template <class T>
struct Reciprocal {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return C(1) / x; }
};

template <class T>
struct ReciprocalBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const SquareScale<C> by(x);
        const C z = x * by.scale;
        return -(dy * by.scale / (z * z) * by.scale);
    }
};

template <class T>
struct Square {
    static constexpr bool ignores_sign = true;
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        if constexpr (std::is_integral_v<C>)
            return static_cast<C>(static_cast<wrapping_t<C>>(x) * static_cast<wrapping_t<C>>(x));
        else
            return x * x;
    }
};

// Doubles the smaller factor: exact, and no overflow unless the product overflows. The product is rounded once.
template <class T>
struct SquareBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const bool twice_x = math::fabs<T>(x) < math::fabs<T>(dy);
        return math::select(twice_x, x + x, x) * math::select(twice_x, dy, dy + dy);
    }
};

template <class T>
struct Cube {
    static constexpr bool ignores_sign = true;
    using C = compute_t<T>;
    BK_HD C operator()(C x) const {
        if constexpr (std::is_integral_v<C>) {
            const auto u = static_cast<wrapping_t<C>>(x);
            return static_cast<C>(u * u * u);
        } else {
            return x * x * x;
        }
    }
};

template <class T>
struct CubeBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C x) const {
        const SquareScale<C> by(x);
        return dy * by.inverse * triple_square(x * by.scale) * by.inverse;
    }
};

template <class T>
struct Sqrt {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::sqrt<T>(x); }
};

// dy / (2 y). If 2 y might overflow dy is halved instead, which is exact there unless the result is 0.
template <class T>
struct SqrtBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C y) const {
        if constexpr (std::is_same_v<T, f16>) {
            return dy / (y + y);
        } else {
            const bool large = math::fabs<T>(y) > (sizeof(C) == 8 ? C(0x1p1000) : C(0x1p100));
            return math::select(large, C(0.5) * dy, dy) / math::select(large, y, y + y);
        }
    }
};

template <class T>
struct Rsqrt {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::rsqrt<T>(x); }
};

// -dy y^3 / 2, corrected for the rounding of the square. The cube of large roots overflows, and dy y may be subnormal
// if dy is: y is scaled by 2^-k if large and by 2^k if small, dy by 2^(2k) or 2^(-2k). The scaled square overflows, or
// is 0, only where the result is infinite, or 0, for every dy.
template <class T>
struct RsqrtBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C y) const {
        if constexpr (std::is_same_v<T, f16>) {
            return dy * (C(-0.5) * y * y * y);
        } else {
            constexpr bool kDouble = sizeof(C) == 8;
            constexpr C kLarge = kDouble ? C(0x1p330) : C(0x1p41), kSmall = kDouble ? C(0x1p-240) : C(0x1p-30);
            constexpr C kDown = kDouble ? C(0x1p-480) : C(0x1p-60), kUp = kDouble ? C(0x1p350) : C(0x1p45);
            const C size = math::fabs<T>(y);
            const bool large = size > kLarge, small = size < kSmall;
            const C scale = math::select(large, kDown, math::select(small, kUp, C(1)));
            const C inverse = math::select(large, C(1) / kDown, math::select(small, C(1) / kUp, C(1)));
            const C z = y * scale, half_square = C(-0.5) * z * z;
            C cube = half_square * z;
            if constexpr (!math::kIsHalf<T>) {
                const C lost = math::fma(C(-0.5) * z, z, -half_square);
                const bool inside = (half_square > (kDouble ? C(-0x1p680) : C(-0x1p83))) & (half_square < C(0));
                cube = math::select(inside, math::fma(half_square, z, lost * z), cube);
            }
            return dy * (inverse * inverse) * cube * inverse;
        }
    }
};

template <class T>
struct Cbrt {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::cbrt<T>(x); }
};

template <class T>
struct CbrtBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C y) const {
        const SquareScale<C> by(y);
        return dy * by.scale / triple_square(y * by.scale) * by.scale;
    }
};

// --- Two operands ----------------------------------------------------------------------------------------------------

template <class T>
struct Add {
    static constexpr bool ignores_sign = true;
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        if constexpr (std::is_integral_v<C>)
            return static_cast<C>(static_cast<wrapping_t<C>>(a) + static_cast<wrapping_t<C>>(b));
        else
            return a + b;
    }
};

template <class T>
struct AddBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy) const { return pack(dy, dy); }
};

template <class T>
struct Sub {
    static constexpr bool ignores_sign = true;
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        if constexpr (std::is_integral_v<C>)
            return static_cast<C>(static_cast<wrapping_t<C>>(a) - static_cast<wrapping_t<C>>(b));
        else
            return a - b;
    }
};

template <class T>
struct SubBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy) const { return pack(dy, -dy); }
};

template <class T>
struct Mul {
    static constexpr bool ignores_sign = true;
    using C = compute_t<T>;
    BK_HD C operator()(C a, C b) const {
        if constexpr (std::is_integral_v<C>)
            return static_cast<C>(static_cast<wrapping_t<C>>(a) * static_cast<wrapping_t<C>>(b));
        else
            return a * b;
    }
};

template <class T>
struct MulBackward {
    using C = compute_t<T>;
    BK_HD Pack<C, C> operator()(C dy, C a, C b) const { return pack(dy * b, dy * a); }
};

}  // namespace bk::op
