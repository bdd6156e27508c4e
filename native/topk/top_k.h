// SPDX-License-Identifier: Apache-2.0
// Top-k of rows, along an axis, and of segments.
#pragma once

#include <cstdint>
#include <limits>

#include "core/abi/checks.h"
#include "core/topk/row_selection.h"
#include "topk/select_operands.h"

namespace bk {

// The bits of the element that is last in the order: -inf or the least number if descending, else inf or the largest.
template <class T>
bits_t<T> last_in_order(bool is_descending) {
    using Bits = bits_t<T>;
    constexpr Bits sign = KeyOrder<Bits>::kSign;
    switch (KeyTraits<T>::kKind) {
        case KeyKind::kFloat: return static_cast<Bits>(KeyTraits<T>::kLargest | (is_descending ? sign : Bits{0}));
        case KeyKind::kSigned: return is_descending ? sign : static_cast<Bits>(~sign);
        case KeyKind::kBoolean: return is_descending ? 0 : 1;
        default: return is_descending ? Bits{0} : KeyOrder<Bits>::kAll;
    }
}

template <class T>
TopKRows<bits_t<T>> top_k_rows(const Layout<3>& axes, int64_t length, int64_t k, bool largest, bool is_sorted) {
    TopKRows<bits_t<T>> rows;
    rows.rows = axes;
    rows.length = length;
    rows.results = k;
    rows.is_sorted = is_sorted;
    rows.order = key_order<T>(largest);
    rows.padding = last_in_order<T>(largest);
    return rows;
}

template <class T, class I>
Status run_top_k(const Launch& launch, const TopKRows<bits_t<T>>& rows, const T* x, T* values, I* indices) {
    using Bits = bits_t<T>;
    return select_top_k(launch, rows, reinterpret_cast<const Bits*>(x), reinterpret_cast<Bits*>(values), index_array(indices));
}

inline Status require_at_most(const char* name, int64_t k, NamedExtent length) {
    if (k > length.value)
        return fail(Status::kInvalidProblem, "%s is %lld, must be <= %s, %lld", name, static_cast<long long>(k), length.name,
                    static_cast<long long>(length.value));
    return Status::kOk;
}

template <class T>
struct TopK {
    int32_t batch;
    int32_t row_len;
    int32_t k;
    int32_t largest;

    Work work() const { return all_or_none(int64_t{batch} * k); }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"row_len", row_len}, {"k", k}}));
        return require_at_most("k", k, {"row_len", row_len});
    }
    size_t workspace_size() const { return top_k_workspace(rows()); }
    Status run(const T* x, T* y_vals, int32_t* y_idx, const Launch& launch) const {
        return run_top_k(launch, rows(), x, y_vals, y_idx);
    }

private:
    TopKRows<bits_t<T>> rows() const {
        Layout<3> axes;
        axes.append(batch, {row_len, k, k});
        return top_k_rows<T>(axes, row_len, k, largest != 0, true);
    }
};

template <class T, class I>
struct TopKAxis {
    int64_t rows_numel;
    int32_t rank;
    int32_t topk_axis;
    int64_t axis_len;
    int64_t k;
    const int32_t* rows_shape;
    const int64_t* stride_x;
    const int64_t* stride_values;
    const int64_t* stride_indices;
    int32_t largest;
    int32_t sorted;

    Work work() const { return all_or_none(rows_numel == 0 ? 0 : k); }
    Status check() const {
        BK_TRY(axes().check({{"stride_x", stride_x}, {"stride_values", stride_values}, {"stride_indices", stride_indices}}));
        const NamedExtent length{"axis_len", axis_len};
        BK_TRY(require_non_negative({length, {"k", k}}));
        BK_TRY(require_at_most("k", k, length));
        return require_indices_fit<I>(length);
    }
    Status locate_x(Operand* operand, const char* name, Role role, int64_t size) const {
        return axes().locate(operand, name, role, size, {"stride_x", stride_x}, {"axis_len", axis_len});
    }
    Status locate_values(Operand* operand, const char* name, Role role, int64_t size) const {
        return axes().locate(operand, name, role, size, {"stride_values", stride_values}, {"k", k});
    }
    Status locate_indices(Operand* operand, const char* name, Role role, int64_t size) const {
        return axes().locate(operand, name, role, size, {"stride_indices", stride_indices}, {"k", k});
    }
    size_t workspace_size() const { return top_k_workspace(rows()); }
    Status run(const T* x, T* values, I* indices, const Launch& launch) const {
        return run_top_k(launch, rows(), x, values, indices);
    }

private:
    RowsAlongAxis axes() const { return {rows_numel, rank, topk_axis, "topk_axis", rows_shape}; }
    TopKRows<bits_t<T>> rows() const {
        auto rows =
            top_k_rows<T>(axes().layout(stride_x, stride_values, stride_indices), axis_len, k, largest != 0, sorted != 0);
        rows.step[RowSelection::kInput] = stride_x[topk_axis];
        rows.step[RowSelection::kValues] = stride_values[topk_axis];
        rows.step[RowSelection::kIndices] = stride_indices[topk_axis];
        return rows;
    }
};

template <class T, class I>
struct TopKSegments {
    int64_t n;
    int64_t segments;
    int64_t k;
    int32_t largest;
    int32_t sorted;

    int64_t offset_count() const { return segments < INT64_MAX ? segments + 1 : segments; }
    Work work() const { return all_or_none(segments == 0 ? 0 : k); }
    Status check() const {
        const NamedExtent length{"n", n};
        BK_TRY(require_non_negative({length, {"segments", segments}, {"k", k}}));
        return require_indices_fit<I>(length);
    }
    size_t workspace_size() const { return top_k_workspace(rows(nullptr)); }
    Status run(const T* x, const I* offsets, T* values, I* indices, const Launch& launch) const {
        return run_top_k(launch, rows(offsets), x, values, indices);
    }

private:
    TopKRows<bits_t<T>> rows(const I* offsets) const {
        Layout<3> axes;
        axes.append(segments, {0, k, k});
        auto rows = top_k_rows<T>(axes, n, k, largest != 0, sorted != 0);
        rows.offsets = index_array(offsets);
        rows.has_offsets = true;
        return rows;
    }
};

}  // namespace bk
