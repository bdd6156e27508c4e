// The skeleton of moves by an index along one axis: one operand, the plain one, is walked by all places c, and so is
// the index; the other, the placed one, is accessed where c[axis] is replaced by the index.
//   gather   plain = placed
//   scatter  placed = plain
// An index outside [0, extent) moves nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/pointwise/layout.h"
#include "core/pointwise/long_walk.h"
#include "core/types/complex.h"
#include "core/types/vec.h"

namespace bk {

struct IndexedAxes {
    static constexpr int kPlain = 0, kIndex = 1, kPlaced = 2;
    Layout<3> places;    // strides of plain, index and placed, the last of which stands still along the axis
    int64_t extent = 0;  // of the axis in placed,
    int64_t step = 0;    // and its stride
};

// `index` null: one index for each place along the axis.
BK_COLD inline IndexedAxes indexed_axes(int32_t rank, const int32_t* shape, int32_t axis, int64_t extent, const int64_t* plain,
                                        const int64_t* index, const int64_t* placed) {
    IndexedAxes axes;
    for (int32_t d = 0; d < rank; ++d)
        axes.places.append(shape[d], {plain[d], index != nullptr ? index[d] : d == axis, d == axis ? 0 : placed[d]});
    axes.extent = extent;
    axes.step = placed[axis];
    return axes;
}

// A row of elements that are all contiguous.
inline IndexedAxes indexed_row(int64_t count, int64_t extent) {
    IndexedAxes axes;
    axes.places.append(count, {1, 1, 0});
    axes.extent = extent;
    axes.step = 1;
    return axes;
}

// Whether neighbours along the last axis have one index and lie side by side, `count` of them aligned in both operands.
inline bool moves_together(const IndexedAxes& axes, int64_t count, bool is_aligned) {
    const Layout<3>& at = axes.places;
    const int last = at.rank - 1;
    if (!is_aligned || last < 0 || at.stride[IndexedAxes::kIndex][last] != 0 || at.stride[IndexedAxes::kPlain][last] != 1 ||
        at.stride[IndexedAxes::kPlaced][last] != 1 || at.extent[last] % count != 0 || axes.step % count != 0)
        return false;
    for (int d = 0; d < last; ++d)
        if (at.stride[IndexedAxes::kPlain][d] % count != 0 || at.stride[IndexedAxes::kPlaced][d] % count != 0) return false;
    return true;
}

// The layout of elements that are `count` times as wide.
inline IndexedAxes widened(const IndexedAxes& given, int64_t count) {
    IndexedAxes axes = given;
    const int last = axes.places.rank - 1;
    axes.step /= count;
    axes.places.extent[last] /= count;
    for (int d = 0; d < last; ++d) {
        axes.places.stride[IndexedAxes::kPlain][d] /= count;
        axes.places.stride[IndexedAxes::kPlaced][d] /= count;
    }
    return axes;
}

// move(axes, plain, placed) with elements as wide as the operands allow. Axes are collapsed.
template <int Bytes = kVectorBytes, class T, class U, class Move>
Status with_widest_words(const IndexedAxes& axes, T* plain, U* placed, const Move& move) {
    if constexpr (Bytes == static_cast<int>(sizeof(T))) {
        return move(axes, plain, placed);
    } else {
        constexpr int64_t count = Bytes / static_cast<int>(sizeof(T));
        if (!moves_together(axes, count, is_aligned(plain, Bytes) && is_aligned(placed, Bytes)))
            return with_widest_words<Bytes / 2>(axes, plain, placed, move);
        using Word = typename BitsOfSize<Bytes>::type;
        using Plain = std::conditional_t<std::is_const_v<T>, const Word, Word>;
        using Placed = std::conditional_t<std::is_const_v<U>, const Word, Word>;
        return move(widened(axes, count), reinterpret_cast<Plain*>(plain), reinterpret_cast<Placed*>(placed));
    }
}

// Bits are bits_t of the elements.
template <class Bits, class I>
Status gather_along(const Launch& launch, const IndexedAxes& axes, Bits* plain, const I* index, const Bits* placed);

// Bytes with which, of places that have one target, the last one along the axis is moved; without, any of them is.
// `cells` are those of the placed operand.
template <class Owner>
size_t scatter_workspace(int64_t cells);

// Owner is a signed integer that holds every place along `axis`, which is one of `places`.
template <class Owner, class Bits, class I>
Status scatter_along(const Launch& launch, const IndexedAxes& axes, int axis, const Bits* plain, const I* index, Bits* placed);

}  // namespace bk

#if BK_CUDA
#include "core/rows/indexed_moves_cuda.cuh"
#else
#include "core/rows/indexed_moves_cpu.h"
#endif
