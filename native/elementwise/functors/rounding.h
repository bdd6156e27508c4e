// SPDX-License-Identifier: Apache-2.0
// Rounding to integers.
#pragma once

#include "core/math/math.h"
#include "core/platform.h"
#include "core/types/dtype.h"

namespace bk::op {

template <class T>
struct Floor {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::floor<T>(x); }
};

template <class T>
struct Ceil {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::ceil<T>(x); }
};

template <class T>
struct Round {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::rint<T>(x); }
};

template <class T>
struct Trunc {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return math::trunc<T>(x); }
};

// NaN for an infinite x, +0 for an integer.
template <class T>
struct Frac {
    using C = compute_t<T>;
    BK_HD C operator()(C x) const { return x - math::trunc<T>(x); }
};

template <class T>
struct FloorBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C, C) const { return C(0); }
};

template <class T>
struct CeilBackward : FloorBackward<T> {};
template <class T>
struct RoundBackward : FloorBackward<T> {};
template <class T>
struct TruncBackward : FloorBackward<T> {};

template <class T>
struct FracBackward {
    using C = compute_t<T>;
    BK_HD C operator()(C dy, C) const { return dy; }
};

}  // namespace bk::op
