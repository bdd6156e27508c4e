// SPDX-License-Identifier: Apache-2.0
// Ops of elementwise losses: forward with its reduction, and backward.
//
// A loss L has two pointwise functors: L::forward<T>(parameter), of the inputs, and L::gradient<T>(grad_scale,
// parameter), of the inputs that the gradient needs, and dy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/layout/layout.h"
#include "core/pointwise/pointwise.h"
#include "core/reduce/transform_sum.h"
#include "loss/distance.h"
#include "loss/likelihood.h"
#include "loss/margin.h"
#include "loss/reduction.h"

namespace bk {

template <class Fn, class T, class... In>
size_t loss_workspace(int64_t numel, int32_t reduction_mode) {
    if (reduction_mode == kReductionNone) return 0;
    return transform_sum_workspace<T, Fn, In...>(numel);
}

template <class T, class Fn, class... In>
Status reduce_loss(const Launch& launch, int64_t numel, int32_t reduction_mode, const Fn& fn, const Inputs<In...>& in, T* out,
                   int64_t mean_over) {
    if (reduction_mode == kReductionNone) return pointwise(launch, numel, fn, outputs(out), in);
    if (numel == 0) return write_empty_loss(launch, reduction_mode, out);
    return transform_sum(launch, numel, fn, reduction_divisor(mean_over, reduction_mode), in, out);
}
template <class T, class Fn, class... In>
Status reduce_loss(const Launch& launch, int64_t numel, int32_t reduction_mode, const Fn& fn, const Inputs<In...>& in, T* out) {
    return reduce_loss(launch, numel, reduction_mode, fn, in, out, numel);
}

// Operands of `numel` elements each; the last one is broadcast (stride 0) if it is a scalar.
template <int Operands>
BK_COLD Layout<Operands> elementwise_layout(int64_t numel, bool is_scalar) {
    Layout<Operands> layout;
    int64_t stride[Operands];
    for (int k = 0; k < Operands; ++k) stride[k] = is_scalar && k + 1 == Operands ? 0 : 1;
    layout.append(numel, stride);
    return layout;
}

// The last input is dy, a scalar if the loss is reduced.
template <class Fn, class... Out, class... In>
Status loss_gradients(const Launch& launch, int64_t numel, int32_t reduction_mode, const Fn& fn, const Outputs<Out...>& out,
                      const Inputs<In...>& in) {
    constexpr int kOperands = sizeof...(Out) + sizeof...(In);
    return pointwise_strided(launch, elementwise_layout<kOperands>(numel, reduction_mode != kReductionNone), fn, out, in);
}

template <class L, class T, class... In>
struct Loss {
    int64_t numel;
    int32_t reduction_mode;

    Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }
    Work work() const { return work_of_loss(numel, reduction_mode); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    size_t workspace_size() const {
        return loss_workspace<decltype(L::template forward<T>()), T, In...>(numel, reduction_mode);
    }
    Status run(const In*... in, T* out, const Launch& launch) const {
        return reduce_loss(launch, numel, reduction_mode, L::template forward<T>(), inputs(in...), out);
    }
};

template <class L, class T, class... In>
struct LossBackward {
    int64_t numel;
    int32_t reduction_mode;
    float scale_scalar;

    Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const In*... in, const T* dy, T* gradient, const Launch& launch) const {
        const auto grad_scale = backward_scale<compute_t<T>>(numel, reduction_mode, scale_scalar);
        return loss_gradients(launch, numel, reduction_mode, L::template gradient<T>(grad_scale), outputs(gradient),
                              inputs(in..., dy));
    }
};

// Losses with one parameter, a struct for each name that the tables give it.
#define BK_LOSS_OF(Name, Type, parameter)                                                                             \
    template <class L, class T, class... In>                                                                          \
    struct Name##Loss {                                                                                               \
        int64_t numel;                                                                                                \
        int32_t reduction_mode;                                                                                       \
        Type parameter;                                                                                               \
                                                                                                                      \
        Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }                               \
        Work work() const { return work_of_loss(numel, reduction_mode); }                                             \
        int64_t results() const { return loss_numel(numel, reduction_mode); }                                         \
        size_t workspace_size() const {                                                                               \
            return loss_workspace<decltype(L::template forward<T>(Type())), T, In...>(numel, reduction_mode);         \
        }                                                                                                             \
        Status run(const In*... in, T* out, const Launch& launch) const {                                             \
            return reduce_loss(launch, numel, reduction_mode, L::template forward<T>(parameter), inputs(in...), out); \
        }                                                                                                             \
    };                                                                                                                \
                                                                                                                      \
    template <class L, class T, class... In>                                                                          \
    struct Name##LossBackward {                                                                                       \
        int64_t numel;                                                                                                \
        int32_t reduction_mode;                                                                                       \
        float scale_scalar;                                                                                           \
        Type parameter;                                                                                               \
                                                                                                                      \
        Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }                               \
        Work work() const { return all_or_none(numel); }                                                              \
        int64_t results() const { return loss_numel(numel, reduction_mode); }                                         \
        Status run(const In*... in, const T* dy, T* gradient, const Launch& launch) const {                           \
            const auto grad_scale = backward_scale<compute_t<T>>(numel, reduction_mode, scale_scalar);                \
            return loss_gradients(launch, numel, reduction_mode, L::template gradient<T>(grad_scale, parameter),      \
                                  outputs(gradient), inputs(in..., dy));                                              \
        }                                                                                                             \
    };

BK_LOSS_OF(Param, float, param)
BK_LOSS_OF(Flag, int32_t, log_input_flag)
BK_LOSS_OF(Eps, float, eps)
BK_LOSS_OF(Margin, float, margin)
BK_LOSS_OF(WideParam, double, param)
BK_LOSS_OF(WideEps, double, eps)
BK_LOSS_OF(WideMargin, double, margin)
#undef BK_LOSS_OF

// KlDiv with targets that may be log-probabilities; the mean divides by `batch` (PyTorch's batchmean).
template <class T>
struct KlDivBatch {
    int64_t numel;
    int32_t reduction_mode;
    int64_t batch;
    int32_t log_target_flag;

    Status check() const { return check_batch(numel, reduction_mode, batch); }
    Work work() const { return work_of_loss(numel, reduction_mode); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    size_t workspace_size() const { return loss_workspace<KlDiv::Forward<T>, T, T, T>(numel, reduction_mode); }
    Status run(const T* input, const T* target, T* out, const Launch& launch) const {
        return reduce_loss(launch, numel, reduction_mode, KlDiv::forward<T>(log_target_flag), inputs(input, target), out,
                           batch);
    }

    static Status check_batch(int64_t numel, int32_t reduction_mode, int64_t batch) {
        BK_TRY(check_loss({{"numel", numel}, {"batch", batch}}, reduction_mode));
        if (batch == 0 && numel > 0 && reduction_mode == kReductionMean)
            return fail(Status::kInvalidProblem, "batch is 0, must be >= 1: the mean is the sum over it");
        return Status::kOk;
    }
};

template <class T>
struct KlDivBatchBackward {
    int64_t numel;
    int32_t reduction_mode;
    int64_t batch;
    int32_t log_target_flag;

    Status check() const { return KlDivBatch<T>::check_batch(numel, reduction_mode, batch); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* target, const T* dy, T* dinput, const Launch& launch) const {
        const auto grad_scale = reduction_scale<compute_t<T>>(batch, reduction_mode);
        return loss_gradients(launch, numel, reduction_mode, KlDiv::gradient<T>(grad_scale, log_target_flag), outputs(dinput),
                              inputs(target, dy));
    }
};

// PoissonNll with eps added to the rate, and log(target!) if full_flag is set.
template <class T>
struct FullPoissonNll {
    int64_t numel;
    int32_t reduction_mode;
    int32_t log_input_flag;
    int32_t full_flag;
    double eps;

    Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }
    Work work() const { return work_of_loss(numel, reduction_mode); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    size_t workspace_size() const { return loss_workspace<PoissonNll::Forward<T>, T, T, T>(numel, reduction_mode); }
    Status run(const T* input, const T* target, T* out, const Launch& launch) const {
        return reduce_loss(launch, numel, reduction_mode, PoissonNll::forward<T>(log_input_flag, full_flag, eps),
                           inputs(input, target), out);
    }
};

template <class T>
struct FullPoissonNllBackward {
    int64_t numel;
    int32_t reduction_mode;
    int32_t log_input_flag;
    double eps;

    Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* input, const T* target, const T* dy, T* dinput, const Launch& launch) const {
        const auto grad_scale = reduction_scale<compute_t<T>>(numel, reduction_mode);
        return loss_gradients(launch, numel, reduction_mode, PoissonNll::gradient<T>(grad_scale, log_input_flag, eps),
                              outputs(dinput), inputs(input, target, dy));
    }
};

// GaussianNll with its constant, log(2 pi) / 2, if full_flag is set.
template <class T>
struct FullGaussianNll {
    int64_t numel;
    int32_t reduction_mode;
    int32_t full_flag;
    double eps;

    Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }
    Work work() const { return work_of_loss(numel, reduction_mode); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    size_t workspace_size() const { return loss_workspace<GaussianNll::Forward<T>, T, T, T, T>(numel, reduction_mode); }
    Status run(const T* input, const T* target, const T* var, T* out, const Launch& launch) const {
        return reduce_loss(launch, numel, reduction_mode, GaussianNll::forward<T>(eps, full_flag), inputs(input, target, var),
                           out);
    }
};

template <class T, class Real = float>
struct MarginRankingBackward {
    int64_t numel;
    int32_t reduction_mode;
    float scale_scalar;
    Real margin;

    Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return loss_numel(numel, reduction_mode); }
    Status run(const T* x1, const T* x2, const T* t, const T* dy, T* dx1, T* dx2, const Launch& launch) const {
        if (dx1 == nullptr && dx2 == nullptr) return Status::kOk;
        const auto grad_scale = backward_scale<compute_t<T>>(numel, reduction_mode, scale_scalar);
        return loss_gradients(launch, numel, reduction_mode, MarginRanking::gradient<T>(grad_scale, margin), outputs(dx1, dx2),
                              inputs(x1, x2, t, dy));
    }
};

}  // namespace bk
