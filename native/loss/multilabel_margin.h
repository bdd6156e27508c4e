// Margins between the classes that a row lists and those that it does not: the mean over the classes of the sum, over listed j
// and unlisted i, of max(0, 1 - x[j] + x[i]). A list ends before its first negative label or with the row; a label that is no
// class is skipped, and one that stands there twice counts twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/pointwise/pointwise.h"
#include "core/rows/team.h"
#include "loss/margin.h"
#include "loss/reduction.h"

namespace bk {

// Labels of 4 or of 8 bytes, by one kernel.
struct Labels {
    const void* data;
    bool is_wide;

    template <class I>
    static Labels of(const I* data) {
        return {data, sizeof(I) == 8};
    }
    BK_HD int64_t at(int64_t i) const {
        return is_wide ? static_cast<const int64_t*>(data)[i] : int64_t{static_cast<const int32_t*>(data)[i]};
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

// Of rows [first, first + count), each its term, or their sum where `total` is there.
template <class T>
struct MultilabelMarginTerms {
    using C = compute_t<T>;
    const T* input;
    Labels target;
    int64_t stride_in, stride_tgt, rows_of_item, rows;
    int32_t classes;
    C factor;
    T* out;
    C* part;  // of each item; null where `out` has it

    BK_HD C term(const Team& team, int64_t row) const {
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
        for (int64_t row = item * rows_of_item; row < (item + 1) * rows_of_item && row < rows; ++row) sum += term(team, row);
        if (team.rank != 0) return;
        if (part != nullptr)
            part[item] = sum;
        else
            out[item] = narrow<T>(sum * factor);
    }
};

// The sum of the parts.
template <class T>
struct PartsSum {
    using C = compute_t<T>;
    const C* part;
    int64_t count;
    C factor;
    T* out;
    BK_HD void operator()(const Team& team, int64_t) const {
        C sum = 0;
        for (int64_t i = team.rank; i < count; i += team.size) sum += part[i];
        sum = team.sum(sum);
        if (team.rank == 0) *out = narrow<T>(sum * factor);
    }
};

// An unlisted class gets one for each listed one that it comes closer than 1 to, a listed one gets minus one for each time and
// unlisted class. Cells hold which classes are listed until their gradients are known: those of listed ones are never +0,
// which marks the others.
template <class T>
struct MultilabelMarginSlopes {
    using C = compute_t<T>;
    const T *input, *dy;
    Labels target;
    int64_t stride_in, stride_tgt, dy_step;
    int32_t classes;
    C factor;
    T* dinput;

    static BK_HD bool is_unlisted(T cell) { return bit_cast<bits_t<T>>(cell) == 0; }

    BK_HD void operator()(const Team& team, int64_t row) const {
        const T* const x = input + row * stride_in;
        T* const cell = dinput + row * stride_in;
        const LabelList list = LabelList::of(target, row * stride_tgt, classes);
        const C s = widen(dy[row * dy_step]) * factor / static_cast<C>(classes);
        for (int32_t i = team.rank; i < classes; i += team.size) cell[i] = narrow<T>(C(0));
        team.sync();
        for (int32_t j = team.rank; j < list.length; j += team.size)
            if (list.is_class(j)) cell[list.at(j)] = narrow<T>(C(1));
        team.sync();
        for (int32_t j = 0; j < list.length; ++j) {
            if (!list.is_class(j)) continue;
            const C own = widen(x[list.at(j)]);
            C closer = 0;
            for (int32_t i = team.rank; i < classes; i += team.size)
                if (is_unlisted(cell[i]) && C(1) - own + widen(x[i]) > C(0)) closer += 1;
            closer = team.sum(closer);
            if (team.rank == 0) {
                C times = 0;
                for (int32_t k = 0; k < list.length; ++k) times += list.at(k) == list.at(j) ? C(1) : C(0);
                const T slope = narrow<T>(-closer * times * s);
                cell[list.at(j)] = is_unlisted(slope) ? narrow<T>(-C(0)) : slope;
            }
            team.sync();
        }
        for (int32_t i = team.rank; i < classes; i += team.size) {
            if (!is_unlisted(cell[i])) continue;
            C active = 0;
            for (int32_t j = 0; j < list.length; ++j)
                if (list.is_class(j) && C(1) - widen(x[list.at(j)]) + widen(x[i]) > C(0)) active += 1;
            cell[i] = narrow<T>(active * s);
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

    static constexpr int64_t kMostParts = 4096;

    Status check() const {
        return check_loss({{"n_rows", n_rows},
                           {"class_extent", class_extent},
                           {"row_stride_in", row_stride_in},
                           {"row_stride_tgt", row_stride_tgt}},
                          reduction_mode);
    }
    Work work() const { return work_of_loss(n_rows, reduction_mode); }
    int64_t results() const { return loss_numel(n_rows, reduction_mode); }
    // Rows share parts, so that what holds a value of T for each row holds the parts.
    int64_t rows_of_part() const { return n_rows < 4 * kMostParts ? 4 : ceil_div(n_rows, kMostParts); }
    int64_t parts() const { return ceil_div(n_rows, rows_of_part()); }
    size_t workspace_size() const {
        if (reduction_mode == kReductionNone || n_rows < 8) return 0;
        const int64_t most = std::min(ceil_div<int64_t>(n_rows, 4), kMostParts);  // of as many rows, or fewer
        return static_cast<size_t>(most + 1) * sizeof(compute_t<T>) - 1;
    }
    Status run(const T* input, const I* target, T* out, const Launch& launch) const {
        using C = compute_t<T>;
        if (n_rows == 0) return write_empty_loss(launch, reduction_mode, out);
        MultilabelMarginTerms<T> terms{
            input, Labels::of(target), row_stride_in, row_stride_tgt, 1, n_rows, class_extent, 1, out, nullptr};
        const int64_t bytes = int64_t{class_extent} * 64;
        if (reduction_mode == kReductionNone) return run_teams(launch, n_rows, bytes, terms);
        const C factor = reduction_scale<C>(n_rows, reduction_mode);
        if (class_extent == 0) {  // rows that nothing is read of have one term, however many they are
            terms.factor = factor * static_cast<C>(n_rows);
            return run_teams(launch, 1, bytes, terms);
        }
        terms.part = workspace_size() == 0 ? nullptr : workspace_array<C>(launch, parts());
        if (terms.part == nullptr) {  // one team takes row after row
            terms.rows_of_item = n_rows;
            terms.factor = factor;
            return run_teams(launch, 1, bytes, terms);
        }
        terms.rows_of_item = rows_of_part();
        BK_TRY(run_teams(launch, parts(), bytes, terms));
        return run_teams(launch, 1, 4096, PartsSum<T>{terms.part, parts(), factor, out});
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
        const auto factor = backward_scale<compute_t<T>>(n_rows, reduction_mode, scale_scalar);
        return run_teams(launch, n_rows, int64_t{class_extent} * 64,
                         MultilabelMarginSlopes<T>{input, dy, Labels::of(target), row_stride_in, row_stride_tgt,
                                                   reduction_mode == kReductionNone ? 1 : 0, class_extent, factor, dinput});
    }
};

}  // namespace bk
