// Cross entropy: of an index or of probabilities, with weights, and with the gradient beside it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "core/reduce/sum_of_terms.h"
#include "loss/class_rows.h"
#include "loss/class_weights.h"
#include "loss/flce_sums.h"
#include "loss/index_rows.h"
#include "loss/reduction.h"
#include "loss/row_skeleton.h"

namespace bk {

inline Status check_smoothing(double label_smoothing) {
    if (label_smoothing >= 0 && label_smoothing <= 1) return Status::kOk;
    return fail(Status::kInvalidProblem, "label_smoothing is %g, must be in [0, 1]", label_smoothing);
}

template <class T, class I>
SmoothCrossEntropyRows<T> index_rows(int32_t classes, int64_t ignored, const compute_t<T>* weight, double smoothing, double z) {
    using C = compute_t<T>;
    SmoothCrossEntropyRows<T> rows{{{}, classes, ignored, 1}};
    rows.has_high_words = sizeof(I) == 8;
    rows.weight = weight;
    rows.own = static_cast<C>(1 - smoothing);
    rows.each = static_cast<C>(smoothing / std::max(classes, 1));
    rows.penalty = static_cast<C>(z);
    return rows;
}

// Calls body(f); on a GPU, where classes have no shares beside the target's, with the row function that has none either: it
// takes fewer registers.
template <class T, class Body>
Status with_shares(const SmoothCrossEntropyRows<T>& f, const Body& body) {
    if constexpr (kRowsStayOnChip)
        if (!f.sums_first()) return body(static_cast<const CrossEntropyRows<T>&>(f));
    return body(f);
}

template <class T>
Inputs<> columns_of(const CrossEntropyRows<T>&) {
    return inputs();
}
template <class T>
Inputs<compute_t<T>> columns_of(const SmoothCrossEntropyRows<T>& f) {
    return inputs(f.sums_first() ? f.weight : nullptr);
}

// A kernel of its own for the gradient alone would save nothing but the test of two pointers a row.
template <class F, class T>
Status index_gradients(const Launch& launch, int32_t reduction_mode, const TermRows<1>& rows, const F& f, const T* input,
                       const Inputs<int32_t, int32_t, T>& row_inputs, T* dinput, T* each, compute_t<T>* wide) {
    return row_gradients(launch, reduction_mode, rows, f, inputs(input), columns_of(f), row_inputs, outputs(dinput),
                         outputs(each, wide));
}

template <class T>
struct CrossEntropy {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_input;
    int32_t reduction_mode;

    BK_ROW_LOSS(class_extent, {"row_stride_input", row_stride_input})
    Status run(const T* input, const int64_t* target, T* out, const Launch& launch) const {
        return row_loss(launch, reduction_mode, TermRows<1>{n_rows, class_extent, {row_stride_input}, kWordsPerIndex<int64_t>},
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
        return index_gradients<CrossEntropyRows<T>, T>(
            launch, reduction_mode, TermRows<1>{n_rows, class_extent, {row_stride_input}, kWordsPerIndex<int64_t>},
            CrossEntropyRows<T>{{}, class_extent, -1, factor()}, input, words_of(target, dy), dinput, nullptr, nullptr);
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
        return row_loss(launch, reduction_mode, TermRows<2>{n_rows, class_extent, {row_stride_input, row_stride_target}},
                        SoftCrossEntropyRows<T>{{}, 1, class_extent}, inputs(input, target), inputs(), out);
    }
};

// The gradient of the logits of dense rows, where these do not stay on the chip. dy moves by dy_step from row to row, and
// dinput may be the input.
template <class T>
Status dense_soft_gradients(const TermRows<2>& rows, compute_t<T> factor, const T* input, const T* target, const T* dy,
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
        const TermRows<2> rows{n_rows, class_extent, {row_stride_input, row_stride_target}};
        if constexpr (!kRowsStayOnChip)
            return dense_soft_gradients(rows, factor(), input, target, dy, reduction_mode == kReductionNone ? 1 : 0, dinput);
        else
            return row_gradients(launch, reduction_mode, rows, SoftCrossEntropyRows<T>{{}, factor(), class_extent},
                                 inputs(input, target), inputs(dy), outputs(dinput));
    }
};

// With weights of the classes, an index that is ignored, label smoothing and a penalty of the normalizer. divisor[0] is the sum
// of the weights of the rows that count.
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
    int64_t terms() const { return terms_of_items(n_rows, inner_extent); }
    int64_t results() const { return loss_numel(terms(), reduction_mode); }

protected:
    TermRows<1> term_rows() const {
        return {terms(), class_extent, {row_stride_input}, kWordsPerIndex<I>, inner_extent, inner_extent};
    }
    SmoothCrossEntropyRows<T> functor(const C* weight, const double* divisor) const {
        auto rows = index_rows<T, I>(class_extent, ignore_index, weight, label_smoothing, z_loss);
        if (reduction_mode == kMeanOfTerms) rows.divisor = divisor;
        return rows;
    }
};

template <class I, class T>
struct WeightedCrossEntropy : WeightedCrossEntropyBase<I, T> {
    using typename WeightedCrossEntropyBase<I, T>::C;

    Work work() const { return this->terms() == 0 ? Work::kZeros : Work::kAll; }
    size_t workspace_size() const {
        const int64_t terms = this->terms();
        return std::max(row_loss_workspace<T>(terms, this->reduction_mode),
                        terms == 0 ? 0 : sum_of_terms_workspace<double, ClassWeights<C>, I>(terms));
    }
    Status run(const T* input, const I* target, const C* weight, T* out, double* divisor, const Launch& launch) const {
        const int32_t mode = this->reduction_mode;
        if (this->terms() == 0) {
            BK_TRY(write_zeros(launch, 1, divisor));
            return mode == kReductionNone ? Status::kOk : write_empty_loss(launch, mode, out);
        }
        const ClassWeights<C> counted{this->class_extent, this->ignore_index, weight};
        BK_TRY(sum_of_terms(launch, this->terms(), counted, 1, inputs(target), divisor));
        return with_shares(this->functor(weight, divisor), [&](const auto& f) {
            return row_loss(launch, mode == kMeanOfTerms ? kSumOfTerms : mode, this->term_rows(), f, inputs(input),
                            words_of(target), out);
        });
    }
};

// divisor is that of the forward op; only the gradient of the mean reads it.
template <class I, class T>
struct WeightedCrossEntropyBackward : WeightedCrossEntropyBase<I, T> {
    using typename WeightedCrossEntropyBase<I, T>::C;

    Work work() const { return this->terms() == 0 || this->class_extent == 0 ? Work::kNone : Work::kAll; }
    Status run(const T* input, const I* target, const C* weight, const double* divisor, const T* dy, T* dinput,
               const Launch& launch) const {
        return with_shares(this->functor(weight, divisor), [&](const auto& f) {
            return index_gradients(launch, this->reduction_mode, this->term_rows(), f, input, words_of(target, dy), dinput,
                                   static_cast<T*>(nullptr), static_cast<C*>(nullptr));
        });
    }
};

// The loss and its gradient. Logits are read once, but for a mean or sum without a workspace, in which the terms lie.
template <class I, class T>
struct CrossEntropyWithGradient : WeightedCrossEntropyBase<I, T> {
    using typename WeightedCrossEntropyBase<I, T>::C;

    Work work() const { return this->terms() == 0 ? Work::kZeros : Work::kAll; }
    bool is_each() const { return this->reduction_mode == kReductionNone; }
    size_t workspace_size() const {
        const int64_t terms = this->terms();
        if (terms == 0) return 0;
        Carver of_terms;
        if (!is_each()) of_terms.take<C>(terms);
        return std::max(of_terms.bytes(), sum_of_terms_workspace<double, ClassWeights<C>, I>(terms));
    }
    Status run(const T* input, const I* target, const C* weight, const T* dy, T* out, double* divisor, T* dinput,
               const Launch& launch) const {
        const int32_t mode = this->reduction_mode;
        if (this->terms() == 0) {
            BK_TRY(write_zeros(launch, 1, divisor));
            return is_each() ? Status::kOk : write_empty_loss(launch, mode, out);
        }
        const bool found = workspace_holds(launch, workspace_size());
        const ClassWeights<C> counted{this->class_extent, this->ignore_index, weight};
        BK_TRY(sum_of_terms(launch, this->terms(), counted, 1, inputs(target), divisor));
        const TermRows<1> rows = this->term_rows();
        auto f = this->functor(weight, divisor);
        f.has_dy = dy != nullptr;
        const Launch bare{nullptr, 0, launch.stream};
        Carver carver(launch.workspace);
        C* const terms = found && !is_each() ? carver.take<C>(this->terms()) : nullptr;  // the order of sums follows alignments
        BK_TRY(with_shares(f, [&](const auto& of_rows) {
            if (!found && !is_each()) BK_TRY(row_loss(bare, kSumOfTerms, rows, of_rows, inputs(input), words_of(target), out));
            return index_gradients(bare, mode, rows, of_rows, input, words_of(target, dy), dinput, is_each() ? out : nullptr,
                                   terms);
        }));
        if (terms == nullptr) return Status::kOk;
        return reduce(bare, axes_of_rows(rows.rows), typename FlceFinalize<T, C>::Sum{C(1)}, outputs(out),
                      inputs(static_cast<const C*>(terms)));
    }
};

// Of probabilities, with weights of the classes and label smoothing.
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
    int64_t terms() const { return terms_of_items(n_rows, inner_extent); }
    int64_t results() const { return loss_numel(terms(), reduction_mode); }

protected:
    TermRows<2> term_rows() const {
        const int64_t item = class_extent * inner_extent;
        return {terms(), class_extent, {item, item}, 1, inner_extent, inner_extent};
    }
    SoftCrossEntropyRows<T> functor(const C* weight, C factor) const {
        return {{},
                factor,
                class_extent,
                weight,
                static_cast<C>(1 - label_smoothing),
                static_cast<C>(label_smoothing / std::max(class_extent, 1))};
    }
};

template <class T>
struct WeightedSoftCrossEntropy : WeightedSoftCrossEntropyBase<T> {
    using typename WeightedSoftCrossEntropyBase<T>::C;

    Work work() const { return work_of_loss(this->terms(), this->reduction_mode); }
    size_t workspace_size() const { return row_loss_workspace<T>(this->terms(), this->reduction_mode); }
    Status run(const T* input, const T* target, const C* weight, T* out, const Launch& launch) const {
        return row_loss(launch, this->reduction_mode, this->term_rows(), this->functor(weight, 1), inputs(input, target),
                        inputs(), out);
    }
};

template <class T>
struct WeightedSoftCrossEntropyBackward : WeightedSoftCrossEntropyBase<T> {
    using typename WeightedSoftCrossEntropyBase<T>::C;

    Work work() const { return this->terms() == 0 || this->class_extent == 0 ? Work::kNone : Work::kAll; }
    Status run(const T* input, const T* target, const C* weight, const T* dy, T* dinput, T* dtarget,
               const Launch& launch) const {
        const int32_t mode = this->reduction_mode;
        const TermRows<2> rows = this->term_rows();
        const auto f = this->functor(weight, reduction_scale<C>(this->terms(), mode));
        if (dtarget != nullptr)
            return row_gradients(launch, mode, rows, SoftCrossEntropyTargetRows<T>{f}, inputs(input, target), inputs(dy),
                                 outputs(dinput, dtarget));
        if (dinput == nullptr) return Status::kOk;
        return row_gradients(launch, mode, rows, f, inputs(input, target), inputs(dy), outputs(dinput));
    }
};

}  // namespace bk

#if !BK_CUDA
#include "loss/soft_rows_cpu.h"
#endif
