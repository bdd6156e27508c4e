// Losses with a term for each element.
//
// A loss L makes the functor of its terms, L::term<T>(parameter), which takes the inputs, and that of its gradients,
// L::gradient<T>(factor, parameter), which takes the inputs that it reads, and dy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/layout.h"
#include "core/pointwise/pointwise.h"
#include "core/reduce/sum_of_terms.h"
#include "loss/distance.h"
#include "loss/likelihood.h"
#include "loss/margin.h"
#include "loss/reduction.h"

namespace bk {

template <class Fn, class T, class... In>
size_t loss_workspace(int64_t numel, int32_t reduction_mode) {
    if (reduction_mode == kEachTerm) return 0;
    return sum_of_terms_workspace<T, Fn, In...>(numel);
}

template <class T, class Fn, class... In>
Status reduce_terms(const Launch& launch, int64_t numel, int32_t reduction_mode, const Fn& fn, const Inputs<In...>& in,
                    T* out) {
    if (reduction_mode == kEachTerm) return pointwise(launch, numel, fn, outputs(out), in);
    if (numel == 0) return write_empty_loss(launch, reduction_mode, out);
    return sum_of_terms(launch, numel, fn, reduction_mode == kMeanOfTerms, in, out);
}

// Operands of `numel` elements each; the last one stands still where it has one for all.
template <int Operands>
BK_COLD Layout<Operands> layout_of_terms(int64_t numel, bool has_one) {
    Layout<Operands> layout;
    int64_t stride[Operands];
    for (int k = 0; k < Operands; ++k) stride[k] = has_one && k + 1 == Operands ? 0 : 1;
    layout.append(numel, stride);
    return layout;
}

// The last input is dy.
template <class Fn, class... Out, class... In>
Status loss_gradients(const Launch& launch, int64_t numel, int32_t reduction_mode, const Fn& fn, const Outputs<Out...>& out,
                      const Inputs<In...>& in) {
    constexpr int kOperands = sizeof...(Out) + sizeof...(In);
    return pointwise_strided(launch, layout_of_terms<kOperands>(numel, reduction_mode != kEachTerm), fn, out, in);
}

// In: the inputs.
template <class L, class T, class... In>
struct Loss {
    int64_t numel;
    int32_t reduction_mode;

    Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }
    Work work() const { return work_of_loss(numel, reduction_mode); }
    int64_t results() const { return results_of_loss(numel, reduction_mode); }
    size_t workspace_size() const { return loss_workspace<decltype(L::template term<T>()), T, In...>(numel, reduction_mode); }
    Status run(const In*... in, T* out, const Launch& launch) const {
        return reduce_terms(launch, numel, reduction_mode, L::template term<T>(), inputs(in...), out);
    }
};

template <class L, class T, class... In>
struct LossBackward {
    int64_t numel;
    int32_t reduction_mode;
    float scale_scalar;

    Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return results_of_loss(numel, reduction_mode); }
    Status run(const In*... in, const T* dy, T* gradient, const Launch& launch) const {
        const auto factor = factor_of_gradient<compute_t<T>>(numel, reduction_mode, scale_scalar);
        return loss_gradients(launch, numel, reduction_mode, L::template gradient<T>(factor), outputs(gradient),
                              inputs(in..., dy));
    }
};

// Losses of one parameter. The rows name it, so each name has structs of its own.
#define BK_LOSS_OF(Name, Type, parameter)                                                                           \
    template <class L, class T, class... In>                                                                        \
    struct Name##Loss {                                                                                             \
        int64_t numel;                                                                                              \
        int32_t reduction_mode;                                                                                     \
        Type parameter;                                                                                             \
                                                                                                                    \
        Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }                             \
        Work work() const { return work_of_loss(numel, reduction_mode); }                                           \
        int64_t results() const { return results_of_loss(numel, reduction_mode); }                                  \
        size_t workspace_size() const {                                                                             \
            return loss_workspace<decltype(L::template term<T>(Type())), T, In...>(numel, reduction_mode);          \
        }                                                                                                           \
        Status run(const In*... in, T* out, const Launch& launch) const {                                           \
            return reduce_terms(launch, numel, reduction_mode, L::template term<T>(parameter), inputs(in...), out); \
        }                                                                                                           \
    };                                                                                                              \
                                                                                                                    \
    template <class L, class T, class... In>                                                                        \
    struct Name##LossBackward {                                                                                     \
        int64_t numel;                                                                                              \
        int32_t reduction_mode;                                                                                     \
        float scale_scalar;                                                                                         \
        Type parameter;                                                                                             \
                                                                                                                    \
        Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }                             \
        Work work() const { return all_or_none(numel); }                                                            \
        int64_t results() const { return results_of_loss(numel, reduction_mode); }                                  \
        Status run(const In*... in, const T* dy, T* gradient, const Launch& launch) const {                         \
            const auto factor = factor_of_gradient<compute_t<T>>(numel, reduction_mode, scale_scalar);              \
            return loss_gradients(launch, numel, reduction_mode, L::template gradient<T>(factor, parameter),        \
                                  outputs(gradient), inputs(in..., dy));                                            \
        }                                                                                                           \
    };

BK_LOSS_OF(Param, float, param)
BK_LOSS_OF(Flag, int32_t, log_input_flag)
BK_LOSS_OF(Eps, float, eps)
BK_LOSS_OF(Margin, float, margin)
#undef BK_LOSS_OF

template <class T>
struct MarginRankingBackward {
    int64_t numel;
    int32_t reduction_mode;
    float scale_scalar;
    float margin;

    Status check() const { return check_loss({{"numel", numel}}, reduction_mode); }
    Work work() const { return all_or_none(numel); }
    int64_t results() const { return results_of_loss(numel, reduction_mode); }
    Status run(const T* x1, const T* x2, const T* t, const T* dy, T* dx1, T* dx2, const Launch& launch) const {
        if (dx1 == nullptr && dx2 == nullptr) return Status::kOk;
        const auto factor = factor_of_gradient<compute_t<T>>(numel, reduction_mode, scale_scalar);
        return loss_gradients(launch, numel, reduction_mode, MarginRanking::gradient<T>(factor, margin), outputs(dx1, dx2),
                              inputs(x1, x2, t, dy));
    }
};

}  // namespace bk
