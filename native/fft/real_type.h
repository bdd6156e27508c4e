// SPDX-License-Identifier: Apache-2.0
// The real type of a real or complex element.
#pragma once

#include "core/types/complex.h"

namespace bk {

template <class T>
struct FftReal {
    using type = T;
};
template <>
struct FftReal<c32> {
    using type = float;
};
template <>
struct FftReal<c64> {
    using type = double;
};

template <class T>
using fft_real_t = typename FftReal<T>::type;

}  // namespace bk
