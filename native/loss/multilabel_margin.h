// SPDX-License-Identifier: Apache-2.0
// Multi-label margin loss: 1 / classes times the sum, over listed classes j and unlisted i, of max(0, 1 - x[j] + x[i]).
//
// A row's list of labels ends before the first negative one; labels >= classes are skipped, duplicates count again. A
// team (a block, or a CPU thread) computes a row in O(classes * labels) time, without memory for a set of labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/collectives/team.h"
#include "core/pointwise/pointwise.h"
#include "loss/margin.h"
#include "loss/reduction.h"

namespace bk {

// Labels of i32 or i64, told apart at run time: one kernel for both.
struct Labels {
    const void* data;
    bool is_int64;

    template <class I>
    static Labels of(const I* data) {
        return {data, sizeof(I) == 8};
    }
    BK_HD int64_t at(int64_t i) const {
        return is_int64 ? static_cast<const int64_t*>(data)[i] : int64_t{static_cast<const int32_t*>(data)[i]};
    }
};

struct LabelList {
    Labels labels;
    int64_t first;
    int32_t classes, length;

    static BK_HD LabelList of(const Labels& labels, int64_t first, int32_t classes) {
        LabelList list{labels, first, classes, 0};
        while (list.length < classes && list.at(list.length) >= 0) ++list.length;
        return list;
    }
    BK_HD int64_t at(int32_t j) const { return labels.at(first + j); }
    BK_HD bool is_class(int32_t j) const { return at(j) < classes; }
    BK_HD bool has(int64_t i) const {
        for (int32_t j = 0; j < length; ++j)
            if (at(j) == i) return true;
        return false;
    }
};

// Item i sums the losses of rows_per_item rows from i * rows_per_item on.
template <class T>
struct MultilabelMarginForward {
    using C = compute_t<T>;
    const T* input;
    Labels target;
    int64_t stride_in, stride_tgt, rows_per_item, rows;
    int32_t classes;
    C scale;
    T* out;
    C* partials;  // sums of the items; null: scale * sum goes to `out`

    BK_HD C row_loss(const Team& team, int64_t row) const {
        const T* const x = input + row * stride_in;
        const LabelList list = LabelList::of(target, row * stride_tgt, classes);
        C sum = 0;
        for (int32_t i = team.rank; i < classes; i += team.size) {
            if (list.has(i)) continue;
            const C above = C(1) + widen(x[i]);
            for (int32_t j = 0; j < list.length; ++j)
                if (list.is_class(j)) sum += positive_part(above - widen(x[list.at(j)]));
        }
        return team.sum(sum) / static_cast<C>(classes > 0 ? classes : 1);
    }
    BK_HD void operator()(const Team& team, int64_t item) const {
        C sum = 0;
        for (int64_t row = item * rows_per_item; row < (item + 1) * rows_per_item && row < rows; ++row)
            sum += row_loss(team, row);
        if (team.rank != 0) return;
        if (partials != nullptr)
            partials[item] = sum;
        else
            out[item] = narrow<T>(sum * scale);
    }
};

// out = scale * sum of the partials.
template <class T>
struct SumPartials {
    using C = compute_t<T>;
    const C* partials;
    int64_t count;
    C scale;
    T* out;
    BK_HD void operator()(const Team& team, int64_t) const {
        C sum = 0;
        for (int64_t i = team.rank; i < count; i += team.size) sum += partials[i];
        sum = team.sum(sum);
        if (team.rank == 0) *out = narrow<T>(sum * scale);
    }
};

// Violations, pairs of a listed j and an unlisted i with 1 - x[j] + x[i] > 0, add dy / classes to dx[i] and subtract it
// from dx[j]. dx marks unlisted classes by +0 until they get their gradient: that of a listed class is never +0.
template <class T>
struct MultilabelMarginGradient {
    using C = compute_t<T>;
    const T *input, *dy;
    Labels target;
    int64_t stride_in, stride_tgt, dy_step;
    int32_t classes;
    C grad_scale;
    T* dinput;

    static BK_HD bool is_unlisted(T dx) { return bit_cast<bits_t<T>>(dx) == 0; }

    BK_HD void operator()(const Team& team, int64_t row) const {
        const T* const x = input + row * stride_in;
        T* const dx = dinput + row * stride_in;
        const LabelList list = LabelList::of(target, row * stride_tgt, classes);
        const C scaled_dy = widen(dy[row * dy_step]) * grad_scale / static_cast<C>(classes);
        for (int32_t i = team.rank; i < classes; i += team.size) dx[i] = narrow<T>(C(0));
        team.sync();
        for (int32_t j = team.rank; j < list.length; j += team.size)
            if (list.is_class(j)) dx[list.at(j)] = narrow<T>(C(1));
        team.sync();
        for (int32_t j = 0; j < list.length; ++j) {
            if (!list.is_class(j)) continue;
            const C x_listed = widen(x[list.at(j)]);
            C violations = 0;
            for (int32_t i = team.rank; i < classes; i += team.size)
                if (is_unlisted(dx[i]) && C(1) - x_listed + widen(x[i]) > C(0)) violations += 1;
            violations = team.sum(violations);
            if (team.rank == 0) {
                C multiplicity = 0;
                for (int32_t k = 0; k < list.length; ++k) multiplicity += list.at(k) == list.at(j) ? C(1) : C(0);
                const T grad = narrow<T>(-violations * multiplicity * scaled_dy);
                dx[list.at(j)] = is_unlisted(grad) ? narrow<T>(-C(0)) : grad;
            }
            team.sync();
        }
        for (int32_t i = team.rank; i < classes; i += team.size) {
            if (!is_unlisted(dx[i])) continue;
            C violations = 0;
            for (int32_t j = 0; j < list.length; ++j)
                if (list.is_class(j) && C(1) - widen(x[list.at(j)]) + widen(x[i]) > C(0)) violations += 1;
            dx[i] = narrow<T>(violations * scaled_dy);
        }
    }
};

template <class T, class I = int64_t>
struct MultilabelMargin {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_in;
    int64_t row_stride_tgt;
    int32_t reduction_mode;

    static constexpr int64_t kMaxPartials = 4096;

    Status check() const {
        return check_loss({{"n_rows", n_rows},
                           {"class_extent", class_extent},
                           {"row_stride_in", row_stride_in},
                           {"row_stride_tgt", row_stride_tgt}},
                          reduction_mode);
    }
    Work work() const { return work_of_loss(n_rows, reduction_mode); }
    int64_t results() const { return loss_numel(n_rows, reduction_mode); }
    // At least 4 rows share a partial sum: the partials then fit into the memory of one T per row.
    int64_t rows_per_partial() const { return n_rows < 4 * kMaxPartials ? 4 : ceil_div(n_rows, kMaxPartials); }
    int64_t num_partials() const { return ceil_div(n_rows, rows_per_partial()); }
    size_t workspace_size() const {
        if (reduction_mode == kReductionNone || n_rows < 8) return 0;
        const int64_t max_partials = std::min(ceil_div<int64_t>(n_rows, 4), kMaxPartials);  // for n_rows or fewer
        return static_cast<size_t>(max_partials + 1) * sizeof(compute_t<T>) - 1;
    }
    Status run(const T* input, const I* target, T* out, const Launch& launch) const {
        using C = compute_t<T>;
        if (n_rows == 0) return write_empty_loss(launch, reduction_mode, out);
        MultilabelMarginForward<T> forward{
            input, Labels::of(target), row_stride_in, row_stride_tgt, 1, n_rows, class_extent, 1, out, nullptr};
        const int64_t bytes = int64_t{class_extent} * 64;
        if (reduction_mode == kReductionNone) return run_teams(launch, n_rows, bytes, forward);
        const C scale = reduction_scale<C>(n_rows, reduction_mode);
        if (class_extent == 0) {  // empty rows all have the same loss: one row, scaled
            forward.scale = scale * static_cast<C>(n_rows);
            return run_teams(launch, 1, bytes, forward);
        }
        forward.partials = workspace_size() == 0 ? nullptr : workspace_array<C>(launch, num_partials());
        if (forward.partials == nullptr) {  // no workspace: one team computes all rows
            forward.rows_per_item = n_rows;
            forward.scale = scale;
            return run_teams(launch, 1, bytes, forward);
        }
        forward.rows_per_item = rows_per_partial();
        BK_TRY(run_teams(launch, num_partials(), bytes, forward));
        return run_teams(launch, 1, 4096, SumPartials<T>{forward.partials, num_partials(), scale, out});
    }
};

template <class T, class I = int64_t>
struct MultilabelMarginBackward {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_in;
    int64_t row_stride_tgt;
    int32_t reduction_mode;
    float scale_scalar;

    Status check() const {
        return check_loss({{"n_rows", n_rows},
                           {"class_extent", class_extent},
                           {"row_stride_in", row_stride_in},
                           {"row_stride_tgt", row_stride_tgt}},
                          reduction_mode);
    }
    Work work() const { return n_rows == 0 || class_extent == 0 ? Work::kNone : Work::kAll; }
    int64_t results() const { return loss_numel(n_rows, reduction_mode); }
    Status run(const T* input, const I* target, const T* dy, T* dinput, const Launch& launch) const {
        const auto grad_scale = backward_scale<compute_t<T>>(n_rows, reduction_mode, scale_scalar);
        return run_teams(
            launch, n_rows, int64_t{class_extent} * 64,
            MultilabelMarginGradient<T>{input, dy, Labels::of(target), row_stride_in, row_stride_tgt,
                                        reduction_mode == kReductionNone ? 1 : 0, class_extent, grad_scale, dinput});
    }
};

}  // namespace bk
