// SPDX-License-Identifier: Apache-2.0
// The k-th value and the median along an axis.
#pragma once

#include <cstdint>

#include "core/topk/rank_rule.h"
#include "topk/select_operands.h"

namespace bk {

namespace op {

struct Median {
    static constexpr RankKind kind = RankKind::kMedian;
};
struct Nanmedian {
    static constexpr RankKind kind = RankKind::kNanMedian;
};
struct Quantile {
    static constexpr RankKind kind = RankKind::kQuantile;
};
struct Nanquantile {
    static constexpr RankKind kind = RankKind::kNanQuantile;
};

}  // namespace op

inline Status require_elements(NamedExtent length, int64_t rows) {
    BK_TRY(require_non_negative({length}));
    if (length.value == 0 && rows > 0)
        return fail(Status::kInvalidProblem, "%s is 0, must be >= 1: of nothing there is no order", length.name);
    return Status::kOk;
}

// Fields of the ops with one result a row.
struct OneResult {
    RowsAlongAxis axes;
    int64_t axis_len;
    const int64_t *stride_x, *stride_values, *stride_indices;

    template <class I>
    Status check() const {
        BK_TRY(axes.check({{"stride_x", stride_x}}, {{"stride_values", stride_values}, {"stride_indices", stride_indices}}));
        const NamedExtent length{"axis_len", axis_len};
        BK_TRY(require_elements(length, axes.rows_numel));
        return require_indices_fit<I>(length);
    }
    Status locate_x(Operand* operand, const char* name, Role role, int64_t size) const {
        return axes.locate(operand, name, role, size, {"stride_x", stride_x}, {"axis_len", axis_len});
    }
    template <class T, class I>
    Status run(const Launch& launch, const RankRule& rule, const T* x, T* values, I* indices) const {
        using Bits = bits_t<T>;
        RankRows<Bits> rows;
        rows.rows = axes.layout(stride_x, stride_values, stride_indices);
        rows.length = axis_len;
        rows.results = 1;
        rows.step[RowSelection::kInput] = stride_x[axes.axis];
        rows.order = key_order<T>(false);
        rows.rule = rule;
        const RankOutputs<Bits> outputs{reinterpret_cast<Bits*>(values), index_array(indices), {}, nullptr};
        return select_ranks(launch, rows, reinterpret_cast<const Bits*>(x), outputs);
    }
};

template <class T, class I>
struct KthValue {
    int64_t rows_numel;
    int32_t rank;
    int32_t order_axis;
    int64_t axis_len;
    int64_t k;
    const int32_t* rows_shape;
    const int64_t* stride_x;
    const int64_t* stride_values;
    const int64_t* stride_indices;

    Work work() const { return all_or_none(rows_numel); }
    Status check() const {
        BK_TRY(fields().template check<I>());
        if (k < 0 || (k >= axis_len && rows_numel > 0))
            return fail(Status::kInvalidProblem, "k is %lld, must be in [0, axis_len), and axis_len is %lld",
                        static_cast<long long>(k), static_cast<long long>(axis_len));
        return Status::kOk;
    }
    Status locate_x(Operand* operand, const char* name, Role role, int64_t size) const {
        return fields().locate_x(operand, name, role, size);
    }
    Status run(const T* x, T* values, I* indices, const Launch& launch) const {
        RankRule rule;
        rule.rank = k;
        return fields().run(launch, rule, x, values, indices);
    }

private:
    OneResult fields() const {
        return {{rows_numel, rank, order_axis, "order_axis", rows_shape}, axis_len, stride_x, stride_values, stride_indices};
    }
};

template <class Op, class T, class I>
struct Median {
    int64_t rows_numel;
    int32_t rank;
    int32_t order_axis;
    int64_t axis_len;
    const int32_t* rows_shape;
    const int64_t* stride_x;
    const int64_t* stride_values;
    const int64_t* stride_indices;

    Work work() const { return all_or_none(rows_numel); }
    Status check() const { return fields().template check<I>(); }
    Status locate_x(Operand* operand, const char* name, Role role, int64_t size) const {
        return fields().locate_x(operand, name, role, size);
    }
    Status run(const T* x, T* values, I* indices, const Launch& launch) const {
        RankRule rule;
        rule.kind = Op::kind;
        return fields().run(launch, rule, x, values, indices);
    }

private:
    OneResult fields() const {
        return {{rows_numel, rank, order_axis, "order_axis", rows_shape}, axis_len, stride_x, stride_values, stride_indices};
    }
};

}  // namespace bk
