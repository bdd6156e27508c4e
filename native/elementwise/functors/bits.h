// SPDX-License-Identifier: Apache-2.0
// Bit operations on integers, and logic on booleans.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/math/bit_math.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk::op {

template <class T>
struct BitwiseNot {
    static constexpr bool ignores_sign = true;
    BK_HD T operator()(T x) const { return static_cast<T>(~x); }
};

template <class T>
struct Popcount {
    static constexpr bool ignores_sign = true;
    BK_HD T operator()(T x) const { return static_cast<T>(math::popcount(static_cast<bits_t<T>>(x))); }
};

template <class T>
struct Clz {
    static constexpr bool ignores_sign = true;
    BK_HD T operator()(T x) const { return static_cast<T>(math::count_leading_zeros(static_cast<bits_t<T>>(x))); }
};

// Counts the zeros below the lowest set bit: the bits set in x - 1 but not in x.
template <class T>
struct Ctz {
    static constexpr bool ignores_sign = true;
    BK_HD T operator()(T x) const {
        const auto u = static_cast<bits_t<T>>(x);
        return static_cast<T>(math::popcount(static_cast<bits_t<T>>(~u & (u - 1u))));
    }
};

template <class T>
struct BitwiseAnd {
    static constexpr bool ignores_sign = true;
    BK_HD T operator()(T a, T b) const { return static_cast<T>(a & b); }
};

template <class T>
struct BitwiseOr {
    static constexpr bool ignores_sign = true;
    BK_HD T operator()(T a, T b) const { return static_cast<T>(a | b); }
};

template <class T>
struct BitwiseXor {
    static constexpr bool ignores_sign = true;
    BK_HD T operator()(T a, T b) const { return static_cast<T>(a ^ b); }
};

// Narrow types are shifted in 32 bits. As unsigned, a count outside [0, width) is large.
template <class T>
struct BitwiseLeftShift {
    static constexpr bool ignores_sign = true;
    BK_HD T operator()(T a, T b) const {
        using Wide = std::conditional_t<(sizeof(T) > 4), uint64_t, uint32_t>;
        constexpr Wide kWidth = 8 * sizeof(T);
        const Wide count = static_cast<bits_t<T>>(b);
        const Wide shifted = static_cast<Wide>(a) << (count & (kWidth - 1));
        return static_cast<T>(math::select(count < kWidth, shifted, Wide(0)));
    }
};

template <class T>
struct BitwiseRightShift {
    BK_HD T operator()(T a, T b) const {
        using Count = std::conditional_t<(sizeof(T) > 4), uint64_t, uint32_t>;
        constexpr Count kWidth = 8 * sizeof(T);
        const Count count = static_cast<bits_t<T>>(b);
        if constexpr (std::is_signed_v<T>) {
            using Wide = std::make_signed_t<Count>;
            return static_cast<T>(static_cast<Wide>(a) >> math::select(count < kWidth, count, kWidth - 1));
        } else {
            return static_cast<T>(math::select(count < kWidth, static_cast<Count>(a) >> (count & (kWidth - 1)), Count(0)));
        }
    }
};

template <class T>
struct LogicalNot {
    BK_HD bool operator()(bool x) const { return !x; }
};

template <class T>
struct LogicalAnd {
    BK_HD bool operator()(bool a, bool b) const { return (a & b) != 0; }
};

template <class T>
struct LogicalOr {
    BK_HD bool operator()(bool a, bool b) const { return (a | b) != 0; }
};

template <class T>
struct LogicalXor {
    BK_HD bool operator()(bool a, bool b) const { return a != b; }
};

}  // namespace bk::op
