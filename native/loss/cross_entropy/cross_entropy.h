// SPDX-License-Identifier: Apache-2.0
// Cross entropy of logits with class indices or with probabilities as targets: plain, and with class weights, label
// smoothing, an ignored index and z-loss; forward, backward, or both in one pass.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "core/reduce/transform_sum.h"
#include "loss/cross_entropy/class_rows.h"
#include "loss/cross_entropy/class_weights.h"
#include "loss/cross_entropy/cross_entropy_rows.h"
#include "loss/cross_entropy/flce_sums.h"
#include "loss/reduction.h"
#include "loss/row_reduction.h"

namespace bk {

inline Status check_smoothing(double label_smoothing) {
    if (label_smoothing >= 0 && label_smoothing <= 1) return Status::kOk;
    return fail(Status::kInvalidProblem, "label_smoothing is %g, must be in [0, 1]", label_smoothing);
}

template <class T, class I>
SmoothCrossEntropyRows<T> make_cross_entropy_rows(int32_t classes, int64_t ignored, const compute_t<T>* weight,
                                                  double smoothing, double z) {
    using C = compute_t<T>;
    SmoothCrossEntropyRows<T> rows{{{}, classes, ignored, 1}};
    rows.has_high_words = sizeof(I) == 8;
    rows.weight = weight;
    rows.confidence = static_cast<C>(1 - smoothing);
    rows.smoothing_per_class = static_cast<C>(smoothing / std::max(classes, 1));
    rows.z_loss = static_cast<C>(z);
    return rows;
}

// Calls body(f), on a GPU without label smoothing with the base of f, which takes fewer registers.
template <class T, class Body>
Status dispatch_smoothing(const SmoothCrossEntropyRows<T>& f, const Body& body) {
    if constexpr (kRowsStayOnChip)
        if (!f.has_sums_without_exp()) return body(static_cast<const CrossEntropyRows<T>&>(f));
    return body(f);
}

template <class T>
Inputs<> class_columns(const CrossEntropyRows<T>&) {
    return inputs();
}
template <class T>
Inputs<compute_t<T>> class_columns(const SmoothCrossEntropyRows<T>& f) {
    return inputs(f.has_sums_without_exp() ? f.weight : nullptr);
}

// losses and wide_losses may be null: a kernel for the gradient alone would save only the test of two pointers a row.
template <class F, class T>
Status cross_entropy_gradients(const Launch& launch, int32_t reduction_mode, const StridedRows<1>& rows, const F& f,
                               const T* input, const Inputs<int32_t, int32_t, T>& row_inputs, T* dinput, T* losses,
                               compute_t<T>* wide_losses) {
    return row_gradients(launch, reduction_mode, rows, f, inputs(input), class_columns(f), row_inputs, outputs(dinput),
                         outputs(losses, wide_losses));
}

template <class T>
struct CrossEntropy {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_input;
    int32_t reduction_mode;

    BK_ROW_LOSS(class_extent, {"row_stride_input", row_stride_input})
    Status run(const T* input, const int64_t* target, T* out, const Launch& launch) const {
        return row_loss(launch, reduction_mode,
                        StridedRows<1>{n_rows, class_extent, {row_stride_input}, kWordsPerIndex<int64_t>},
                        CrossEntropyRows<T>{{}, class_extent, -1, 1}, inputs(input), words_of(target), out);
    }
};

template <class T>
struct CrossEntropyBackward {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_input;
    int32_t reduction_mode;
    float scale_scalar;

    BK_ROW_LOSS_BACKWARD(class_extent, {"row_stride_input", row_stride_input})
    Status run(const T* input, const int64_t* target, const T* dy, T* dinput, const Launch& launch) const {
        return cross_entropy_gradients<CrossEntropyRows<T>, T>(
            launch, reduction_mode, StridedRows<1>{n_rows, class_extent, {row_stride_input}, kWordsPerIndex<int64_t>},
            CrossEntropyRows<T>{{}, class_extent, -1, grad_scale()}, input, words_of(target, dy), dinput, nullptr, nullptr);
    }
};

template <class T>
struct SoftCrossEntropy {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_input;
    int64_t row_stride_target;
    int32_t reduction_mode;

    BK_ROW_LOSS(class_extent, {"row_stride_input", row_stride_input}, {"row_stride_target", row_stride_target})
    Status run(const T* input, const T* target, T* out, const Launch& launch) const {
        return row_loss(launch, reduction_mode, StridedRows<2>{n_rows, class_extent, {row_stride_input, row_stride_target}},
                        SoftCrossEntropyRows<T>{{}, 1, class_extent}, inputs(input, target), inputs(), out);
    }
};

// The gradient of the logits on the CPU. dy of row r is dy[r * dy_step]; dinput may be the input.
template <class T>
Status dense_soft_gradients(const StridedRows<2>& rows, compute_t<T> grad_scale, const T* input, const T* target, const T* dy,
                            int64_t dy_step, T* dinput);

template <class T>
struct SoftCrossEntropyBackward {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_input;
    int64_t row_stride_target;
    int32_t reduction_mode;
    float scale_scalar;

    BK_ROW_LOSS_BACKWARD(class_extent, {"row_stride_input", row_stride_input}, {"row_stride_target", row_stride_target})
    Status run(const T* input, const T* target, const T* dy, T* dinput, const Launch& launch) const {
        const StridedRows<2> rows{n_rows, class_extent, {row_stride_input, row_stride_target}};
        if constexpr (!kRowsStayOnChip)
            return dense_soft_gradients(rows, grad_scale(), input, target, dy, reduction_mode == kReductionNone ? 1 : 0,
                                        dinput);
        else
            return row_gradients(launch, reduction_mode, rows, SoftCrossEntropyRows<T>{{}, grad_scale(), class_extent},
                                 inputs(input, target), inputs(dy), outputs(dinput));
    }
};

// Class weights, ignored index, smoothing, z-loss. divisor[0] is the sum of the weights of the counted targets.
template <class I, class T>
struct WeightedCrossEntropyBase {
    using C = compute_t<T>;
    int64_t n_rows;
    int32_t class_extent;
    int64_t inner_extent;
    int64_t row_stride_input;
    int32_t reduction_mode;
    int64_t ignore_index;
    double label_smoothing;
    double z_loss;

    Status check() const {
        BK_TRY(check_loss({{"n_rows", n_rows},
                           {"class_extent", class_extent},
                           {"inner_extent", inner_extent},
                           {"row_stride_input", row_stride_input}},
                          reduction_mode));
        return check_smoothing(label_smoothing);
    }
    int64_t num_losses() const { return count_losses(n_rows, inner_extent); }
    int64_t results() const { return loss_numel(num_losses(), reduction_mode); }

protected:
    StridedRows<1> loss_rows() const {
        return {num_losses(), class_extent, {row_stride_input}, kWordsPerIndex<I>, inner_extent, inner_extent};
    }
    SmoothCrossEntropyRows<T> functor(const C* weight, const double* divisor) const {
        auto rows = make_cross_entropy_rows<T, I>(class_extent, ignore_index, weight, label_smoothing, z_loss);
        if (reduction_mode == kReductionMean) rows.divisor = divisor;
        return rows;
    }
};

template <class I, class T>
struct WeightedCrossEntropy : WeightedCrossEntropyBase<I, T> {
    using typename WeightedCrossEntropyBase<I, T>::C;

    Work work() const { return this->num_losses() == 0 ? Work::kZeros : Work::kAll; }
    size_t workspace_size() const {
        const int64_t num_losses = this->num_losses();
        return std::max(row_loss_workspace<T>(num_losses, this->reduction_mode),
                        num_losses == 0 ? 0 : transform_sum_workspace<double, ClassWeights<C>, I>(num_losses));
    }
    Status run(const T* input, const I* target, const C* weight, T* out, double* divisor, const Launch& launch) const {
        const int32_t mode = this->reduction_mode;
        if (this->num_losses() == 0) {
            BK_TRY(write_zeros(launch, 1, divisor));
            return mode == kReductionNone ? Status::kOk : write_empty_loss(launch, mode, out);
        }
        const ClassWeights<C> counted{this->class_extent, this->ignore_index, weight};
        BK_TRY(transform_sum(launch, this->num_losses(), counted, 1, inputs(target), divisor));
        return dispatch_smoothing(this->functor(weight, divisor), [&](const auto& f) {
            return row_loss(launch, mode == kReductionMean ? kReductionSum : mode, this->loss_rows(), f, inputs(input),
                            words_of(target), out);
        });
    }
};

// divisor is that of the forward op; only the gradient of the mean reads it.
template <class I, class T>
struct WeightedCrossEntropyBackward : WeightedCrossEntropyBase<I, T> {
    using typename WeightedCrossEntropyBase<I, T>::C;

    Work work() const { return this->num_losses() == 0 || this->class_extent == 0 ? Work::kNone : Work::kAll; }
    Status run(const T* input, const I* target, const C* weight, const double* divisor, const T* dy, T* dinput,
               const Launch& launch) const {
        return dispatch_smoothing(this->functor(weight, divisor), [&](const auto& f) {
            return cross_entropy_gradients(launch, this->reduction_mode, this->loss_rows(), f, input, words_of(target, dy),
                                           dinput, static_cast<T*>(nullptr), static_cast<C*>(nullptr));
        });
    }
};

// The loss and its gradient in one pass over the logits. A mean or sum without a workspace for the losses takes two.
template <class I, class T>
struct CrossEntropyWithGradient : WeightedCrossEntropyBase<I, T> {
    using typename WeightedCrossEntropyBase<I, T>::C;

    Work work() const { return this->num_losses() == 0 ? Work::kZeros : Work::kAll; }
    bool is_unreduced() const { return this->reduction_mode == kReductionNone; }
    size_t workspace_size() const {
        const int64_t num_losses = this->num_losses();
        if (num_losses == 0) return 0;
        Carver sizes;
        if (!is_unreduced()) sizes.take<C>(num_losses);
        return std::max(sizes.bytes(), transform_sum_workspace<double, ClassWeights<C>, I>(num_losses));
    }
    Status run(const T* input, const I* target, const C* weight, const T* dy, T* out, double* divisor, T* dinput,
               const Launch& launch) const {
        const int32_t mode = this->reduction_mode;
        if (this->num_losses() == 0) {
            BK_TRY(write_zeros(launch, 1, divisor));
            return is_unreduced() ? Status::kOk : write_empty_loss(launch, mode, out);
        }
        const bool has_workspace = workspace_holds(launch, workspace_size());
        const ClassWeights<C> class_weights{this->class_extent, this->ignore_index, weight};
        BK_TRY(transform_sum(launch, this->num_losses(), class_weights, 1, inputs(target), divisor));
        const StridedRows<1> rows = this->loss_rows();
        auto f = this->functor(weight, divisor);
        f.has_dy = dy != nullptr;
        const Launch no_workspace{nullptr, 0, launch.stream};
        Carver carver(launch.workspace);
        C* const losses = has_workspace && !is_unreduced() ? carver.take<C>(this->num_losses())
                                                           : nullptr;  // the alignment decides the order of the sum
        BK_TRY(dispatch_smoothing(f, [&](const auto& row_fn) {
            if (!has_workspace && !is_unreduced())
                BK_TRY(row_loss(no_workspace, kReductionSum, rows, row_fn, inputs(input), words_of(target), out));
            return cross_entropy_gradients(no_workspace, mode, rows, row_fn, input, words_of(target, dy), dinput,
                                           is_unreduced() ? out : nullptr, losses);
        }));
        if (losses == nullptr) return Status::kOk;
        return reduce(no_workspace, axes_of_rows(rows.rows), typename FlceFinalize<T, C>::Sum{C(1)}, outputs(out),
                      inputs(static_cast<const C*>(losses)));
    }
};

// Soft targets with class weights and label smoothing.
template <class T>
struct WeightedSoftCrossEntropyBase {
    using C = compute_t<T>;
    int64_t n_rows;
    int32_t class_extent;
    int64_t inner_extent;
    int32_t reduction_mode;
    double label_smoothing;

    Status check() const {
        BK_TRY(
            check_loss({{"n_rows", n_rows}, {"class_extent", class_extent}, {"inner_extent", inner_extent}}, reduction_mode));
        return check_smoothing(label_smoothing);
    }
    int64_t num_losses() const { return count_losses(n_rows, inner_extent); }
    int64_t results() const { return loss_numel(num_losses(), reduction_mode); }

protected:
    StridedRows<2> loss_rows() const {
        const int64_t item = class_extent * inner_extent;
        return {num_losses(), class_extent, {item, item}, 1, inner_extent, inner_extent};
    }
    SoftCrossEntropyRows<T> functor(const C* weight, C grad_scale) const {
        return {{},
                grad_scale,
                class_extent,
                weight,
                static_cast<C>(1 - label_smoothing),
                static_cast<C>(label_smoothing / std::max(class_extent, 1))};
    }
};

template <class T>
struct WeightedSoftCrossEntropy : WeightedSoftCrossEntropyBase<T> {
    using typename WeightedSoftCrossEntropyBase<T>::C;

    Work work() const { return work_of_loss(this->num_losses(), this->reduction_mode); }
    size_t workspace_size() const { return row_loss_workspace<T>(this->num_losses(), this->reduction_mode); }
    Status run(const T* input, const T* target, const C* weight, T* out, const Launch& launch) const {
        return row_loss(launch, this->reduction_mode, this->loss_rows(), this->functor(weight, 1), inputs(input, target),
                        inputs(), out);
    }
};

template <class T>
struct WeightedSoftCrossEntropyBackward : WeightedSoftCrossEntropyBase<T> {
    using typename WeightedSoftCrossEntropyBase<T>::C;

    Work work() const { return this->num_losses() == 0 || this->class_extent == 0 ? Work::kNone : Work::kAll; }
    Status run(const T* input, const T* target, const C* weight, const T* dy, T* dinput, T* dtarget,
               const Launch& launch) const {
        const int32_t mode = this->reduction_mode;
        const StridedRows<2> rows = this->loss_rows();
        const auto f = this->functor(weight, reduction_scale<C>(this->num_losses(), mode));
        if (dtarget != nullptr)
            return row_gradients(launch, mode, rows, SoftCrossEntropyTargetRows<T>{f}, inputs(input, target), inputs(dy),
                                 outputs(dinput, dtarget));
        if (dinput == nullptr) return Status::kOk;
        return row_gradients(launch, mode, rows, f, inputs(input, target), inputs(dy), outputs(dinput));
    }
};

}  // namespace bk

#if !BK_CUDA
#include "loss/cross_entropy/soft_cross_entropy_cpu.h"
#endif
