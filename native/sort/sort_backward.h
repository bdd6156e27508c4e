// SPDX-License-Identifier: Apache-2.0
// Gradient of the sorted values of dense rows: a scatter by the indices of the sort.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/gather/indexed_copy.h"

namespace bk {

template <class T>
struct SortBackwardRows {
    int32_t batch;
    int32_t row_len;

    Work work() const { return all_or_none(elements()); }
    Status check() const { return require_non_negative({{"batch", batch}, {"row_len", row_len}}); }
    size_t workspace_size() const { return scatter_workspace<int32_t>(elements()); }
    Status run(const T* dy, const int32_t* indices, T* dx, const Launch& launch) const {
        BK_TRY(fill_bytes(launch, dx, 0, static_cast<size_t>(elements()) * sizeof(T)));
        const int32_t shape[] = {batch, row_len};
        const int64_t strides[] = {row_len, 1};
        const IndexedAxes axes = indexed_axes(2, shape, 1, row_len, strides, strides, strides);
        return scatter_along<int32_t>(launch, axes, 1, reinterpret_cast<const bits_t<T>*>(dy), indices,
                                      reinterpret_cast<bits_t<T>*>(dx));
    }

private:
    int64_t elements() const { return int64_t{batch} * row_len; }
};

}  // namespace bk
