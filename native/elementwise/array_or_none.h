// At rank 0 the reference ABI wants the shape and stride arrays of most ops, but not those of fill and affine.
#pragma once

#include <cstdint>

namespace bk {

template <class Int>
const Int* array_or_none(const Int* array, int32_t rank) {
    static const Int none = 0;
    return rank == 0 && array == nullptr ? &none : array;
}

}  // namespace bk
