// The negative of the element of each row that its target names, and the gradient.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "core/pointwise/pointwise.h"
#include "core/reduce/sum_of_terms.h"
#include "loss/class_weights.h"
#include "loss/reduction.h"

namespace bk {

// -input[row, target] with the weight of the target, 0 for one that does not count. Rows lie side by side, `inner` of them in
// each item. A loop may ask for rows behind the last, whose results it drops.
template <class T>
struct NllTerm {
    using C = compute_t<T>;
    const T* input;
    int64_t rows, stride;  // from item to item
    ClassWeights<C> weights;
    FastDiv<uint64_t> inner;

    struct Piece {
        static constexpr bool has_rare = false;
        const T* input;
        int64_t rows, step, class_step;  // from row to row, and from class to class
        const ClassWeights<C>& weights;
        C share;
        int64_t count;
        BK_HD C operator()(int64_t k, int64_t target) const {
            const bool counts = k < rows && weights.counts(target);
            return counts ? -widen(input[k * step + target * class_step]) * (weights.of(target) * share) : C(0) * share;
        }
    };
    BK_HD Piece at(int64_t row) const {
        const C share = weights.share();
        const int64_t beside = static_cast<int64_t>(inner.divisor());
        if (beside == 1) return {input + row * stride, rows - row, stride, 1, weights, share, INT64_MAX};
        const DivMod<uint64_t> split = inner(static_cast<uint64_t>(row));
        const int64_t item = static_cast<int64_t>(split.quotient), within = static_cast<int64_t>(split.remainder);
        const int64_t count = row < rows ? beside - within : 0;
        return {input + item * stride + within, count, 1, beside, weights, share, count > 0 ? count : INT64_MAX};
    }
};

// Of an array in which an item begins every `stride` elements: -dy at each target, times its weight, 0 elsewhere.
template <class T, class I>
struct NllGradient {
    using C = compute_t<T>;
    const T* dy;
    const I* target;
    int64_t items, dy_step;
    ClassWeights<C> weights;
    FastDiv<uint64_t> stride, inner;
    C factor;

    BK_HD C slope_of(int64_t row, int64_t index) const {
        return -widen(dy[row * dy_step]) * (factor * weights.share() * weights.of(index));
    }

    struct Piece {
        static constexpr bool has_rare = false;
        int64_t count, place;  // of the target, from the first element
        C slope;
        const NllGradient* fn;
        int64_t row, label;  // of an item of rows side by side, in one class
        BK_HD C operator()(int64_t k) const {
            if (fn == nullptr) return k == place ? slope : C(0);
            const int64_t at = row + (k < count ? k : 0);
            return fn->target[at] == label ? fn->slope_of(at, label) : C(0);
        }
    };
    BK_HD Piece at(int64_t i) const {
        const DivMod<uint64_t> split = stride(static_cast<uint64_t>(i));
        const int64_t item = static_cast<int64_t>(split.quotient), column = static_cast<int64_t>(split.remainder);
        if (item >= items) return {INT64_MAX, -1, C(0), nullptr, 0, 0};
        const int64_t rest = static_cast<int64_t>(stride.divisor()) - column, beside = static_cast<int64_t>(inner.divisor());
        if (beside == 1) {
            const int64_t index = target[item];
            const bool is_here = index >= column && weights.counts(index);
            return {rest, is_here ? index - column : -1, is_here ? slope_of(item, index) : C(0), nullptr, 0, 0};
        }
        const DivMod<uint64_t> cell = inner(static_cast<uint64_t>(column));
        const int64_t label = static_cast<int64_t>(cell.quotient), within = static_cast<int64_t>(cell.remainder);
        if (!weights.counts(label)) return {beside - within, -1, C(0), nullptr, 0, 0};
        return {beside - within, -1, C(0), this, item * beside + within, label};
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
        return reduction_mode == kReductionNone ? 0 : sum_of_terms_workspace<T, NllTerm<T>, int64_t>(n_rows);
    }
    Status run(const T* input, const int64_t* target, T* out, const Launch& launch) const {
        if (n_rows == 0) return write_empty_loss(launch, reduction_mode, out);
        const NllTerm<T> term{input, n_rows, row_stride_input, {class_extent, -1}, FastDiv<uint64_t>(1)};
        if (reduction_mode == kReductionNone) return pointwise(launch, n_rows, term, outputs(out), inputs(target));
        return sum_of_terms(launch, n_rows, term, reduction_divisor(n_rows, reduction_mode), inputs(target), out);
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
        int64_t reach = 0;
        const bool fits = n_rows == 0 || class_extent == 0 ||
                          (!__builtin_mul_overflow(n_rows - 1, row_stride_input, &reach) &&
                           !__builtin_add_overflow(reach, int64_t{class_extent}, &reach) && reach <= dinput_numel);
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
        const auto factor = backward_scale<compute_t<T>>(n_rows, reduction_mode, scale_scalar);
        const NllGradient<T, int64_t> fn{dy,
                                         target,
                                         n_rows,
                                         reduction_mode == kReductionNone ? 1 : 0,
                                         {class_extent, -1},
                                         FastDiv<uint64_t>(std::max<int64_t>(stride, 1)),
                                         FastDiv<uint64_t>(1),
                                         factor};
        return pointwise(launch, dinput_numel, fn, outputs(dinput), inputs());
    }
};

// Of items of class_extent elements for each of inner_extent places, which lie side by side: [N, C, d...]; with weights of the
// classes and an index that is ignored. divisor[0] is the sum of the weights of the rows that count.
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
    int64_t terms() const { return terms_of_items(n_rows, inner_extent); }
    int64_t results() const { return loss_numel(terms(), reduction_mode); }

protected:
    int64_t item() const { return class_extent * inner_extent; }
    ClassWeights<C> weights(const C* weight, const double* divisor) const {
        return {class_extent, ignore_index, weight, reduction_mode == kMeanOfTerms ? divisor : nullptr};
    }
};

template <class I, class T>
struct WeightedNll : WeightedNllBase<I, T> {
    using typename WeightedNllBase<I, T>::C;

    Work work() const { return this->terms() == 0 ? Work::kZeros : Work::kAll; }
    size_t workspace_size() const {
        const int64_t terms = this->terms();
        if (terms == 0) return 0;
        const size_t of_divisor = sum_of_terms_workspace<double, ClassWeights<C>, I>(terms);
        return this->reduction_mode == kReductionNone ? of_divisor
                                                      : std::max(of_divisor, sum_of_terms_workspace<T, NllTerm<T>, I>(terms));
    }
    Status run(const T* input, const I* target, const C* weight, T* out, double* divisor, const Launch& launch) const {
        const int64_t terms = this->terms();
        if (terms == 0) {
            BK_TRY(write_zeros(launch, 1, divisor));
            return this->reduction_mode == kReductionNone ? Status::kOk : write_empty_loss(launch, this->reduction_mode, out);
        }
        BK_TRY(sum_of_terms(launch, terms, ClassWeights<C>{this->class_extent, this->ignore_index, weight}, 1, inputs(target),
                            divisor));
        const NllTerm<T> term{input, terms, this->item(), this->weights(weight, divisor),
                              FastDiv<uint64_t>(static_cast<uint64_t>(this->inner_extent))};
        if (this->reduction_mode == kReductionNone) return pointwise(launch, terms, term, outputs(out), inputs(target));
        return sum_of_terms(launch, terms, term, 1, inputs(target), out);
    }
};

// divisor is that of the forward op; only the gradient of the mean reads it.
template <class I, class T>
struct WeightedNllBackward : WeightedNllBase<I, T> {
    using typename WeightedNllBase<I, T>::C;

    Work work() const { return this->terms() == 0 || this->class_extent == 0 ? Work::kNone : Work::kAll; }
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
