// SPDX-License-Identifier: Apache-2.0
// rms_norm and layer_norm: y = (x - mean) / stddev * gamma + beta over the axes of the mask; rms_norm has no mean.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "norm/norm_row.h"
#include "norm/row_shape.h"

namespace bk {

// Both ops share this. `saved` has the strides of the saved statistics; mean is null in rms_norm.
template <class T>
struct RowNorm {
    using C = compute_t<T>;
    using Function = NormForward<T>;

    RowShape shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    const int64_t* saved;
    double eps;
    bool is_centered;

    BK_COLD Status check(const char* saved_name) const {
        BK_TRY(check_shape("numel", shape.numel, shape.rank, "shape", shape.shape, {{"stride_x", stride_x}},
                           {{"stride_y", stride_y}}));
        BK_TRY(shape.check());
        if (saved == nullptr || shape.numel == 0) return Status::kOk;
        int32_t rows[kMaxRank];
        for (int32_t d = 0; d < shape.rank; ++d) rows[d] = shape.is_inside(d) ? 1 : shape.shape[d];
        return require_distinct({saved_name, saved}, shape.rank, rows);
    }

    size_t workspace_size() const { return map_rows_workspace<Function>(axes()); }

    Status run(const Launch& launch, const T* x, const T* gamma, const T* beta, T* y, T* mean, T* statistic) const {
        Function f{};
        f.eps = static_cast<C>(eps);
        f.is_centered = is_centered;
        f.has_gamma = gamma != nullptr;
        f.has_beta = beta != nullptr;
        return map_rows(launch, axes(), f, inputs(x), inputs(gamma, beta), inputs<T, T>(nullptr, nullptr), outputs(y),
                        outputs<T, T, C, C>(mean, statistic, nullptr, nullptr));
    }

private:
    RowAxes<2, 6> axes() const { return shape.axes({stride_x, stride_y}, {saved, saved, saved, saved, saved, saved}); }
};

// Number is the type of eps.
template <class T, class Number = float>
struct RmsNorm {
    Number eps;
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    const int64_t* stride_rms;
    int32_t norm_axes_mask;
    int32_t norm_total_extent;

    Work work() const { return all_or_none(numel); }
    Status check() const { return norm().check("stride_rms"); }
    Status locate_rms_out(Operand* operand, const char* name, Role role, int64_t size) const {
        return norm().shape.locate(operand, name, role, size, "stride_rms", stride_rms);
    }
    size_t workspace_size() const { return norm().workspace_size(); }
    Status run(const T* x, const T* gamma, T* y, T* rms_out, const Launch& launch) const {
        return norm().run(launch, x, gamma, nullptr, y, nullptr, rms_out);
    }

private:
    RowNorm<T> norm() const {
        return {{numel, rank, shape, norm_axes_mask, norm_total_extent}, stride_x, stride_y, stride_rms, eps, false};
    }
};

template <class T, class Number = float>
struct LayerNorm {
    Number eps;
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    const int64_t* stride_save;
    int32_t norm_axes_mask;
    int32_t norm_total_extent;

    Work work() const { return all_or_none(numel); }
    Status check() const { return norm().check("stride_save"); }
    Status locate_mean_out(Operand* operand, const char* name, Role role, int64_t size) const {
        return norm().shape.locate(operand, name, role, size, "stride_save", stride_save);
    }
    Status locate_inv_std_out(Operand* operand, const char* name, Role role, int64_t size) const {
        return norm().shape.locate(operand, name, role, size, "stride_save", stride_save);
    }
    size_t workspace_size() const { return norm().workspace_size(); }
    Status run(const T* x, const T* gamma, const T* beta, T* y, T* mean_out, T* inv_std_out, const Launch& launch) const {
        return norm().run(launch, x, gamma, beta, y, mean_out, inv_std_out);
    }

private:
    RowNorm<T> norm() const {
        return {{numel, rank, shape, norm_axes_mask, norm_total_extent}, stride_x, stride_y, stride_save, eps, true};
    }
};

}  // namespace bk
