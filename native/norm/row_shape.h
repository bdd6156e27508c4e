// SPDX-License-Identifier: Apache-2.0
// Shape of rms and layer norm: the axes outside the mask index the rows, those in it the elements of a row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/operand.h"
#include "core/abi/strided_args.h"
#include "core/row/row_map.h"

namespace bk {

struct RowShape {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    int32_t mask;
    int32_t row_extent;

    bool is_inside(int32_t axis) const { return mask >> axis & 1; }
    int64_t rows() const { return numel / row_extent; }
    int64_t count() const { return row_extent == 0 ? 0 : rows(); }  // also of a problem without elements

    BK_COLD Status check() const {
        if (mask == 0 || mask >> rank != 0)
            return fail(Status::kInvalidProblem, "norm_axes_mask is %d, must have a bit of the %d axes and no other", mask,
                        rank);
        BK_TRY(require_non_negative({{"norm_total_extent", row_extent}}));
        int64_t product = 1;
        bool is_empty = false, fits = true;
        for (int32_t d = 0; d < rank; ++d) {
            if (!is_inside(d)) continue;
            is_empty = is_empty || shape[d] == 0;
            fits = fits && !__builtin_mul_overflow(product, int64_t{shape[d]}, &product);
        }
        if (is_empty) product = 0;
        if ((!is_empty && !fits) || product != row_extent)
            return fail(Status::kInvalidProblem, "norm_total_extent is %d, but the axes of norm_axes_mask have %lld elements",
                        row_extent, static_cast<long long>(product));
        return Status::kOk;
    }

    // Locates an operand with one element a row; without strides it is row-major.
    BK_COLD Status locate(Operand* operand, const char* name, Role role, int64_t size, const char* strides_name,
                          const int64_t* strides) const {
        int32_t kept_shape[kMaxRank] = {};
        int64_t kept_strides[kMaxRank] = {}, step = 1;
        for (int32_t d = rank - 1; d >= 0; --d) {
            kept_shape[d] = is_inside(d) ? std::min(shape[d], 1) : shape[d];
            kept_strides[d] = is_inside(d) ? 1 : strides == nullptr ? step : strides[d];
            if (__builtin_mul_overflow(step, int64_t{std::max(kept_shape[d], 1)}, &step)) step = 0;  // without elements
        }
        BK_TRY(locate_strided(operand, name, role, size, strides_name, rank, kept_shape, kept_strides, nullptr));
        operand->rank = 0;  // no other operand has its layout
        operand->shape = nullptr;
        operand->strides = nullptr;
        return Status::kOk;
    }

    // `full`: strides of operands of the whole shape; null: one element a position of the row. `single`: strides of
    // operands of one element a row; null: row-major.
    template <int Full, int Single>
    BK_COLD RowAxes<Full, Single> axes(const int64_t* const (&full)[Full], const int64_t* const (&single)[Single]) const {
        RowAxes<Full, Single> axes;
        int64_t inside_step[kMaxRank], outside_step[kMaxRank], inside = 1, outside = 1;
        for (int32_t d = rank - 1; d >= 0; --d) {
            inside_step[d] = inside;
            outside_step[d] = outside;
            (is_inside(d) ? inside : outside) *= shape[d];
        }
        for (int32_t d = 0; d < rank; ++d) {
            int64_t of_row[Full], of_outer[Full + Single];
            for (int k = 0; k < Full; ++k) {
                of_row[k] = full[k] == nullptr ? inside_step[d] : full[k][d];
                of_outer[k] = full[k] == nullptr ? 0 : full[k][d];
            }
            for (int k = 0; k < Single; ++k) of_outer[Full + k] = single[k] == nullptr ? outside_step[d] : single[k][d];
            if (is_inside(d))
                axes.inner.append(shape[d], of_row);
            else
                axes.outer.append(shape[d], of_outer);
        }
        return axes;
    }
};

}  // namespace bk
