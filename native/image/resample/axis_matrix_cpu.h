// SPDX-License-Identifier: Apache-2.0
// Tables of the matrix of one axis (sample_axis.h, filter_table.h) for loops over rows of results: made once for adjacent
// results, and read for all images.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/platform.h"
#include "image/resample/filter_table.h"
#include "image/resample/sample_axis.h"

namespace bk::image {

// A matrix of weights, or its transpose; without an axis and a table the identity.
template <class Weight>
struct AxisMatrix {
    const SampleAxis* sample = nullptr;
    const FilterTable<Weight>* filter = nullptr;
    bool is_adjoint = false;

    bool is_identity() const { return sample == nullptr && filter == nullptr; }
    // Inputs of result `own`.
    Window window(int64_t own) const {
        if (sample != nullptr) return is_adjoint ? sample->column(own) : sample->row(own);
        if (filter == nullptr) return {own, own + 1};
        if (is_adjoint) return {filter->column_first[own], filter->column_end[own]};
        return {filter->first[own], int64_t{filter->first[own]} + filter->count[own]};
    }
    BK_COLD Weight weight(int64_t own, int64_t other) const {
        const int64_t row = is_adjoint ? other : own, column = is_adjoint ? own : other;
        if constexpr (!std::is_same_v<Weight, int32_t>)
            if (sample != nullptr) return sample->template weight<Weight>(row, column);
        return filter == nullptr ? Weight(1) : filter->weight[(column - filter->first[row]) * filter->rows + row];
    }
};

// Windows and weights of adjacent results along y or z.
template <class Weight>
class RowWeights {
public:
    explicit RowWeights(const AxisMatrix<Weight>& matrix) : matrix_(matrix) {}

    struct Row {
        int64_t own;
        Window window;
        const Weight* stored;  // null for a window that is too wide to be stored
        const AxisMatrix<Weight>* matrix;

        BK_HD Weight weight(int64_t other) const {
            return stored != nullptr ? stored[other - window.first] : matrix->weight(own, other);
        }
    };
    BK_HD Row row(int64_t own, int64_t extent) {
        if (own < begin_ || own >= end_) fill(own, extent);
        const int64_t at = own - begin_;
        return {own, window_[at], is_stored_ ? weight_ + start_[at] : nullptr, &matrix_};
    }

private:
    static constexpr int kRows = 64, kEntries = 256;

    BK_COLD void fill(int64_t begin, int64_t extent) {
        int32_t used = 0;
        begin_ = end_ = begin;
        is_stored_ = true;
        for (; end_ < extent && end_ - begin < kRows; ++end_) {
            const Window window = matrix_.window(end_);
            const int64_t count = window.end - window.first;
            if (count > kEntries - used) break;
            window_[end_ - begin] = window;
            start_[end_ - begin] = used;
            for (int64_t k = 0; k < count; ++k) weight_[used++] = matrix_.weight(end_, window.first + k);
        }
        if (end_ > begin) return;
        is_stored_ = false;
        window_[0] = matrix_.window(end_++);
    }

    const AxisMatrix<Weight> matrix_;
    int64_t begin_ = 0, end_ = 0;
    bool is_stored_ = false;
    int32_t start_[kRows];
    Window window_[kRows];
    Weight weight_[kEntries];
};

// Indices and weights of adjacent results along x, tap by tap: those of tap t begin at t * count().
template <class Weight>
class ColumnWeights {
public:
    static constexpr int kEntries = 2048 / static_cast<int>(sizeof(Weight));
    ColumnWeights(const AxisMatrix<Weight>& matrix, int64_t extent, int channels)
        : matrix_(matrix), extent_(extent), channels_(channels) {}

    // Each position has adjacent elements of `channels` channels.
    BK_HD int64_t begin() const { return begin_; }
    BK_HD int64_t end() const { return end_; }
    BK_HD int32_t count() const { return count_; }
    BK_HD int32_t taps() const { return taps_; }
    // Whether the window of the only position is too wide to be stored.
    BK_HD bool is_wide() const { return taps_ * int64_t{count_} > kEntries; }
    BK_HD Window window() const { return window_; }
    BK_HD const AxisMatrix<Weight>& matrix() const { return matrix_; }
    BK_HD const int32_t* index(int32_t tap) const { return index_ + int64_t{tap} * count_; }  // negative: no element
    BK_HD const Weight* weight(int32_t tap) const { return weight_ + int64_t{tap} * count_; }

    BK_COLD void fill(int64_t begin) {
        int64_t most = 0, end = begin;
        Window windows[kEntries];
        for (; end < extent_; ++end) {
            const Window window = matrix_.window(end);
            const int64_t taps = std::max(most, window.end - window.first);
            if (end > begin && std::max<int64_t>(taps, 1) * (end - begin + 1) * channels_ > kEntries) break;
            most = taps;
            windows[end - begin] = window;
        }
        begin_ = begin, end_ = end;
        taps_ = static_cast<int32_t>(most);
        count_ = static_cast<int32_t>((end - begin) * channels_);
        window_ = matrix_.window(begin);
        if (is_wide()) return;
        for (int64_t own = begin; own < end; ++own)
            for (int64_t tap = 0; tap < most; ++tap) {
                const Window window = windows[own - begin];
                const int64_t other = window.first + tap;
                const bool has = other < window.end;
                const Weight weight = has ? matrix_.weight(own, other) : Weight(0);
                const bool counts = has && (matrix_.sample == nullptr || weight != Weight(0));
                for (int channel = 0; channel < channels_; ++channel) {
                    const int64_t entry = tap * count_ + (own - begin) * channels_ + channel;
                    index_[entry] = counts ? static_cast<int32_t>(other * channels_ + channel) : -1;
                    weight_[entry] = weight;
                }
            }
    }

private:
    const AxisMatrix<Weight> matrix_;
    const int64_t extent_;
    const int channels_;
    int64_t begin_ = 0, end_ = 0;
    int32_t taps_ = 0, count_ = 0;
    Window window_{};
    int32_t index_[kEntries];
    Weight weight_[kEntries];
};

}  // namespace bk::image
