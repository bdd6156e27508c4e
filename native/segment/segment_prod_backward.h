// SPDX-License-Identifier: Apache-2.0
// Gradient of segment product: d_input[i] = d_output[id] * y / x, the saved product y over x = input[i]. If y is 0,
// only the sole zero of a segment has a gradient, for which the other elements are multiplied.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "core/segmented/reduce_ops.h"
#include "segment/segment_shape.h"

namespace bk {

template <class T>
struct ProdOperands {
    const T* d_output;
    const T* input;
    const T* output;
    IdArray ids;
    T* d_input;
};

template <bool kSorted, class T>
size_t segment_prod_backward_workspace(const SegmentShape& shape);

template <bool kSorted, class T>
Status segment_prod_backward(const Launch& launch, const SegmentShape& shape, const ProdOperands<T>& operands);

// A permutation of rows: position k has rows[k], or row k if `rows` is null. If is_sorted, segments are contiguous and
// in order; with `rows`, rows without a segment come last.
struct SegmentOrder {
    IdArray ids;  // per row
    const uint32_t* rows;
    int64_t n;
    int32_t num_segments;
    bool is_sorted;

    BK_HD int64_t row(int64_t k) const { return rows == nullptr ? k : static_cast<int64_t>(rows[k]); }
    BK_HD int64_t id(int64_t k) const {
        const int64_t given = ids[row(k)];
        return rows != nullptr && (given < 0 || given >= num_segments) ? INT64_MAX : given;
    }
    BK_HD int64_t start_of(int64_t segment) const {
        int64_t low = 0, high = is_sorted ? n : 0;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (id(middle) < segment)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }
};

// The product of a column over the segment of position k, without k. The walk starts after k, wraps around and stops at
// the next zero, so that all zeros of a column together cost one walk.
template <class T>
BK_HD acc_t<T> leave_one_out_product(const SegmentOrder& order, const T* column, int64_t stride, int64_t k) {
    using C = acc_t<T>;
    const int64_t id = order.id(k);
    C product = 1;
    const auto walk = [&](int64_t from, int64_t to) {
        for (int64_t j = from; j < to; ++j) {
            if (order.id(j) != id) {
                if (order.is_sorted) return true;
                continue;
            }
            const C x = widen(column[order.row(j) * stride]);
            product *= x;
            if (x == C(0)) return false;
        }
        return true;
    };
    if (!walk(k + 1, order.n) || !walk(order.start_of(id), k)) return 0;
    return product;
}

template <bool kSorted, class T, class I>
struct SegmentProdBackward {
    int32_t n;
    int32_t d;
    int32_t num_segments;

    Work work() const { return shape().backward_work(); }
    Status check() const { return shape().check(); }
    size_t workspace_size() const { return segment_prod_backward_workspace<kSorted, T>(shape()); }
    Status run(const T* d_output, const T* input, const T* output, const I* segment_ids, T* d_input,
               const Launch& launch) const {
        if (work() == Work::kZeros) return write_zeros(launch, int64_t{n} * d, d_input);
        return segment_prod_backward<kSorted>(launch, shape(),
                                              ProdOperands<T>{d_output, input, output, IdArray(segment_ids), d_input});
    }

private:
    SegmentShape shape() const { return {n, d, num_segments}; }
};

}  // namespace bk
