// SPDX-License-Identifier: Apache-2.0
// Negative log-likelihood of rows of log-probabilities: loss = -w[target] input[target]; dinput is 0 but at targets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "core/pointwise/pointwise.h"
#include "core/reduce/transform_sum.h"
#include "loss/cross_entropy/class_weights.h"
#include "loss/reduction.h"

namespace bk {

// -w[target] input[row, target], or 0 for a target that is not counted. Items are [classes, inner] with a row per inner
// index. The tails of loops may compute rows past the last, which read no input.
template <class T>
struct NllForward {
    using C = compute_t<T>;
    const T* input;
    int64_t rows, item_stride;  // item_stride: elements from item to item
    ClassWeights<C> weights;
    FastDiv<uint64_t> inner;

    struct Span {
        static constexpr bool has_rare = false;
        const T* input;
        int64_t rows, row_step, class_step;
        const ClassWeights<C>& weights;
        C inverse_divisor;
        int64_t count;
        BK_HD C operator()(int64_t k, int64_t target) const {
            const bool counts = k < rows && weights.is_counted(target);
            return counts ? -widen(input[k * row_step + target * class_step]) * (weights.of(target) * inverse_divisor)
                          : C(0) * inverse_divisor;
        }
    };
    BK_HD Span at(int64_t row) const {
        const C inverse_divisor = weights.inverse_divisor();
        const int64_t inner_size = static_cast<int64_t>(inner.divisor());
        if (inner_size == 1)
            return {input + row * item_stride, rows - row, item_stride, 1, weights, inverse_divisor, INT64_MAX};
        const DivMod<uint64_t> split = inner(static_cast<uint64_t>(row));
        const int64_t item = static_cast<int64_t>(split.quotient), inner_index = static_cast<int64_t>(split.remainder);
        const int64_t count = row < rows ? inner_size - inner_index : 0;
        return {input + item * item_stride + inner_index,
                count,
                1,
                inner_size,
                weights,
                inverse_divisor,
                count > 0 ? count : INT64_MAX};
    }
};

// -w[target] dy at each target, else 0. Items of [classes, inner] begin every item_stride elements of dinput.
template <class T, class I>
struct NllGradient {
    using C = compute_t<T>;
    const T* dy;
    const I* target;
    int64_t items, dy_step;
    ClassWeights<C> weights;
    FastDiv<uint64_t> item_stride, inner;
    C grad_scale;

    BK_HD C grad_at(int64_t row, int64_t target_class) const {
        return -widen(dy[row * dy_step]) * (grad_scale * weights.inverse_divisor() * weights.of(target_class));
    }

    struct Span {
        static constexpr bool has_rare = false;
        int64_t count, target_index;  // target_index: from the first element; -1: none
        C grad;
        const NllGradient* fn;
        int64_t row, class_index;  // with inner > 1: a span is one class of an item
        BK_HD C operator()(int64_t k) const {
            if (fn == nullptr) return k == target_index ? grad : C(0);
            const int64_t at = row + (k < count ? k : 0);
            return fn->target[at] == class_index ? fn->grad_at(at, class_index) : C(0);
        }
    };
    BK_HD Span at(int64_t i) const {
        const DivMod<uint64_t> split = item_stride(static_cast<uint64_t>(i));
        const int64_t item = static_cast<int64_t>(split.quotient), column = static_cast<int64_t>(split.remainder);
        if (item >= items) return {INT64_MAX, -1, C(0), nullptr, 0, 0};
        const int64_t remaining = static_cast<int64_t>(item_stride.divisor()) - column,
                      inner_size = static_cast<int64_t>(inner.divisor());
        if (inner_size == 1) {
            const int64_t target_class = target[item];
            const bool is_in_span = target_class >= column && weights.is_counted(target_class);
            return {
                remaining, is_in_span ? target_class - column : -1, is_in_span ? grad_at(item, target_class) : C(0), nullptr, 0,
                0};
        }
        const DivMod<uint64_t> cell = inner(static_cast<uint64_t>(column));
        const int64_t class_index = static_cast<int64_t>(cell.quotient), inner_index = static_cast<int64_t>(cell.remainder);
        if (!weights.is_counted(class_index)) return {inner_size - inner_index, -1, C(0), nullptr, 0, 0};
        return {inner_size - inner_index, -1, C(0), this, item * inner_size + inner_index, class_index};
    }
};

template <class T>
struct Nll {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_input;
    int32_t reduction_mode;

    Status check() const {
        return check_loss({{"n_rows", n_rows}, {"class_extent", class_extent}, {"row_stride_input", row_stride_input}},
                          reduction_mode);
    }
    Work work() const { return work_of_loss(n_rows, reduction_mode); }
    int64_t results() const { return loss_numel(n_rows, reduction_mode); }
    size_t workspace_size() const {
        return reduction_mode == kReductionNone ? 0 : transform_sum_workspace<T, NllForward<T>, int64_t>(n_rows);
    }
    Status run(const T* input, const int64_t* target, T* out, const Launch& launch) const {
        if (n_rows == 0) return write_empty_loss(launch, reduction_mode, out);
        const NllForward<T> forward{input, n_rows, row_stride_input, {class_extent, -1}, FastDiv<uint64_t>(1)};
        if (reduction_mode == kReductionNone) return pointwise(launch, n_rows, forward, outputs(out), inputs(target));
        return transform_sum(launch, n_rows, forward, reduction_divisor(n_rows, reduction_mode), inputs(target), out);
    }
};

template <class T>
struct NllBackward {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_input;
    int64_t dinput_numel;
    int32_t reduction_mode;
    float scale_scalar;

    Status check() const {
        BK_TRY(check_loss({{"n_rows", n_rows},
                           {"class_extent", class_extent},
                           {"row_stride_input", row_stride_input},
                           {"dinput_numel", dinput_numel}},
                          reduction_mode));
        if (n_rows > 1 && row_stride_input < class_extent)
            return fail(Status::kInvalidProblem, "row_stride_input is %lld, must be >= class_extent, %d: rows would overlap",
                        static_cast<long long>(row_stride_input), class_extent);
        int64_t end = 0;
        const bool fits = n_rows == 0 || class_extent == 0 ||
                          (!__builtin_mul_overflow(n_rows - 1, row_stride_input, &end) &&
                           !__builtin_add_overflow(end, int64_t{class_extent}, &end) && end <= dinput_numel);
        if (!fits)
            return fail(Status::kInvalidProblem, "dinput_numel is %lld, too few for %lld rows that are %lld apart",
                        static_cast<long long>(dinput_numel), static_cast<long long>(n_rows),
                        static_cast<long long>(row_stride_input));
        return Status::kOk;
    }
    Work work() const { return dinput_numel == 0 ? Work::kNone : n_rows == 0 ? Work::kZeros : Work::kAll; }
    int64_t results() const { return loss_numel(n_rows, reduction_mode); }
    Status run(const T* dy, const int64_t* target, T* dinput, const Launch& launch) const {
        if (n_rows == 0) return write_zeros(launch, dinput_numel, dinput);
        // A single row may have any stride.
        const int64_t stride = n_rows == 1 ? dinput_numel : row_stride_input;
        const auto grad_scale = backward_scale<compute_t<T>>(n_rows, reduction_mode, scale_scalar);
        const NllGradient<T, int64_t> fn{dy,
                                         target,
                                         n_rows,
                                         reduction_mode == kReductionNone ? 1 : 0,
                                         {class_extent, -1},
                                         FastDiv<uint64_t>(std::max<int64_t>(stride, 1)),
                                         FastDiv<uint64_t>(1),
                                         grad_scale};
        return pointwise(launch, dinput_numel, fn, outputs(dinput), inputs());
    }
};

// Input [N, C, d...], class weights, ignored index. divisor[0] is the sum of the weights of the counted targets.
template <class I, class T>
struct WeightedNllBase {
    using C = compute_t<T>;
    int64_t n_rows;
    int32_t class_extent;
    int64_t inner_extent;
    int32_t reduction_mode;
    int64_t ignore_index;

    Status check() const {
        return check_loss({{"n_rows", n_rows}, {"class_extent", class_extent}, {"inner_extent", inner_extent}}, reduction_mode);
    }
    int64_t num_losses() const { return count_losses(n_rows, inner_extent); }
    int64_t results() const { return loss_numel(num_losses(), reduction_mode); }

protected:
    int64_t item() const { return class_extent * inner_extent; }
    ClassWeights<C> weights(const C* weight, const double* divisor) const {
        return {class_extent, ignore_index, weight, reduction_mode == kReductionMean ? divisor : nullptr};
    }
};

template <class I, class T>
struct WeightedNll : WeightedNllBase<I, T> {
    using typename WeightedNllBase<I, T>::C;

    Work work() const { return this->num_losses() == 0 ? Work::kZeros : Work::kAll; }
    size_t workspace_size() const {
        const int64_t num_losses = this->num_losses();
        if (num_losses == 0) return 0;
        const size_t divisor_bytes = transform_sum_workspace<double, ClassWeights<C>, I>(num_losses);
        return this->reduction_mode == kReductionNone
                   ? divisor_bytes
                   : std::max(divisor_bytes, transform_sum_workspace<T, NllForward<T>, I>(num_losses));
    }
    Status run(const T* input, const I* target, const C* weight, T* out, double* divisor, const Launch& launch) const {
        const int64_t num_losses = this->num_losses();
        if (num_losses == 0) {
            BK_TRY(write_zeros(launch, 1, divisor));
            return this->reduction_mode == kReductionNone ? Status::kOk : write_empty_loss(launch, this->reduction_mode, out);
        }
        BK_TRY(transform_sum(launch, num_losses, ClassWeights<C>{this->class_extent, this->ignore_index, weight}, 1,
                             inputs(target), divisor));
        const NllForward<T> forward{input, num_losses, this->item(), this->weights(weight, divisor),
                                    FastDiv<uint64_t>(static_cast<uint64_t>(this->inner_extent))};
        if (this->reduction_mode == kReductionNone) return pointwise(launch, num_losses, forward, outputs(out), inputs(target));
        return transform_sum(launch, num_losses, forward, 1, inputs(target), out);
    }
};

// divisor is that of the forward op; only the gradient of the mean reads it.
template <class I, class T>
struct WeightedNllBackward : WeightedNllBase<I, T> {
    using typename WeightedNllBase<I, T>::C;

    Work work() const { return this->num_losses() == 0 || this->class_extent == 0 ? Work::kNone : Work::kAll; }
    Status run(const I* target, const C* weight, const double* divisor, const T* dy, T* dinput, const Launch& launch) const {
        const NllGradient<T, I> fn{dy,
                                   target,
                                   this->n_rows,
                                   this->reduction_mode == kReductionNone ? 1 : 0,
                                   this->weights(weight, divisor),
                                   FastDiv<uint64_t>(static_cast<uint64_t>(this->item())),
                                   FastDiv<uint64_t>(static_cast<uint64_t>(this->inner_extent)),
                                   C(1)};
        return pointwise(launch, this->n_rows * this->item(), fn, outputs(dinput), inputs());
    }
};

}  // namespace bk
