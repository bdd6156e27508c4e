// SPDX-License-Identifier: Apache-2.0
// Shared by the scatter-add ops: checks, the location of the output, and the scatter itself.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/operand.h"
#include "core/abi/strided_args.h"
#include "core/scatter/scatter_reduce.h"
#include "indexing/indexed_operand.h"

namespace bk {

// Integer sums wrap, so that unsigned arithmetic serves signed types, too.
template <class T, bool = std::is_integral_v<T>>
struct UnsignedIfInteger {
    using type = T;
};
template <class T>
struct UnsignedIfInteger<T, true> {
    using type = std::make_unsigned_t<T>;
};
template <class T>
using scatter_element_t = typename UnsignedIfInteger<T>::type;

// Updates of `shape` that go to an output of `extent` along `axis`; its other extents are the same or larger.
struct ScatterAddAxis {
    const char* count_name;
    int64_t count;
    int32_t rank;
    const char* axis_name;
    int32_t axis;
    const char* extent_name;
    int32_t extent;
    const char* shape_name;
    const int32_t* shape;

    Work work() const { return all_or_none(extent == 0 ? 0 : count); }

    BK_COLD Status check(std::initializer_list<NamedStrides> strides) const {
        BK_TRY(check_shape(count_name, count, rank, shape_name, shape, strides, {}));
        BK_TRY(require_axis(axis_name, axis, rank));
        return require_non_negative({{extent_name, extent}});
    }

    // Locates an operand that has `extent` elements along the axis.
    BK_COLD Status locate(Operand* operand, const char* name, Role role, int64_t size, const char* strides_name,
                          const int64_t* strides) const {
        return locate_indexed(operand, name, role, size, strides_name, rank, shape, axis, extent, strides);
    }

    // stride_index null: a vector of indices along the axis.
    ScatterLayout layout(const int64_t* stride_updates, const int64_t* stride_index, const int64_t* stride_out) const {
        ScatterLayout s{{},
                        shape[axis],
                        {stride_updates[axis], stride_index == nullptr ? 1 : stride_index[axis], stride_out[axis]},
                        extent,
                        -1};
        for (int32_t d = 0; d < rank; ++d)
            if (d != axis)
                s.cells.append(shape[d], {stride_updates[d], stride_index == nullptr ? 0 : stride_index[d], stride_out[d]});
        return s;
    }
};

template <class T, class I>
size_t scatter_add_workspace(const ScatterLayout& layout) {
    using E = scatter_element_t<T>;
    return scatter_reduce_workspace<ScatterSum<compute_t<E>>, E>(layout);
}

template <class T, class I>
Status scatter_add(const Launch& launch, const ScatterLayout& layout, const T* updates, const I* index, T* out) {
    using E = scatter_element_t<T>;
    return scatter_reduce<ScatterSum<compute_t<E>>>(launch, layout, reinterpret_cast<const E*>(updates), index,
                                                    reinterpret_cast<E*>(out));
}

}  // namespace bk
