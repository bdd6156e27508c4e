// SPDX-License-Identifier: Apache-2.0
// Gradients of rms_norm and layer_norm.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "norm/fused_rows.h"
#include "norm/norm_columns.h"
#include "norm/norm_row.h"
#include "norm/row_shape.h"

namespace bk {

// Both ops share this. `saved` has the strides of the saved statistics; mean and dbeta are null in rms_norm.
template <class T>
struct RowNormBackward {
    using C = compute_t<T>;
    using Function = NormBackward<T>;

    RowShape shape;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* saved;
    const int64_t* stride_dx;
    bool is_centered;

    // Without elements dgamma and dbeta are empty sums: zeros.
    Work work() const { return shape.numel != 0 ? Work::kAll : shape.row_extent != 0 ? Work::kZeros : Work::kNone; }

    BK_COLD Status check(const char* saved_name) const {
        BK_TRY(check_shape("numel", shape.numel, shape.rank, "shape", shape.shape,
                           {{"stride_dy", stride_dy}, {"stride_x", stride_x}, {saved_name, saved}},
                           {{"stride_dx", stride_dx}}));
        return shape.check();
    }

    size_t workspace_size() const {
        FusedRows rows{};
        const size_t fused = is_dense(&rows) ? fused_rows_workspace<T>(rows) : 0;
        return std::max({fused, map_rows_workspace<Function>(axes()), norm_columns_workspace<T>(columns())});
    }

    Status run(const Launch& launch, const T* dy, const T* x, const T* gamma, const T* mean, const T* statistic, T* dx,
               T* dgamma, T* dbeta) const {
        if (work() == Work::kZeros) {
            BK_TRY(write_zeros(launch, shape.row_extent, dgamma));
            return write_zeros(launch, shape.row_extent, dbeta);
        }
        const bool has_workspace = workspace_holds(launch, workspace_size());
        const T* const center = mean == nullptr ? statistic : mean;
        FusedRows dense{};
        const FusedOperands<T, T, false> fused{is_centered, 0, dy, x, nullptr, gamma, center, statistic, dx, dgamma, dbeta};
        if (has_workspace && (dgamma != nullptr || dbeta != nullptr) && is_dense(&dense) && can_fuse_rows(dense, fused))
            return fused_rows(launch, dense, fused);
        // dgamma and dbeta come before dx, which may alias dy or x.
        if (dgamma != nullptr || dbeta != nullptr) {
            const NormSums<T> sums{nullptr, nullptr, dgamma, dbeta};
            BK_TRY(norm_columns<T>(launch, columns(), is_centered, dy, x, center, statistic, nullptr, center, sums));
        }
        Function f{};
        f.is_centered = is_centered;
        f.has_gamma = gamma != nullptr;
        // An absent gamma is replaced by x; the value is not used.
        const auto rows = gamma == nullptr ? axes(stride_x) : axes();
        return map_rows(launch, rows, f, inputs(dy, x, gamma == nullptr ? x : gamma), inputs(),
                        inputs<T, T, T, C, C>(nullptr, center, statistic, nullptr, nullptr), outputs(dx),
                        outputs<T, T>(nullptr, nullptr));
    }

private:
    RowAxes<4, 7> axes(const int64_t* stride_gamma = nullptr) const {
        return shape.axes({stride_dy, stride_x, stride_gamma, stride_dx}, {saved, saved, saved, saved, saved, saved, saved});
    }

    bool is_dense(FusedRows* rows) const {
        const auto given = axes();
        const auto inner = merge_axes(given.inner);
        const auto outer = merge_axes(given.outer);
        if (inner.rank != 1 || outer.rank > 1) return false;
        for (int k = 0; k < 4; ++k)
            if (inner.stride[k][0] != 1) return false;
        *rows = {shape.rows(), shape.row_extent, 0, 0, 0, 0, 0};
        if (outer.rank == 0) return true;
        rows->pitch_dy = outer.stride[0][0];
        rows->pitch_x = outer.stride[1][0];
        rows->pitch_dx = outer.stride[3][0];
        rows->pitch_saved = outer.stride[4][0];
        return true;
    }

    NormColumnAxes columns() const {
        const auto rows = shape.axes({stride_dy, stride_x, nullptr}, {saved});
        NormColumnAxes axes;
        for (int d = 0; d < rows.inner.rank; ++d) {
            const auto& of = rows.inner.stride;
            axes.kept.append(rows.inner.extent[d], {of[0][d], of[1][d], 0, 0, 0, of[2][d], of[2][d], of[2][d], of[2][d]});
        }
        for (int d = 0; d < rows.outer.rank; ++d) {
            const auto& of = rows.outer.stride;
            axes.reduced.append(rows.outer.extent[d], {of[0][d], of[1][d], of[3][d], of[3][d], of[3][d]});
        }
        return axes;
    }
};

template <class T>
struct RmsNormBackward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* stride_rms;
    const int64_t* stride_dx;
    int32_t norm_axes_mask;
    int32_t norm_total_extent;

    Work work() const { return norm().work(); }
    Status check() const { return norm().check("stride_rms"); }
    Status locate_rms(Operand* operand, const char* name, Role role, int64_t size) const {
        return norm().shape.locate(operand, name, role, size, "stride_rms", stride_rms);
    }
    size_t workspace_size() const { return norm().workspace_size(); }
    Status run(const T* dy, const T* x, const T* gamma, const T* rms, T* dx, T* dgamma, const Launch& launch) const {
        return norm().run(launch, dy, x, gamma, nullptr, rms, dx, dgamma, nullptr);
    }

private:
    RowNormBackward<T> norm() const {
        return {{numel, rank, shape, norm_axes_mask, norm_total_extent}, stride_dy, stride_x, stride_rms, stride_dx, false};
    }
};

template <class T>
struct LayerNormBackward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* stride_save;
    const int64_t* stride_dx;
    int32_t norm_axes_mask;
    int32_t norm_total_extent;

    Work work() const { return norm().work(); }
    Status check() const { return norm().check("stride_save"); }
    Status locate_mean_in(Operand* operand, const char* name, Role role, int64_t size) const {
        return norm().shape.locate(operand, name, role, size, "stride_save", stride_save);
    }
    Status locate_inv_std_in(Operand* operand, const char* name, Role role, int64_t size) const {
        return norm().shape.locate(operand, name, role, size, "stride_save", stride_save);
    }
    size_t workspace_size() const { return norm().workspace_size(); }
    Status run(const T* dy, const T* x, const T* gamma, const T* mean_in, const T* inv_std_in, T* dx, T* dgamma, T* dbeta,
               const Launch& launch) const {
        return norm().run(launch, dy, x, gamma, mean_in, inv_std_in, dx, dgamma, dbeta);
    }

private:
    RowNormBackward<T> norm() const {
        return {{numel, rank, shape, norm_axes_mask, norm_total_extent}, stride_dy, stride_x, stride_save, stride_dx, true};
    }
};

}  // namespace bk
