// SPDX-License-Identifier: Apache-2.0
// Softmax and log-softmax of scale x + bias over the elements that a mask keeps, and their gradients.
#pragma once

#include <cstdint>

#include "softmax/softmax_axis.h"
#include "softmax/softmax_rows.h"

namespace bk {

namespace op {

// A fully masked row has the maximum -inf and gives 0, or -inf as logarithms, as in PyTorch's attention.
template <class T>
struct MaskedSoftmaxRows : SoftmaxRows<T> {
    using typename SoftmaxRows<T>::C;
    using typename SoftmaxRows<T>::Acc;
    using typename SoftmaxRows<T>::Cached;
    struct Row : SoftmaxRows<T>::Row {
        int64_t first_offset = 0;  // position along the query axis, for causal masks
    };

    static constexpr bool kVectorizesAcrossRows = false;  // the mask differs by row, and lanes know one row only
    C scale;
    bool has_bias, has_mask, is_causal;
    int64_t query_offset;

    BK_HD Row start(C) const { return {}; }
    template <class Byte>
    BK_HD Cached transform(const Row& row, int64_t j, C x, C bias, Byte mask) const {
        const bool masked = (has_mask && mask == 0) || (is_causal && j > row.first_offset + query_offset);
        return math::select(masked, -C(INFINITY), x * scale + math::select(has_bias, bias, C(0)));
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t n) const {
        if (SoftmaxRows<T>::finish(row, all, n)) return true;
        if (all.max == -C(INFINITY) && all.sum == C(0)) {
            row.max = 0;
            row.factor = 0;
        }
        return false;
    }
};

// Masked elements have y = 0, or -inf as logarithms, and no gradient.
template <class T>
struct MaskedSoftmaxBackwardRows : SoftmaxBackwardRows<T> {
    using typename SoftmaxBackwardRows<T>::C;
    using typename SoftmaxBackwardRows<T>::Row;
    using typename SoftmaxBackwardRows<T>::Cached;

    BK_HD Cached transform(const Row&, int64_t, C dy, C y) const {
        const bool masked = y == math::select(this->log, -C(INFINITY), C(0));
        return {math::select(masked, C(0), dy), y};
    }
    BK_HD Pack<C> map(const Row& row, Nothing none, int64_t j, const Cached& held) const {
        const C dx = get<0>(SoftmaxBackwardRows<T>::map(row, none, j, held));
        return pack(math::select(held.y == math::select(this->log, -C(INFINITY), C(0)), C(0), dx));
    }
};

}  // namespace op

template <class T, bool kLog>
struct MaskedSoftmax {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_bias;
    const int64_t* stride_mask;
    const int64_t* stride_y;
    int32_t softmax_axis;
    compute_t<T> scale;
    int32_t is_causal;
    int64_t query_offset;

    using Rows = op::MaskedSoftmaxRows<T>;
    Work work() const { return all_or_none(numel); }
    BK_COLD Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape,
                           {{"stride_x", stride_x}, {"stride_bias", stride_bias}, {"stride_mask", stride_mask}},
                           {{"stride_y", stride_y}}));
        BK_TRY(require_axis("softmax_axis", softmax_axis, rank));
        if (is_causal != 0 && is_causal != 1)
            return fail(Status::kInvalidProblem, "is_causal is %d, must be 0 or 1", is_causal);
        if (is_causal == 1 && (rank < 2 || softmax_axis != rank - 1))
            return fail(Status::kInvalidProblem, "is_causal is 1, but softmax_axis is %d, not the last of two axes or more",
                        softmax_axis);
        constexpr int64_t kFar = int64_t{1} << 32;  // larger offsets mask as this one does
        if (query_offset < -kFar || query_offset > kFar)
            return fail(Status::kInvalidProblem, "query_offset is %lld, must be within 2^32",
                        static_cast<long long>(query_offset));
        return Status::kOk;
    }
    size_t workspace_size() const { return map_rows_workspace<Rows>(rows(true, true)); }
    Status run(const T* x, const T* bias, const uint8_t* mask, T* y, const Launch& launch) const {
        Rows f{};
        f.log = kLog;
        f.scale = scale;
        f.has_bias = bias != nullptr;
        f.has_mask = mask != nullptr;
        f.is_causal = is_causal == 1;
        f.query_offset = query_offset;
        // x stands in for an absent bias or mask: it is read at valid offsets, and not used.
        return map_rows(launch, rows(f.has_bias, f.has_mask), f,
                        inputs(x, f.has_bias ? bias : x, f.has_mask ? mask : reinterpret_cast<const uint8_t*>(x)), inputs(),
                        inputs<T>(nullptr), outputs(y), outputs());
    }

private:
    // The input of one value per row is null; its offset is the position along the query axis.
    RowAxes<4, 1> rows(bool has_bias, bool has_mask) const {
        const auto full =
            rows_along<4>(rank, shape, softmax_axis,
                          {stride_x, has_bias ? stride_bias : stride_x, has_mask ? stride_mask : stride_x, stride_y});
        RowAxes<4, 1> axes;
        axes.inner = full.inner;
        for (int d = 0; d < full.outer.rank; ++d) {
            const bool of_queries = is_causal == 1 && d == full.outer.rank - 1;
            const auto& step = full.outer.stride;
            axes.outer.append(full.outer.extent[d], {step[0][d], step[1][d], step[2][d], step[3][d], of_queries ? 1 : 0});
        }
        return axes;
    }
};

template <class T, bool kLog>
struct MaskedSoftmaxBackward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_y;
    const int64_t* stride_dx;
    int32_t softmax_axis;
    compute_t<T> scale;

    using Rows = op::MaskedSoftmaxBackwardRows<T>;
    Work work() const { return all_or_none(numel); }
    BK_COLD Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_dy", stride_dy}, {"stride_y", stride_y}},
                           {{"stride_dx", stride_dx}}));
        return require_axis("softmax_axis", softmax_axis, rank);
    }
    size_t workspace_size() const { return map_rows_workspace<Rows>(rows()); }
    Status run(const T* dy, const T* y, T* dx, const Launch& launch) const {
        const Rows f{{{}, kLog, scale}};
        return map_rows(launch, rows(), f, inputs(dy, y), inputs(), inputs(), outputs(dx), outputs());
    }

private:
    RowAxes<3> rows() const { return rows_along<3>(rank, shape, softmax_axis, {stride_dy, stride_y, stride_dx}); }
};

}  // namespace bk
