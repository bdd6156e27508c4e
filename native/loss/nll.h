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
#include "loss/reduction.h"

namespace bk {

// -input[row, target], 0 for a target outside the classes. A loop may ask for rows behind the last, whose results it drops.
template <class T>
struct NllTerm {
    using C = compute_t<T>;
    const T* input;
    int64_t rows, stride, classes;

    BK_HD C of(int64_t row, int64_t target) const {
        return row < rows && target >= 0 && target < classes ? -widen(input[row * stride + target]) : C(0);
    }

    struct Piece {
        static constexpr bool has_rare = false;
        const NllTerm& fn;
        int64_t first, count;
        BK_HD C operator()(int64_t k, int64_t target) const { return fn.of(first + k, target); }
    };
    BK_HD Piece at(int64_t row) const { return {*this, row, INT64_MAX}; }
};

// Of an array in which a row begins every `stride` elements: -dy at each target, 0 elsewhere.
template <class T>
struct NllGradient {
    using C = compute_t<T>;
    const T* dy;
    const int64_t* target;
    int64_t rows, classes, dy_step;
    FastDiv<uint64_t> stride;
    C factor;

    struct Piece {
        static constexpr bool has_rare = false;
        int64_t count, place;  // of the target, from the first element
        C slope;
        BK_HD C operator()(int64_t k) const { return k == place ? slope : C(0); }
    };
    BK_HD Piece at(int64_t i) const {
        const DivMod<uint64_t> split = stride(static_cast<uint64_t>(i));
        const int64_t row = static_cast<int64_t>(split.quotient), column = static_cast<int64_t>(split.remainder);
        if (row >= rows) return {INT64_MAX, -1, C(0)};
        const int64_t count = static_cast<int64_t>(stride.divisor()) - column, index = target[row];
        const bool valid = index >= column && index < classes;
        return {count, valid ? index - column : -1, valid ? -widen(dy[row * dy_step]) * factor : C(0)};
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
    int64_t results() const { return results_of_loss(n_rows, reduction_mode); }
    size_t workspace_size() const {
        return reduction_mode == kEachTerm ? 0 : sum_of_terms_workspace<T, NllTerm<T>, int64_t>(n_rows);
    }
    Status run(const T* input, const int64_t* target, T* out, const Launch& launch) const {
        if (n_rows == 0) return write_empty_loss(launch, reduction_mode, out);
        const NllTerm<T> term{input, n_rows, row_stride_input, class_extent};
        if (reduction_mode == kEachTerm) return pointwise(launch, n_rows, term, outputs(out), inputs(target));
        return sum_of_terms(launch, n_rows, term, divisor_of_loss(n_rows, reduction_mode), inputs(target), out);
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
    Work work() const { return n_rows == 0 || dinput_numel == 0 ? Work::kNone : Work::kAll; }
    int64_t results() const { return results_of_loss(n_rows, reduction_mode); }
    Status run(const T* dy, const int64_t* target, T* dinput, const Launch& launch) const {
        // A single row may have any stride.
        const int64_t stride = n_rows == 1 ? dinput_numel : row_stride_input;
        const auto factor = factor_of_gradient<compute_t<T>>(n_rows, reduction_mode, scale_scalar);
        const NllGradient<T> fn{dy,
                                target,
                                n_rows,
                                class_extent,
                                reduction_mode == kEachTerm ? 1 : 0,
                                FastDiv<uint64_t>(std::max<int64_t>(stride, 1)),
                                factor};
        return pointwise(launch, dinput_numel, fn, outputs(dinput), inputs());
    }
};

}  // namespace bk
