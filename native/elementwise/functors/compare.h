// SPDX-License-Identifier: Apache-2.0
// IEEE 754 comparisons: 1 if true, else 0.
#pragma once

#include <cstdint>

#include "core/types/dtype.h"

namespace bk::op {

template <class T>
struct Eq {
    static constexpr bool ignores_sign = true;
    using C = compute_t<T>;
    BK_HD uint8_t operator()(C a, C b) const { return a == b; }
};

template <class T>
struct Ne {
    static constexpr bool ignores_sign = true;
    using C = compute_t<T>;
    BK_HD uint8_t operator()(C a, C b) const { return a != b; }
};

template <class T>
struct Lt {
    using C = compute_t<T>;
    BK_HD uint8_t operator()(C a, C b) const { return a < b; }
};

template <class T>
struct Le {
    using C = compute_t<T>;
    BK_HD uint8_t operator()(C a, C b) const { return a <= b; }
};

template <class T>
struct Gt {
    using Mirror = Lt<T>;
};

template <class T>
struct Ge {
    using Mirror = Le<T>;
};

}  // namespace bk::op
