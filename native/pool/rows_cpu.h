// SPDX-License-Identifier: Apache-2.0
// A row of windows of one plane on the CPU: the rows of cells are reduced into a row of columns, vectorised over them, then
// the columns of each window. Columns outside of the image are identities, so that no window has a special case.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/compiler_cpu.h"
#include "core/platform.h"
#include "pool/operators.h"

namespace bk::pool {

constexpr int kColumns = 512;      // of a chunk
constexpr int kChannels = 128;     // of a chunk of adjacent channels
constexpr int kLeastChannels = 8;  // for loops over channels; planes are separate below

// A task: a row of windows or of cells of a plane, or of all channels.
struct RowAt {
    int64_t n, c;  // c is 0 if the task has all channels
    int32_t a, b;

    BK_HD static RowAt of(int64_t task, int64_t channels, int32_t rows_a, int32_t rows_b) {
        const int64_t plane = task / (int64_t{rows_a} * rows_b), row = task % (int64_t{rows_a} * rows_b);
        return {plane / channels, plane % channels, static_cast<int32_t>(row / rows_b), static_cast<int32_t>(row % rows_b)};
    }
};

// Lanes as arrays.
template <class Op, int N>
struct LaneArrays {
    using Lane = typename Op::Lane;
    alignas(64) typename Op::C value[N];
    alignas(64) int32_t at[Op::kHasPosition ? N : 1];

    BK_HD Lane load(int64_t i) const {
        if constexpr (Op::kHasPosition)
            return {value[i], at[i]};
        else
            return {value[i]};
    }
    BK_HD void store(int64_t i, const Lane& lane) {
        value[i] = lane.value;
        if constexpr (Op::kHasPosition) at[i] = lane.at;
    }
    BK_HD void start(const Op& op, int64_t count) {
        BK_VECTOR_LOOP
        for (int64_t i = 0; i < count; ++i) store(i, op.start());
    }
    BK_HD void add(const Op& op, int64_t i, typename Op::C x, int32_t t) {
        Lane lane = load(i);
        op.add(lane, x, t);
        store(i, lane);
    }
};

// [first, first + count) of an axis.
struct Range {
    int32_t first, count;
    BK_HD int32_t end() const { return first + count; }
};

template <class Op, class T>
class RowReducer {
public:
    using C = typename Op::C;
    using Lane = typename Op::Lane;

    RowReducer(const Problem& problem, const Op& op) : p_(problem), op_(op) {}

    // The windows from `first` on of a row of `all`, that one call takes.
    BK_HD Range chunk(int32_t first, int32_t all) const {
        const Axis& axis = p_.axis[2];
        if (axis.is_adaptive) {
            const int32_t begin = axis.taps(first).first;
            int32_t end = first;
            while (end < all && end - first < kColumns) {
                const Taps taps = axis.taps(end);
                if (taps.first + taps.count - begin > kColumns) break;
                ++end;
            }
            return {first, std::max(end - first, 1)};
        }
        const int64_t fit = axis.reach() >= kColumns ? 1 : (kColumns - axis.reach()) / axis.step + 1;
        return {first, static_cast<int32_t>(std::min<int64_t>({fit, kColumns, all - first}))};
    }

    // Reduces windows (a, b, range) of the plane at x.
    BK_HD void reduce(const T* x, int32_t a, int32_t b, Range range) {
        a_ = p_.axis[0].taps(a), b_ = p_.axis[1].taps(b);
        x_ = x, range_ = range;
        windows_.start(op_, range.count);
        if constexpr (Op::kHasPosition)
            for (int i = 0; i < range.count; ++i) column_[i] = 0;
        const Axis& axis = p_.axis[2];
        if (axis.is_adaptive || axis.reach() > kColumns) return reduce_each();
        const int32_t begin = range.first * axis.step - axis.pad_low;
        reduce_columns(begin, static_cast<int32_t>((range.count - 1) * int64_t{axis.step} + axis.reach()));
        for (int32_t k = 0; k < axis.kernel; ++k) {
            const int64_t at = int64_t{k} * axis.dilation;
            if (axis.step == 1)
                combine_columns<1>(at, 1, k);
            else if (axis.step == 2)
                combine_columns<2>(at, 2, k);
            else
                combine_columns<0>(at, axis.step, k);
        }
    }

    // The results of reduce(), the i-th of the range.
    BK_HD C value(int32_t i, int64_t divisor) const {
        const Lane lane = windows_.load(i);
        if (!op_.is_lost(lane)) return op_.finish(lane, divisor);
        const Taps c = p_.axis[2].taps(range_.first + i);
        return op_.recover(
            [&](const auto& use) {
                for (int32_t ka = 0; ka < a_.count; ++ka)
                    for (int32_t kb = 0; kb < b_.count; ++kb) {
                        const T* const row = row_at(ka, kb);
                        for (int32_t k = 0; k < c.count; ++k)
                            use(widen(row[(c.first + int64_t{k} * p_.axis[2].dilation) * p_.x.axis[2]]));
                    }
            },
            divisor);
    }
    // The numbers of the cells where reduce() found the results, `step` apart.
    BK_HD void write_numbers(int64_t* to, int64_t step) const {
        const Axis& axis = p_.axis[2];
        if (axis.is_adaptive || a_.count != 1 || p_.cells() > INT32_MAX) {
            for (int32_t i = 0; i < range_.count; ++i) to[i * step] = number(i);
            return;
        }
        const uint32_t first =
            static_cast<uint32_t>(p_.cell_number(a_.first, b_.first, range_.first * axis.step - axis.pad_low));
        const uint32_t row = static_cast<uint32_t>(p_.axis[1].dilation) * axis.in, dilation = axis.dilation, stride = axis.step;
        const auto number_of = [&](uint32_t i) BK_INLINED {
            const uint32_t at = windows_.at[i], column = column_[i];
            return static_cast<int32_t>(first + i * stride + at * row + column * dilation);
        };
        int32_t signs = 0;
        if (step == 1) {
            BK_VECTOR_LOOP
            for (int32_t i = 0; i < range_.count; ++i) {
                signs |= windows_.at[i];
                to[i] = number_of(i);
            }
        } else {
            for (int32_t i = 0; i < range_.count; ++i) {
                signs |= windows_.at[i];
                to[i * step] = number_of(i);
            }
        }
        for (int32_t i = 0; signs < 0 && i < range_.count; ++i)  // windows without cells above -infinity
            if (windows_.at[i] < 0) to[i * step] = number(i);
    }
    BK_HD int64_t number(int32_t i) const {
        const Axis& axis = p_.axis[2];
        const Taps c = axis.taps(range_.first + i);
        if (a_.count == 0 || b_.count == 0 || c.count == 0) return -1;
        const int32_t row = windows_.at[i] < 0 ? 0 : windows_.at[i];
        const int32_t skipped =
            axis.is_adaptive ? 0 : (c.first - ((range_.first + i) * axis.step - axis.pad_low)) / axis.dilation;
        const int32_t column = windows_.at[i] < 0 ? 0 : column_[i] - skipped;
        return p_.cell_number(a_.first + row / b_.count * p_.axis[0].dilation, b_.first + row % b_.count * p_.axis[1].dilation,
                              c.first + column * axis.dilation);
    }
    // Whether finish() serves all windows of the range.
    BK_HD bool is_plain() const {
        int lost = 0;
        for (int32_t i = 0; i < range_.count; ++i) lost += op_.is_lost(windows_.load(i));
        return lost == 0;
    }
    BK_HD C finished(int32_t i, int64_t divisor) const { return op_.finish(windows_.load(i), divisor); }
    BK_HD const Taps& a() const { return a_; }
    BK_HD const Taps& b() const { return b_; }

private:
    BK_HD const T* row_at(int32_t ka, int32_t kb) const {
        return x_ + (a_.first + int64_t{ka} * p_.axis[0].dilation) * p_.x.axis[0] +
               (b_.first + int64_t{kb} * p_.axis[1].dilation) * p_.x.axis[1];
    }

    // columns_[i] is the column begin + i of the image, reduced over the rows of the windows.
    BK_HD void reduce_columns(int32_t begin, int32_t count) {
        const int64_t stride = p_.x.axis[2];
        const int32_t low = std::max(begin, 0),
                      high = static_cast<int32_t>(std::min<int64_t>(int64_t{begin} + count, p_.axis[2].in));
        columns_.start(op_, count);
        if (low >= high) return;
        const int64_t skipped = low - begin, inside = high - low;
        int32_t row = 0;
        for (int32_t ka = 0; ka < a_.count; ++ka)
            for (int32_t kb = 0; kb < b_.count; ++kb, ++row) {
                const T* const from = row_at(ka, kb) + low * stride;
                if (stride == 1) {
                    BK_VECTOR_LOOP
                    for (int64_t i = 0; i < inside; ++i) columns_.add(op_, skipped + i, widen(from[i]), row);
                } else {
                    for (int64_t i = 0; i < inside; ++i) columns_.add(op_, skipped + i, widen(from[i * stride]), row);
                }
            }
    }

    BK_HD void combine(int64_t i, const Lane& column, int32_t k) {
        Lane lane = windows_.load(i);
        if constexpr (Op::kHasPosition) {
            const bool yields = op_.yields(lane, column);
            windows_.value[i] = math::select(yields, column.value, lane.value);
            windows_.at[i] = yields ? column.at : lane.at;
            column_[i] = yields ? k : column_[i];
        } else {
            op_.combine(lane, column);
            windows_.store(i, lane);
        }
    }
    template <int kStep>
    BK_HD void combine_columns(int64_t at, int64_t step, int32_t k) {
        const int64_t count = range_.count;
        BK_VECTOR_LOOP
        for (int64_t i = 0; i < count; ++i) combine(i, columns_.load(at + i * (kStep > 0 ? kStep : step)), k);
    }

    // Windows of different or of many columns, one after another.
    BK_HD void reduce_each() {
        const Axis& axis = p_.axis[2];
        int32_t begin = 0, end = 0;  // the columns of the image that are reduced
        for (int32_t i = 0; i < range_.count; ++i) {
            const Taps c = axis.taps(range_.first + i);
            const int32_t skipped =
                axis.is_adaptive ? 0 : (c.first - ((range_.first + i) * axis.step - axis.pad_low)) / axis.dilation;
            for (int32_t k = 0; k < c.count; ++k) {
                const int32_t column = c.first + k * axis.dilation;
                if (column < begin || column >= end) {
                    begin = column;
                    end = static_cast<int32_t>(std::min<int64_t>(int64_t{begin} + kColumns, axis.in));
                    reduce_columns(begin, end - begin);
                }
                combine(i, columns_.load(column - begin), skipped + k);
            }
        }
    }

    const Problem& p_;
    const Op& op_;
    const T* x_ = nullptr;
    Taps a_, b_;
    Range range_{};
    LaneArrays<Op, kColumns> columns_, windows_;
    int32_t column_[Op::kHasPosition ? kColumns : 1];
};

// Divisors of a row of windows but for the factor of its rows; computed once for all rows.
class RowDivisors {
public:
    RowDivisors(const Problem& problem, const Divisor& divisor) : p_(problem), divisor_(divisor) {}

    BK_HD void prepare(Range range) {
        if (range.first == first_ && range.count <= count_) return;
        first_ = range.first, count_ = range.count;
        for (int32_t i = 0; i < range.count; ++i) {
            const Taps c = p_.axis[2].taps(range.first + i);
            of_[i] = divisor_.fixed != 0 ? 1 : divisor_.includes_padding ? c.padded : c.count;
        }
    }
    BK_HD int64_t rows(const Taps& a, const Taps& b) const {
        if (divisor_.fixed != 0) return divisor_.fixed;
        return divisor_.includes_padding ? int64_t{a.padded} * b.padded : int64_t{a.count} * b.count;
    }
    BK_HD int32_t operator[](int32_t i) const { return of_[i]; }

private:
    const Problem& p_;
    const Divisor divisor_;
    int32_t first_ = -1, count_ = 0;
    int32_t of_[kColumns];
};

}  // namespace bk::pool
