// SPDX-License-Identifier: Apache-2.0
// Gradients of add_rms_norm and add_layer_norm, with saved or recomputed statistics.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "norm/add_norm_row.h"
#include "norm/channel/group_moments.h"
#include "norm/fused_rows.h"
#include "norm/norm_columns.h"
#include "norm/row_shape.h"

namespace bk {

// Both ops share this; mean and dbeta are null in add_rms_norm.
template <class T>
struct AddNormGradient {
    using C = compute_t<T>;
    using Function = AddNormBackward<T>;
    using Columns = NormColumnPair<T>;

    RowShape shape;
    const int64_t* stride_dy;
    const int64_t* stride_dsum;
    const int64_t* stride_sum;
    const int64_t* stride_dx;
    double gamma_offset;
    bool is_centered;

    // Without elements dgamma and dbeta are empty sums: zeros.
    Work work() const { return shape.numel != 0 ? Work::kAll : shape.row_extent != 0 ? Work::kZeros : Work::kNone; }

    BK_COLD Status check(const char* name_sum = "stride_sum") const {
        BK_TRY(check_shape("numel", shape.numel, shape.rank, "shape", shape.shape,
                           {{"stride_dy", stride_dy}, {"stride_dsum", stride_dsum}, {name_sum, stride_sum}},
                           {{"stride_dx", stride_dx}}));
        return shape.check();
    }

    size_t workspace_size() const {
        return std::max({fused_workspace(), map_rows_workspace<Function>(axes(true, true)),
                         reduce_workspace<Columns, T, T, C, C>(columns())});
    }

    Status run(const Launch& launch, const T* dy, const T* dsum, const T* sum, const T* gamma, const C* mean,
               const C* statistic, T* dx, T* dgamma, T* dbeta) const {
        if (work() == Work::kZeros) {
            BK_TRY(write_zeros(launch, shape.row_extent, dgamma));
            return write_zeros(launch, shape.row_extent, dbeta);
        }
        bool is_done = false;
        BK_TRY(run_fused(launch, operands(dy, dsum, sum, gamma, mean, statistic, dx, dgamma, dbeta), &is_done));
        if (is_done) return Status::kOk;
        const C* const center = mean == nullptr ? statistic : mean;
        // dgamma and dbeta come before dx, which may alias dy or sum.
        if (dgamma != nullptr || dbeta != nullptr) BK_TRY(sum_columns(launch, dy, sum, center, statistic, dgamma, dbeta));
        Function f{};
        f.is_centered = is_centered;
        f.has_gamma = gamma != nullptr;
        f.has_residual_grad = dsum != nullptr;
        f.gamma_offset = static_cast<C>(gamma_offset);
        // Absent operands are replaced by another one; the values are not used.
        return map_rows(launch, axes(dsum != nullptr, gamma != nullptr), f,
                        inputs(dy, dsum == nullptr ? dy : dsum, sum, gamma == nullptr ? sum : gamma), inputs(),
                        inputs(center, statistic), outputs(dx), outputs());
    }

    using Fused = FusedOperands<T, C, true>;
    Fused operands(const T* dy, const T* dsum, const T* sum, const T* gamma, const C* mean, const C* statistic, T* dx,
                   T* dgamma, T* dbeta) const {
        return {is_centered, static_cast<C>(gamma_offset),       dy,        sum, dsum,
                gamma,       mean == nullptr ? statistic : mean, statistic, dx,  dgamma,
                dbeta};
    }

    // Computes all gradients in one pass if the workspace, the rows and the operands allow it.
    BK_COLD Status run_fused(const Launch& launch, const Fused& of, bool* is_done) const {
        const bool has_workspace = workspace_holds(launch, workspace_size());
        FusedRows dense{};
        *is_done = has_workspace && (of.dgamma != nullptr || of.dbeta != nullptr) && fused_workspace() > 0 &&
                   is_dense(of.residual_grad != nullptr, &dense) && can_fuse_rows(dense, of);
        return *is_done ? fused_rows(launch, dense, of) : Status::kOk;
    }

private:
    RowAxes<5, 2> axes(bool has_dsum, bool has_gamma) const {
        return shape.axes(
            {stride_dy, has_dsum ? stride_dsum : stride_dy, stride_sum, has_gamma ? nullptr : stride_sum, stride_dx},
            {nullptr, nullptr});
    }

    BK_COLD bool is_dense(bool has_dsum, FusedRows* rows) const {
        const auto given = axes(has_dsum, true);
        const auto inner = merge_axes(given.inner);
        const auto outer = merge_axes(given.outer);
        if (inner.rank != 1 || outer.rank > 1) return false;
        for (int k = 0; k < 5; ++k)
            if (inner.stride[k][0] != 1) return false;
        *rows = {shape.rows(), shape.row_extent, 0, 0, 0, 0, 0};
        if (outer.rank == 0) return true;
        rows->pitch_dy = outer.stride[0][0];
        rows->pitch_residual_grad = outer.stride[1][0];
        rows->pitch_x = outer.stride[2][0];
        rows->pitch_dx = outer.stride[4][0];
        rows->pitch_saved = outer.stride[5][0];
        return true;
    }

    // The size depends on shape and strides alone, not on which operands are present when it runs.
    size_t fused_workspace() const {
        FusedRows rows{};
        // Strides of an absent dsum are arbitrary.
        return is_dense(true, &rows) || is_dense(false, &rows) ? fused_rows_workspace<T>(rows) : 0;
    }

    // A separate function: its buffers and those of the row map are not on the stack together.
    BK_COLD Status sum_columns(const Launch& launch, const T* dy, const T* sum, const C* center, const C* statistic, T* dgamma,
                               T* dbeta) const {
        return reduce(launch, columns(), Columns{{{}, is_centered, false}}, outputs(dgamma, dbeta),
                      inputs(dy, sum, center, statistic));
    }

    ReduceAxes<4, 2> columns() const {
        const auto rows = shape.axes({stride_dy, stride_sum, nullptr}, {nullptr});
        ReduceAxes<4, 2> axes;
        for (int d = 0; d < rows.inner.rank; ++d) {
            const auto& of = rows.inner.stride;
            axes.kept.append(rows.inner.extent[d], {of[0][d], of[1][d], 0, 0, of[2][d], of[2][d]});
        }
        for (int d = 0; d < rows.outer.rank; ++d) {
            const auto& of = rows.outer.stride;
            axes.reduced.append(rows.outer.extent[d], {of[0][d], of[1][d], of[3][d], of[3][d]});
        }
        return axes;
    }
};

// Number is the type of gamma_offset.
template <class T, class Number = float>
struct AddRmsNormBackward {
    Number gamma_offset;
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_dsum;
    const int64_t* stride_sum;
    const int64_t* stride_dx;
    int32_t norm_axes_mask;
    int32_t norm_total_extent;

    Work work() const { return norm().work(); }
    Status check() const { return norm().check(); }
    int64_t row_count() const { return norm().shape.count(); }
    size_t workspace_size() const { return norm().workspace_size(); }
    Status run(const T* dy, const T* dsum, const T* sum, const T* gamma, const compute_t<T>* rms, T* dx, T* dgamma,
               const Launch& launch) const {
        return norm().run(launch, dy, dsum, sum, gamma, nullptr, rms, dx, dgamma, nullptr);
    }

private:
    AddNormGradient<T> norm() const {
        return {{numel, rank, shape, norm_axes_mask, norm_total_extent},
                stride_dy,
                stride_dsum,
                stride_sum,
                stride_dx,
                gamma_offset,
                false};
    }
};

template <class T, class Number = float>
struct AddLayerNormBackward {
    Number gamma_offset;
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_dsum;
    const int64_t* stride_sum;
    const int64_t* stride_dx;
    int32_t norm_axes_mask;
    int32_t norm_total_extent;

    Work work() const { return norm().work(); }
    Status check() const { return norm().check(); }
    int64_t row_count() const { return norm().shape.count(); }
    size_t workspace_size() const { return norm().workspace_size(); }
    Status run(const T* dy, const T* dsum, const T* sum, const T* gamma, const compute_t<T>* mean_in,
               const compute_t<T>* inv_std_in, T* dx, T* dgamma, T* dbeta, const Launch& launch) const {
        return norm().run(launch, dy, dsum, sum, gamma, mean_in, inv_std_in, dx, dgamma, dbeta);
    }

private:
    AddNormGradient<T> norm() const {
        return {{numel, rank, shape, norm_axes_mask, norm_total_extent},
                stride_dy,
                stride_dsum,
                stride_sum,
                stride_dx,
                gamma_offset,
                true};
    }
};

// Gradients without saved statistics: the statistics are outputs, written first.
template <class T>
struct RecomputedNormGradient {
    using C = compute_t<T>;

    AddNormGradient<T> gradient;
    double eps;

    size_t workspace_size() const { return std::max(group_moments_workspace<T>(axes()), gradient.workspace_size()); }
    Status run(const Launch& launch, const T* dy, const T* dsum, const T* x, const T* gamma, C* mean, C* statistic, T* dx,
               T* dgamma, T* dbeta) const {
        if (gradient.work() == Work::kAll) {
            bool is_done = false;
            auto fused = gradient.operands(dy, dsum, x, gamma, nullptr, nullptr, dx, dgamma, dbeta);
            fused.new_mean = mean;
            fused.new_statistic = statistic;
            fused.eps = static_cast<C>(eps);
            BK_TRY(gradient.run_fused(launch, fused, &is_done));
            if (is_done) return Status::kOk;
            BK_TRY(reduce(launch, axes(), GroupMoments<T>::of(eps, gradient.is_centered),
                          outputs<C, C, T, T>(mean, statistic, nullptr, nullptr), inputs(x)));
        }
        return gradient.run(launch, dy, dsum, x, gamma, mean, statistic, dx, dgamma, dbeta);
    }

private:
    GroupMomentAxes axes() const {
        const auto rows = gradient.shape.axes({gradient.stride_sum}, {nullptr, nullptr, nullptr, nullptr});
        return {rows.outer, rows.inner};
    }
};

template <class T>
struct RmsNormRecomputeBackward {
    double eps;
    double gamma_offset;
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_dsum;
    const int64_t* stride_x;
    const int64_t* stride_dx;
    int32_t norm_axes_mask;
    int32_t norm_total_extent;

    Work work() const { return norm().gradient.work(); }
    Status check() const { return norm().gradient.check("stride_x"); }
    int64_t row_count() const { return norm().gradient.shape.count(); }
    size_t workspace_size() const { return norm().workspace_size(); }
    Status run(const T* dy, const T* dsum, const T* x, const T* gamma, compute_t<T>* rms_out, T* dx, T* dgamma,
               const Launch& launch) const {
        return norm().run(launch, dy, dsum, x, gamma, nullptr, rms_out, dx, dgamma, nullptr);
    }

private:
    RecomputedNormGradient<T> norm() const {
        const RowShape rows{numel, rank, shape, norm_axes_mask, norm_total_extent};
        return {{rows, stride_dy, stride_dsum, stride_x, stride_dx, gamma_offset, false}, eps};
    }
};

template <class T>
struct LayerNormRecomputeBackward {
    double eps;
    double gamma_offset;
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_dsum;
    const int64_t* stride_x;
    const int64_t* stride_dx;
    int32_t norm_axes_mask;
    int32_t norm_total_extent;

    Work work() const { return norm().gradient.work(); }
    Status check() const { return norm().gradient.check("stride_x"); }
    int64_t row_count() const { return norm().gradient.shape.count(); }
    size_t workspace_size() const { return norm().workspace_size(); }
    Status run(const T* dy, const T* dsum, const T* x, const T* gamma, compute_t<T>* mean_out, compute_t<T>* inv_std_out, T* dx,
               T* dgamma, T* dbeta, const Launch& launch) const {
        return norm().run(launch, dy, dsum, x, gamma, mean_out, inv_std_out, dx, dgamma, dbeta);
    }

private:
    RecomputedNormGradient<T> norm() const {
        const RowShape rows{numel, rank, shape, norm_axes_mask, norm_total_extent};
        return {{rows, stride_dy, stride_dsum, stride_x, stride_dx, gamma_offset, true}, eps};
    }
};

}  // namespace bk
