// SPDX-License-Identifier: Apache-2.0
// A tuple for device code. std::tuple cannot be indexed there without a compiler extension.
#pragma once

#include <cstddef>
#include <utility>

#include "core/platform.h"

namespace bk {

template <size_t I, class T>
struct PackLeaf {
    T value;
};

template <class Indices, class... T>
struct PackBase;

template <size_t... I, class... T>
struct PackBase<std::index_sequence<I...>, T...> : PackLeaf<I, T>... {};

template <class... T>
struct Pack : PackBase<std::index_sequence_for<T...>, T...> {};

template <size_t I, class T>
BK_HD T& get(PackLeaf<I, T>& leaf) {
    return leaf.value;
}

template <size_t I, class T>
BK_HD const T& get(const PackLeaf<I, T>& leaf) {
    return leaf.value;
}

template <class... T>
BK_HD Pack<T...> pack(T... values) {
    return Pack<T...>{{{values}...}};
}

}  // namespace bk
