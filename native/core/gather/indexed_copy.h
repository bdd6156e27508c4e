// SPDX-License-Identifier: Apache-2.0
// Indexed copies along one axis. The plain operand and the index are walked by all coordinates c; the indexed operand
// is accessed at c with c[axis] replaced by the index.
//   gather   plain = indexed
//   scatter  indexed = plain
// An index outside [0, extent) copies nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/layout/layout.h"
#include "core/layout/long_walk.h"
#include "core/types/complex.h"
#include "core/types/vec.h"

namespace bk {

struct IndexedAxes {
    static constexpr int kPlain = 0, kIndex = 1, kIndexed = 2;
    Layout<3> layout;    // strides of plain, index and indexed; indexed is broadcast (stride 0) along the axis
    int64_t extent = 0;  // of the indexed operand's axis
    int64_t step = 0;    // its stride
};

// `index` null: a vector of indices along the axis.
BK_COLD inline IndexedAxes indexed_axes(int32_t rank, const int32_t* shape, int32_t axis, int64_t extent, const int64_t* plain,
                                        const int64_t* index, const int64_t* indexed) {
    IndexedAxes axes;
    for (int32_t d = 0; d < rank; ++d)
        axes.layout.append(shape[d], {plain[d], index != nullptr ? index[d] : d == axis, d == axis ? 0 : indexed[d]});
    axes.extent = extent;
    axes.step = indexed[axis];
    return axes;
}

inline IndexedAxes indexed_row(int64_t count, int64_t extent) {
    IndexedAxes axes;
    axes.layout.append(count, {1, 1, 0});
    axes.extent = extent;
    axes.step = 1;
    return axes;
}

// Whether `count` adjacent elements along the last axis share an index and form an aligned word in both operands.
inline bool has_wide_words(const IndexedAxes& axes, int64_t count, bool is_aligned) {
    const Layout<3>& dims = axes.layout;
    const int last = dims.rank - 1;
    if (!is_aligned || last < 0 || dims.stride[IndexedAxes::kIndex][last] != 0 || dims.stride[IndexedAxes::kPlain][last] != 1 ||
        dims.stride[IndexedAxes::kIndexed][last] != 1 || dims.extent[last] % count != 0 || axes.step % count != 0)
        return false;
    for (int d = 0; d < last; ++d)
        if (dims.stride[IndexedAxes::kPlain][d] % count != 0 || dims.stride[IndexedAxes::kIndexed][d] % count != 0)
            return false;
    return true;
}

// The layout in words of `count` elements.
inline IndexedAxes as_wide_words(const IndexedAxes& given, int64_t count) {
    IndexedAxes axes = given;
    const int last = axes.layout.rank - 1;
    axes.step /= count;
    axes.layout.extent[last] /= count;
    for (int d = 0; d < last; ++d) {
        axes.layout.stride[IndexedAxes::kPlain][d] /= count;
        axes.layout.stride[IndexedAxes::kIndexed][d] /= count;
    }
    return axes;
}

// copy(axes, plain, indexed) with the widest words that the operands allow. The axes are collapsed.
template <int Bytes = kVectorBytes, class T, class U, class Copy>
Status with_widest_words(const IndexedAxes& axes, T* plain, U* indexed, const Copy& copy) {
    if constexpr (Bytes == static_cast<int>(sizeof(T))) {
        return copy(axes, plain, indexed);
    } else {
        constexpr int64_t count = Bytes / static_cast<int>(sizeof(T));
        if (!has_wide_words(axes, count, is_aligned(plain, Bytes) && is_aligned(indexed, Bytes)))
            return with_widest_words<Bytes / 2>(axes, plain, indexed, copy);
        using Word = typename BitsOfSize<Bytes>::type;
        using Plain = std::conditional_t<std::is_const_v<T>, const Word, Word>;
        using Indexed = std::conditional_t<std::is_const_v<U>, const Word, Word>;
        return copy(as_wide_words(axes, count), reinterpret_cast<Plain*>(plain), reinterpret_cast<Indexed*>(indexed));
    }
}

// Bits are bits_t of the elements.
template <class Bits, class I>
Status gather_along(const Launch& launch, const IndexedAxes& axes, Bits* plain, const I* index, const Bits* indexed);

// With that many bytes the last update of a target along the axis wins; without, any of them does. `cells` counts the
// elements of the indexed operand.
template <class Owner>
size_t scatter_workspace(int64_t cells);

// Owner is a signed integer type that holds every index along `axis`.
template <class Owner, class Bits, class I>
Status scatter_along(const Launch& launch, const IndexedAxes& axes, int axis, const Bits* plain, const I* index, Bits* indexed);

}  // namespace bk

#if BK_CUDA
#include "core/gather/indexed_copy_cuda.cuh"
#else
#include "core/gather/indexed_copy_cpu.h"
#endif
