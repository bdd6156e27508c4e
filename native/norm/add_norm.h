// SPDX-License-Identifier: Apache-2.0
// add_rms_norm and add_layer_norm: s = x + residual and y = norm(s); s is an output, too.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "norm/norm_row.h"
#include "norm/row_shape.h"

namespace bk {

// The norm reads the sum as rounded to T: so does the gradient, and so would a separate add before a norm.
template <class T>
struct AddNormForward : NormForward<T> {
    using typename NormForward<T>::C;
    using typename NormForward<T>::Row;
    using typename NormForward<T>::Cached;
    static constexpr int kCachedBytes = sizeof(T) < 4 ? 128 : 64;  // two inputs are in flight before they become one sum

    bool has_residual;
    C gamma_offset;

    BK_HD Row start() const { return {}; }
    BK_HD Cached transform(const Row&, int64_t, C x, C residual) const {
        return {math::select(has_residual, widen(narrow<T>(x + residual)), x)};
    }
    BK_HD Pack<C, C> map(const Row& row, const Nothing&, int64_t, const Cached& held, C gamma, C beta) const {
        const C scale = math::select(this->has_gamma, gamma + gamma_offset, C(1));
        return pack(this->scaled(row, held, scale, beta), held.x);
    }
};

// Both ops share this; mean is null in add_rms_norm.
template <class T>
struct AddNorm {
    using C = compute_t<T>;
    using Function = AddNormForward<T>;

    RowShape shape;
    const int64_t* stride_x;
    const int64_t* stride_residual;
    const int64_t* stride_y;
    const int64_t* stride_sum;
    double eps, gamma_offset;
    bool is_centered;

    BK_COLD Status check() const {
        BK_TRY(check_shape("numel", shape.numel, shape.rank, "shape", shape.shape,
                           {{"stride_x", stride_x}, {"stride_residual", stride_residual}},
                           {{"stride_y", stride_y}, {"stride_sum", stride_sum}}));
        return shape.check();
    }

    size_t workspace_size() const { return map_rows_workspace<Function>(axes(true, true)); }

    Status run(const Launch& launch, const T* x, const T* residual, const T* gamma, const T* beta, T* y, T* sum, C* mean,
               C* statistic) const {
        Function f{};
        f.eps = static_cast<C>(eps);
        f.is_centered = is_centered;
        f.has_gamma = gamma != nullptr;
        f.has_residual = residual != nullptr;
        f.gamma_offset = static_cast<C>(gamma_offset);
        // An absent residual is replaced by x; the value is not used.
        return map_rows(launch, axes(residual != nullptr, sum != nullptr), f, inputs(x, residual == nullptr ? x : residual),
                        inputs(gamma, beta), inputs(), outputs(y, sum), outputs(mean, statistic));
    }

private:
    RowAxes<4, 2> axes(bool has_residual, bool has_sum) const {
        return shape.axes({stride_x, has_residual ? stride_residual : stride_x, stride_y, has_sum ? stride_sum : stride_y},
                          {nullptr, nullptr});
    }
};

// Number is the type of eps and gamma_offset.
template <class T, class Number = float>
struct AddRmsNorm {
    Number eps;
    Number gamma_offset;
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_residual;
    const int64_t* stride_y;
    const int64_t* stride_sum;
    int32_t norm_axes_mask;
    int32_t norm_total_extent;

    Work work() const { return all_or_none(numel); }
    Status check() const { return norm().check(); }
    int64_t row_count() const { return norm().shape.count(); }
    size_t workspace_size() const { return norm().workspace_size(); }
    Status run(const T* x, const T* residual, const T* gamma, T* y, T* sum, compute_t<T>* rms_out, const Launch& launch) const {
        return norm().run(launch, x, residual, gamma, nullptr, y, sum, nullptr, rms_out);
    }

private:
    AddNorm<T> norm() const {
        return {{numel, rank, shape, norm_axes_mask, norm_total_extent},
                stride_x,
                stride_residual,
                stride_y,
                stride_sum,
                eps,
                gamma_offset,
                false};
    }
};

template <class T, class Number = float>
struct AddLayerNorm {
    Number eps;
    Number gamma_offset;
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_residual;
    const int64_t* stride_y;
    const int64_t* stride_sum;
    int32_t norm_axes_mask;
    int32_t norm_total_extent;

    Work work() const { return all_or_none(numel); }
    Status check() const { return norm().check(); }
    int64_t row_count() const { return norm().shape.count(); }
    size_t workspace_size() const { return norm().workspace_size(); }
    Status run(const T* x, const T* residual, const T* gamma, const T* beta, T* y, T* sum, compute_t<T>* mean_out,
               compute_t<T>* inv_std_out, const Launch& launch) const {
        return norm().run(launch, x, residual, gamma, beta, y, sum, mean_out, inv_std_out);
    }

private:
    AddNorm<T> norm() const {
        return {{numel, rank, shape, norm_axes_mask, norm_total_extent},
                stride_x,
                stride_residual,
                stride_y,
                stride_sum,
                eps,
                gamma_offset,
                true};
    }
};

}  // namespace bk
