// SPDX-License-Identifier: Apache-2.0
// The gradient of top-k and of order statistics: dy at the selected indices, else 0.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/gather/indexed_copy.h"
#include "core/pointwise/pointwise.h"
#include "topk/select_operands.h"

namespace bk {

template <class T, class I>
Status scatter_into_zeros(const Launch& launch, const IndexedAxes& axes, int axis, const Layout<1>& all, const T* dy,
                          const I* indices, T* dx) {
    using Bits = bits_t<T>;
    Bits* const to = reinterpret_cast<Bits*>(dx);
    BK_TRY(pointwise_strided(launch, all, ZeroFunctor<Bits>{}, outputs(to), inputs()));
    if (axes.layout.is_empty()) return Status::kOk;
    return scatter_along<int64_t>(launch, axes, axis, reinterpret_cast<const Bits*>(dy), indices, to);
}

template <class T, class I>
struct TopKAxisBackward {
    int64_t rows_numel;
    int32_t rank;
    int32_t topk_axis;
    int64_t k;
    int64_t axis_len;
    const int32_t* rows_shape;
    const int64_t* stride_dy;
    const int64_t* stride_indices;
    const int64_t* stride_dx;

    Work work() const {
        if (rows_numel == 0 || axis_len == 0) return Work::kNone;
        return k == 0 ? Work::kZeros : Work::kAll;
    }
    Status check() const {
        BK_TRY(axes().check({{"stride_dy", stride_dy}, {"stride_indices", stride_indices}, {"stride_dx", stride_dx}}));
        return require_non_negative({{"k", k}, {"axis_len", axis_len}});
    }
    Status locate_dy(Operand* operand, const char* name, Role role, int64_t size) const {
        return axes().locate(operand, name, role, size, {"stride_dy", stride_dy}, {"k", k});
    }
    Status locate_indices(Operand* operand, const char* name, Role role, int64_t size) const {
        return axes().locate(operand, name, role, size, {"stride_indices", stride_indices}, {"k", k});
    }
    Status locate_dx(Operand* operand, const char* name, Role role, int64_t size) const {
        return axes().locate(operand, name, role, size, {"stride_dx", stride_dx}, {"axis_len", axis_len});
    }
    // Duplicates exist only with several results along the axis.
    size_t workspace_size() const { return k < 2 ? 0 : scatter_workspace<int64_t>(rows_numel * axis_len); }
    Status run(const T* dy, const I* indices, T* dx, const Launch& launch) const {
        Layout<1> all;
        IndexedAxes at;
        for (int32_t d = 0; d < rank; ++d) {
            const bool is_axis = d == topk_axis;
            all.append(is_axis ? axis_len : rows_shape[d], {stride_dx[d]});
            at.layout.append(is_axis ? k : rows_shape[d], {stride_dy[d], stride_indices[d], is_axis ? 0 : stride_dx[d]});
        }
        at.extent = axis_len;
        at.step = stride_dx[topk_axis];
        return scatter_into_zeros(k < 2 ? Launch{nullptr, 0, launch.stream} : launch, at, topk_axis, all, dy, indices, dx);
    }

private:
    RowsAlongAxis axes() const { return {rows_numel, rank, topk_axis, "topk_axis", rows_shape}; }
};

template <class T>
struct TopKBackward {
    int32_t batch;
    int32_t k;
    int32_t row_len;

    Work work() const {
        if (batch == 0 || row_len == 0) return Work::kNone;
        return k == 0 ? Work::kZeros : Work::kAll;
    }
    Status check() const { return require_non_negative({{"batch", batch}, {"k", k}, {"row_len", row_len}}); }
    size_t workspace_size() const { return k < 2 ? 0 : scatter_workspace<int64_t>(int64_t{batch} * row_len); }
    Status run(const T* dy, const int32_t* indices, T* dx, const Launch& launch) const {
        const int32_t shape[] = {batch, k};
        const int64_t narrow[] = {k, 1}, wide[] = {row_len, 1};
        Layout<1> all;
        all.append(int64_t{batch} * row_len, {1});
        const Launch alone{nullptr, 0, launch.stream};
        return scatter_into_zeros(k < 2 ? alone : launch, indexed_axes(2, shape, 1, row_len, narrow, narrow, wide), 1, all, dy,
                                  indices, dx);
    }
};

}  // namespace bk
