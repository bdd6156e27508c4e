// Losses with a term for each row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "core/reduce/sum_of_terms.h"
#include "core/rows/row_terms.h"
#include "loss/class_rows.h"
#include "loss/class_weights.h"
#include "loss/flce_sums.h"
#include "loss/reduction.h"
#include "loss/vector_rows.h"

namespace bk {

template <class T, class F, class... In, class... RowIn>
Status row_loss(const Launch& launch, int32_t reduction_mode, const TermRows<sizeof...(In)>& rows, const F& f,
                const Inputs<In...>& x, const Inputs<RowIn...>& row_inputs, T* out) {
    using C = compute_t<T>;
    if (rows.rows == 0) return write_empty_loss(launch, reduction_mode, out);
    if (reduction_mode == kEachTerm) return row_terms(launch, rows, f, x, row_inputs, out, static_cast<C*>(nullptr));
    const C factor = factor_of_loss<C>(rows.rows, reduction_mode);
    if (sizeof...(RowIn) > 0 || rows.columns > 0) return sum_row_terms(launch, rows, f, x, row_inputs, factor, out);
    TermRows<sizeof...(In)> one = rows;  // rows that nothing is read of have one term, however many they are
    one.rows = one.neighbours = 1;
    return sum_row_terms(launch, one, f, x, row_inputs, factor * static_cast<C>(rows.rows), out);
}

template <class T>
size_t row_loss_workspace(int64_t rows, int32_t reduction_mode) {
    return reduction_mode == kEachTerm ? 0 : row_terms_workspace<compute_t<T>>(rows);
}

// Gradients have the strides of the first input. The last of the inputs of one value a row is dy. `saved` gets what F saves.
template <class F, class... In, class... RowIn, class... Out, class... Saved, size_t... I, size_t... R, size_t... O,
          size_t... S>
Status row_gradients(const Launch& launch, int32_t reduction_mode, const TermRows<sizeof...(In)>& rows, const F& f,
                     const Inputs<In...>& x, const Inputs<RowIn...>& row_inputs, const Outputs<Out...>& out,
                     const Outputs<Saved...>& saved, std::index_sequence<I...>, std::index_sequence<R...>,
                     std::index_sequence<O...>, std::index_sequence<S...>) {
    constexpr size_t kLast = sizeof...(R) - 1;
    RowAxes<sizeof...(In) + sizeof...(Out), sizeof...(RowIn) + sizeof...(Saved)> axes;
    const int64_t of_dy = reduction_mode == kEachTerm ? 1 : 0, beside = rows.neighbours, step = rows.column_step;
    axes.outer.append(rows.rows / beside,
                      {rows.stride[I]..., (static_cast<void>(O), rows.stride[0])...,
                       (R == kLast ? of_dy * beside : rows.row_step * beside)..., (static_cast<void>(S), beside)...});
    if (beside > 1)
        axes.outer.append(beside, {(static_cast<void>(I), 1)..., (static_cast<void>(O), 1)...,
                                   (R == kLast ? of_dy : rows.row_step)..., (static_cast<void>(S), 1)...});
    axes.inner.append(rows.columns, {(static_cast<void>(I), step)..., (static_cast<void>(O), step)...});
    return map_rows(launch, axes, f, x, inputs(), row_inputs, out, saved);
}
template <class F, class... In, class... RowIn, class... Out, class... Saved>
Status row_gradients(const Launch& launch, int32_t reduction_mode, const TermRows<sizeof...(In)>& rows, const F& f,
                     const Inputs<In...>& x, const Inputs<RowIn...>& row_inputs, const Outputs<Out...>& out,
                     const Outputs<Saved...>& saved) {
    return row_gradients(launch, reduction_mode, rows, f, x, row_inputs, out, saved, std::index_sequence_for<In...>{},
                         std::index_sequence_for<RowIn...>{}, std::index_sequence_for<Out...>{},
                         std::index_sequence_for<Saved...>{});
}
template <class F, class... In, class... RowIn, class... Out>
Status row_gradients(const Launch& launch, int32_t reduction_mode, const TermRows<sizeof...(In)>& rows, const F& f,
                     const Inputs<In...>& x, const Inputs<RowIn...>& row_inputs, const Outputs<Out...>& out) {
    return row_gradients(launch, reduction_mode, rows, f, x, row_inputs, out, outputs());
}

// The members that follow from the fields n_rows, an extent, and reduction_mode.
#define BK_ROW_LOSS(extent, ...)                                                                                      \
    Status check() const { return check_loss({{"n_rows", n_rows}, {#extent, extent}, __VA_ARGS__}, reduction_mode); } \
    Work work() const { return work_of_loss(n_rows, reduction_mode); }                                                \
    int64_t results() const { return results_of_loss(n_rows, reduction_mode); }                                       \
    size_t workspace_size() const { return row_loss_workspace<T>(n_rows, reduction_mode); }
#define BK_ROW_LOSS_BACKWARD(extent, ...)                                                                             \
    Status check() const { return check_loss({{"n_rows", n_rows}, {#extent, extent}, __VA_ARGS__}, reduction_mode); } \
    Work work() const { return n_rows == 0 || extent == 0 ? Work::kNone : Work::kAll; }                               \
    int64_t results() const { return results_of_loss(n_rows, reduction_mode); }                                       \
    compute_t<T> factor() const { return factor_of_gradient<compute_t<T>>(n_rows, reduction_mode, scale_scalar); }

// Indices as words of 32 bits, the low one and the high one, so that kernels are the same for indices of 4 bytes, whose second
// word is not looked at, and of 8.
template <class I>
constexpr int64_t kWordsOf = sizeof(I) / sizeof(int32_t);
template <class I, class... Other>
Inputs<int32_t, int32_t, Other...> words_of(const I* target, const Other*... other) {
    const int32_t* const words = reinterpret_cast<const int32_t*>(target);
    return inputs(words, words + kWordsOf<I> - 1, other...);
}

inline Status check_smoothing(double label_smoothing) {
    if (label_smoothing >= 0 && label_smoothing <= 1) return Status::kOk;
    return fail(Status::kInvalidProblem, "label_smoothing is %g, must be in [0, 1]", label_smoothing);
}

template <class T, class I>
WeightedCrossEntropyRows<T> weighted_rows(int32_t classes, int64_t ignored, const compute_t<T>* weight, double smoothing,
                                          double z) {
    using C = compute_t<T>;
    WeightedCrossEntropyRows<T> rows{{}, classes, ignored, 1};
    rows.has_high_words = sizeof(I) == 8;
    rows.weight = weight;
    rows.own = static_cast<C>(1 - smoothing);
    rows.each = static_cast<C>(smoothing / std::max(classes, 1));
    rows.penalty = static_cast<C>(z);
    return rows;
}

template <class T>
struct CrossEntropy {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_input;
    int32_t reduction_mode;

    BK_ROW_LOSS(class_extent, {"row_stride_input", row_stride_input})
    Status run(const T* input, const int64_t* target, T* out, const Launch& launch) const {
        return row_loss(launch, reduction_mode, TermRows<1>{n_rows, class_extent, {row_stride_input}},
                        CrossEntropyRows<T>{{}, class_extent, -1, 1}, inputs(input), inputs(target), out);
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
        return row_gradients(launch, reduction_mode, TermRows<1>{n_rows, class_extent, {row_stride_input}},
                             CrossEntropyRows<T>{{}, class_extent, -1, factor()}, inputs(input), inputs(target, dy),
                             outputs(dinput));
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
        return row_gradients(launch, reduction_mode, TermRows<2>{n_rows, class_extent, {row_stride_input, row_stride_target}},
                             SoftCrossEntropyRows<T>{{}, factor(), class_extent}, inputs(input, target), inputs(dy),
                             outputs(dinput));
    }
};

template <class T, class Real = float>
struct MultiMargin {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride;
    int32_t reduction_mode;
    Real margin;
    Real p_norm;

    BK_ROW_LOSS(class_extent, {"row_stride", row_stride})
    Status run(const T* input, const int64_t* target, T* out, const Launch& launch) const {
        return row_loss(
            launch, reduction_mode, TermRows<1>{n_rows, class_extent, {row_stride}},
            MultiMarginRows<T>{{}, class_extent, static_cast<compute_t<T>>(margin), static_cast<compute_t<T>>(p_norm), 1},
            inputs(input), inputs(target), out);
    }
};

template <class T, class Real = float>
struct MultiMarginBackward {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride;
    int32_t reduction_mode;
    float scale_scalar;
    Real margin;
    Real p_norm;

    BK_ROW_LOSS_BACKWARD(class_extent, {"row_stride", row_stride})
    Status run(const T* input, const int64_t* target, const T* dy, T* dinput, const Launch& launch) const {
        return row_gradients(
            launch, reduction_mode, TermRows<1>{n_rows, class_extent, {row_stride}},
            MultiMarginRows<T>{
                {}, class_extent, static_cast<compute_t<T>>(margin), static_cast<compute_t<T>>(p_norm), factor()},
            inputs(input), inputs(target, dy), outputs(dinput));
    }
};

template <class T>
struct MultilabelSoftMargin {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_in;
    int64_t row_stride_tgt;
    int32_t reduction_mode;

    BK_ROW_LOSS(class_extent, {"row_stride_in", row_stride_in}, {"row_stride_tgt", row_stride_tgt})
    Status run(const T* input, const T* target, T* out, const Launch& launch) const {
        return row_loss(launch, reduction_mode, TermRows<2>{n_rows, class_extent, {row_stride_in, row_stride_tgt}},
                        SoftMarginRows<T>{{}, class_extent}, inputs(input, target), inputs(), out);
    }
};

template <class T>
struct MultilabelSoftMarginBackward {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_in;
    int64_t row_stride_tgt;
    int32_t reduction_mode;
    float scale_scalar;

    BK_ROW_LOSS_BACKWARD(class_extent, {"row_stride_in", row_stride_in}, {"row_stride_tgt", row_stride_tgt})
    Status run(const T* input, const T* target, const T* dy, T* dinput, const Launch& launch) const {
        Layout<4> layout;
        layout.append(n_rows, {row_stride_in, row_stride_in, row_stride_tgt, reduction_mode == kEachTerm ? 1 : 0});
        layout.append(class_extent, {1, 1, 1, 0});
        const auto share = factor() / static_cast<compute_t<T>>(class_extent);
        return pointwise_strided(launch, layout, BceWithLogits::gradient<T>(share), outputs(dinput), inputs(input, target, dy));
    }
};

template <class T, class Real = float>
struct CosineEmbedding {
    int64_t n_rows;
    int32_t d_extent;
    int64_t row_stride_x;
    int32_t reduction_mode;
    Real margin;

    BK_ROW_LOSS(d_extent, {"row_stride_x", row_stride_x})
    Status run(const T* x1, const T* x2, const T* t, T* out, const Launch& launch) const {
        return row_loss(launch, reduction_mode, TermRows<2>{n_rows, d_extent, {row_stride_x, row_stride_x}},
                        CosineRows<T>{{}, static_cast<compute_t<T>>(margin), 1}, inputs(x1, x2), inputs(t), out);
    }
};

template <class T, class Real = float>
struct CosineEmbeddingBackward {
    int64_t n_rows;
    int32_t d_extent;
    int64_t row_stride_x;
    int32_t reduction_mode;
    float scale_scalar;
    Real margin;

    BK_ROW_LOSS_BACKWARD(d_extent, {"row_stride_x", row_stride_x})
    Status run(const T* x1, const T* x2, const T* t, const T* dy, T* dx1, T* dx2, const Launch& launch) const {
        if (dx1 == nullptr && dx2 == nullptr) return Status::kOk;
        return row_gradients(launch, reduction_mode, TermRows<2>{n_rows, d_extent, {row_stride_x, row_stride_x}},
                             CosineRows<T>{{}, static_cast<compute_t<T>>(margin), factor()}, inputs(x1, x2), inputs(t, dy),
                             outputs(dx1, dx2));
    }
};

template <class T, class Real = float>
struct TripletMargin {
    int64_t n_rows;
    int32_t d_extent;
    int64_t row_stride;
    int32_t reduction_mode;
    Real margin;
    Real p_norm;

    BK_ROW_LOSS(d_extent, {"row_stride", row_stride})
    Status run(const T* a, const T* p_tensor, const T* n_tensor, T* out, const Launch& launch) const {
        return row_loss(launch, reduction_mode, TermRows<3>{n_rows, d_extent, {row_stride, row_stride, row_stride}},
                        TripletRows<T>{{}, static_cast<compute_t<T>>(margin), static_cast<compute_t<T>>(p_norm), 1},
                        inputs(a, p_tensor, n_tensor), inputs(), out);
    }
};

template <class T, class Real = float>
struct TripletMarginBackward {
    int64_t n_rows;
    int32_t d_extent;
    int64_t row_stride;
    int32_t reduction_mode;
    float scale_scalar;
    Real margin;
    Real p_norm;

    BK_ROW_LOSS_BACKWARD(d_extent, {"row_stride", row_stride})
    Status run(const T* a, const T* p_tensor, const T* n_tensor, const T* dy, T* da, T* dp, T* dn, const Launch& launch) const {
        if (da == nullptr && dp == nullptr && dn == nullptr) return Status::kOk;
        return row_gradients(launch, reduction_mode, TermRows<3>{n_rows, d_extent, {row_stride, row_stride, row_stride}},
                             TripletRows<T>{{}, static_cast<compute_t<T>>(margin), static_cast<compute_t<T>>(p_norm), factor()},
                             inputs(a, p_tensor, n_tensor), inputs(dy), outputs(da, dp, dn));
    }
};

// A kernel of its own for the gradient alone would save nothing but the test of two pointers a row.
template <class T>
Status weighted_gradients(const Launch& launch, int32_t reduction_mode, const TermRows<1>& rows,
                          const WeightedCrossEntropyRows<T>& f, const T* input, const Inputs<int32_t, int32_t, T>& row_inputs,
                          T* dinput, T* each, compute_t<T>* wide) {
    return row_gradients(launch, reduction_mode, rows, f, inputs(input), row_inputs, outputs(dinput), outputs(each, wide));
}

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
    int64_t results() const { return results_of_loss(terms(), reduction_mode); }

protected:
    TermRows<1> term_rows() const {
        return {terms(), class_extent, {row_stride_input}, kWordsOf<I>, inner_extent, inner_extent};
    }
    WeightedCrossEntropyRows<T> functor(const C* weight, const double* divisor) const {
        auto rows = weighted_rows<T, I>(class_extent, ignore_index, weight, label_smoothing, z_loss);
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
            return mode == kEachTerm ? Status::kOk : write_empty_loss(launch, mode, out);
        }
        const ClassWeights<C> counted{this->class_extent, this->ignore_index, weight};
        BK_TRY(sum_of_terms(launch, this->terms(), counted, 1, inputs(target), divisor));
        return row_loss(launch, mode == kMeanOfTerms ? kSumOfTerms : mode, this->term_rows(), this->functor(weight, divisor),
                        inputs(input), words_of(target), out);
    }
};

// divisor is that of the forward op; only the gradient of the mean reads it.
template <class I, class T>
struct WeightedCrossEntropyBackward : WeightedCrossEntropyBase<I, T> {
    using typename WeightedCrossEntropyBase<I, T>::C;

    Work work() const { return this->terms() == 0 || this->class_extent == 0 ? Work::kNone : Work::kAll; }
    Status run(const T* input, const I* target, const C* weight, const double* divisor, const T* dy, T* dinput,
               const Launch& launch) const {
        return weighted_gradients<T>(launch, this->reduction_mode, this->term_rows(), this->functor(weight, divisor), input,
                                     words_of(target, dy), dinput, nullptr, nullptr);
    }
};

// The loss and its gradient. Logits are read once, but for a mean or sum without a workspace, in which the terms lie.
template <class I, class T>
struct CrossEntropyWithGradient : WeightedCrossEntropyBase<I, T> {
    using typename WeightedCrossEntropyBase<I, T>::C;

    Work work() const { return this->terms() == 0 ? Work::kZeros : Work::kAll; }
    bool is_each() const { return this->reduction_mode == kEachTerm; }
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
        bool found = false;
        BK_TRY(find_workspace(launch, workspace_size(), &found));
        const ClassWeights<C> counted{this->class_extent, this->ignore_index, weight};
        BK_TRY(sum_of_terms(launch, this->terms(), counted, 1, inputs(target), divisor));
        const TermRows<1> rows = this->term_rows();
        auto f = this->functor(weight, divisor);
        f.has_dy = dy != nullptr;
        const Launch bare{nullptr, 0, launch.stream};
        if (!found && !is_each()) BK_TRY(row_loss(bare, kSumOfTerms, rows, f, inputs(input), words_of(target), out));
        Carver carver(launch.workspace);
        C* const terms = found && !is_each() ? carver.take<C>(this->terms()) : nullptr;  // the order of sums follows alignments
        BK_TRY(
            weighted_gradients<T>(bare, mode, rows, f, input, words_of(target, dy), dinput, is_each() ? out : nullptr, terms));
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
    int64_t results() const { return results_of_loss(terms(), reduction_mode); }

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
        const auto f = this->functor(weight, factor_of_loss<C>(this->terms(), mode));
        if (dtarget != nullptr)
            return row_gradients(launch, mode, rows, SoftCrossEntropyTargetRows<T>{f}, inputs(input, target), inputs(dy),
                                 outputs(dinput, dtarget));
        if (dinput == nullptr) return Status::kOk;
        return row_gradients(launch, mode, rows, f, inputs(input, target), inputs(dy), outputs(dinput));
    }
};

#undef BK_ROW_LOSS
#undef BK_ROW_LOSS_BACKWARD

}  // namespace bk
