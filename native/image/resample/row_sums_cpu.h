// SPDX-License-Identifier: Apache-2.0
// Sums over up to three axes on the CPU, row by row of results, whose elements are vectors: adjacent columns of a plane, of
// few channels if these are adjacent, or the channels of a position. The weights of a result and the order of its sum are
// those of window_sum() and run_pass().
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/compiler_cpu.h"
#include "core/row/parallel_rows_cpu.h"
#include "image/resample/axis_matrix_cpu.h"
#include "image/resample/image_rows_cpu.h"
#include "image/resample/pass_elements.h"

namespace bk::image {

template <class C, class T>
BK_HD C converted(T x) {
    return static_cast<C>(widen(x));
}

// Products of adjacent elements and one weight each, added up in order, four at a time.
template <class From, class To, class C>
class Summands {
public:
    BK_HD Summands(C* sum, int64_t length) : sum_(sum), length_(length) {}

    BK_HD void add(const From* from, C weight) {
        if (count_ == 4) flush();
        from_[count_] = from, weight_[count_++] = weight;
    }
    BK_HD void store(To* to, bool accumulates) {
        if (is_begun_ || accumulates) {
            flush();
            if (accumulates) {
                BK_VECTOR_LOOP
                for (int64_t l = 0; l < length_; ++l) to[l] = finish_pass<To>(converted<C>(to[l]) + sum_[l]);
            } else {
                BK_VECTOR_LOOP
                for (int64_t l = 0; l < length_; ++l) to[l] = finish_pass<To>(sum_[l]);
            }
            return;
        }
        switch (count_) {
            case 0: return write<0>(to);
            case 1: return write<1>(to);
            case 2: return write<2>(to);
            case 3: return write<3>(to);
            default: return write<4>(to);
        }
    }
    // The sum of all products, in sum[].
    BK_HD void flush() {
        switch (count_) {
            case 0: add_up<0>(); break;
            case 1: add_up<1>(); break;
            case 2: add_up<2>(); break;
            case 3: add_up<3>(); break;
            default: add_up<4>(); break;
        }
        count_ = 0;
        is_begun_ = true;
    }

private:
    template <int N>
    struct Products {
        const From* from[N > 0 ? N : 1];
        C weight[N > 0 ? N : 1];

        BK_HD explicit Products(const Summands& all) {
            for (int n = 0; n < N; ++n) from[n] = all.from_[n], weight[n] = all.weight_[n];
        }
        BK_HD C added(C sum, int64_t l) const {
            for (int n = 0; n < N; ++n) sum += weight[n] * converted<C>(from[n][l]);
            return sum;
        }
    };
    template <int N>
    BK_HD void add_up() {
        const Products<N> products(*this);
        C* const sum = sum_;
        const int64_t length = length_;
        if (is_begun_) {
            BK_VECTOR_LOOP
            for (int64_t l = 0; l < length; ++l) sum[l] = products.added(sum[l], l);
        } else {
            BK_VECTOR_LOOP
            for (int64_t l = 0; l < length; ++l) sum[l] = products.added(C(0), l);
        }
    }
    template <int N>
    BK_HD void write(To* to) const {
        const Products<N> products(*this);
        const int64_t length = length_;
        BK_VECTOR_LOOP
        for (int64_t l = 0; l < length; ++l) to[l] = finish_pass<To>(products.added(C(0), l));
    }

    C* const sum_;
    const int64_t length_;
    const From* from_[4];
    C weight_[4];
    int count_ = 0;
    bool is_begun_ = false;
};

// Elements of rows of the input in the order of the table of columns, tap by tap; the last rows are kept, since adjacent rows
// of results share them.
template <class From, class C>
class GatheredRows {
public:
    static constexpr int kKept = 4;

    BK_HD void clear() {
        for (const From*& row : row_) row = nullptr;
    }
    BK_HD const C* find(const ColumnWeights<C>& columns, const From* row, int64_t number, int64_t step) {
        const int64_t slot = number % kKept;
        C* const to = element_[slot];
        if (row_[slot] == row) return to;
        row_[slot] = row;
        const int32_t* const index = columns.index(0);
        const int64_t count = int64_t{columns.taps()} * columns.count();
        for (int64_t i = 0; i < count; ++i) {
            int64_t at = index[i];
            BK_OPAQUE(at);
            to[i] = at < 0 ? C(0) : converted<C>(row[at * step]);
        }
        return to;
    }

private:
    const From* row_[kKept] = {};
    alignas(64) C element_[kKept][ColumnWeights<C>::kEntries];
};

template <class From, class To, class C>
struct RowSums {
    AxisMatrix<C> axis[3];
    const From* x;
    To* y;
    ImageLayout from, to;
    bool accumulates;

    // A task is a row of results of a plane, or of all channels.
    Status run() const {
        const ImageRows rows = ImageRows::of(from, to);
        const int64_t bytes = to.extent[4] * rows.elements() * static_cast<int64_t>(4 * sizeof(C));
        parallel_rows(rows.count, grain_for(bytes), [&](int64_t begin, int64_t end) {
            if (rows.has_channels)
                positions(rows, begin, end);
            else
                planes(rows, begin, end);
        });
        return Status::kOk;
    }

private:
    using Row = typename RowWeights<C>::Row;

    // Whether elements of a weight are read: zeros of a table are.
    BK_HD bool counts(C weight) const { return weight != C(0) || axis[2].sample == nullptr; }
    // visit(row of the input, its weight, its number) for the rows that a row of results is a sum of.
    template <class Visit>
    BK_HD void each_row(const From* image, const Row& in_z, const Row& in_y, const Visit& visit) const {
        for (int64_t k = in_z.window.first; k < in_z.window.end; ++k) {
            const C of_z = in_z.weight(k);
            for (int64_t j = in_y.window.first; j < in_y.window.end; ++j) {
                const C weight = of_z * in_y.weight(j);
                if (counts(weight)) visit(image + k * from.stride[2] + j * from.stride[3], weight, j + 2 * k);
            }
        }
    }

    // The rows of each_row(); only their number if there are more than kSources.
    static constexpr int kSources = 16;
    struct Sources {
        int64_t count;
        const From* row[kSources];
        C weight[kSources];

        BK_HD void add(const From* from, C by) {
            if (count < kSources) row[count] = from, weight[count] = by;
            ++count;
        }
    };

    BK_HD void positions(const ImageRows& rows, int64_t begin, int64_t end) const {
        RowWeights<C> weights_z(axis[0]), weights_y(axis[1]);
        ColumnWeights<C> columns(axis[2], to.extent[4], 1);
        Sources sources;
        alignas(64) C sum[kChannels];
        for (int64_t first = 0; first < to.extent[4]; first = columns.end()) {
            columns.fill(first);
            for (RowOfImage at(rows, begin); at.number < end; at.next(rows)) {
                const Row in_z = weights_z.row(at.z, to.extent[2]), in_y = weights_y.row(at.y, to.extent[3]);
                const From* const image = x + at.n * from.stride[0];
                To* const result = y + at.n * to.stride[0] + at.z * to.stride[2] + at.y * to.stride[3];
                sources.count = 0;
                each_row(image, in_z, in_y, [&](const From* row, C weight, int64_t) BK_INLINED { sources.add(row, weight); });
                for (int64_t p = first; p < columns.end(); ++p)
                    for (int64_t channel = 0; channel < to.extent[1]; channel += kChannels) {
                        Summands<From, To, C> summands(sum, std::min<int64_t>(kChannels, to.extent[1] - channel));
                        const auto add = [&](const From* row, C of_row) BK_INLINED {
                            each_column(columns, p, [&](int64_t i, C of_column) BK_INLINED {
                                const C weight = of_row * of_column;
                                if (counts(weight)) summands.add(row + i * from.stride[4] + channel, weight);
                            });
                        };
                        if (sources.count <= kSources)
                            for (int64_t s = 0; s < sources.count; ++s) add(sources.row[s], sources.weight[s]);
                        else
                            each_row(image, in_z, in_y,
                                     [&](const From* row, C weight, int64_t) BK_INLINED { add(row, weight); });
                        summands.store(result + p * to.stride[4] + channel, accumulates);
                    }
            }
        }
    }
    template <class Visit>
    BK_HD static void each_column(const ColumnWeights<C>& columns, int64_t p, const Visit& visit) {
        if (columns.is_wide()) {
            const Window window = columns.window();
            for (int64_t i = window.first; i < window.end; ++i) visit(i, columns.matrix().weight(p, i));
            return;
        }
        const int32_t* const index = columns.index(0) + (p - columns.begin());
        const C* const weight = columns.weight(0) + (p - columns.begin());
        for (int32_t tap = 0; tap < columns.taps(); ++tap) {
            const int64_t at = int64_t{tap} * columns.count();
            if (index[at] >= 0) visit(index[at], weight[at]);
        }
    }

    BK_HD void planes(const ImageRows& rows, int64_t begin, int64_t end) const {
        RowWeights<C> weights_z(axis[0]), weights_y(axis[1]);
        ColumnWeights<C> columns(axis[2], to.extent[4], rows.lanes);
        GatheredRows<From, C> gathered;
        alignas(64) C sum[ColumnWeights<C>::kEntries];
        const int64_t step = rows.lanes > 1 ? 1 : from.stride[4];
        const bool is_direct = axis[2].is_identity() && (step == 1 || from.extent[4] == 1);
        for (int64_t first = 0; first < to.extent[4]; first = columns.end()) {
            columns.fill(first);
            gathered.clear();
            for (RowOfImage at(rows, begin); at.number < end; at.next(rows)) {
                const Row in_z = weights_z.row(at.z, to.extent[2]), in_y = weights_y.row(at.y, to.extent[3]);
                const From* const image = x + at.n * from.stride[0] + at.c * from.stride[1];
                To* const result = y + at.n * to.stride[0] + at.c * to.stride[1] + at.z * to.stride[2] + at.y * to.stride[3];
                Summands<From, To, C> summands(sum, columns.count());
                if (is_direct) {
                    each_row(image, in_z, in_y, [&](const From* row, C weight, int64_t) BK_INLINED {
                        summands.add(row + first * rows.lanes, weight);
                    });
                    if (rows.is_dense) {
                        summands.store(result + first * rows.lanes, accumulates);
                        continue;
                    }
                    summands.flush();
                } else {
                    std::fill(sum, sum + columns.count(), C(0));
                    each_row(image, in_z, in_y, [&](const From* row, C weight, int64_t number) BK_INLINED {
                        if (columns.is_wide())
                            add_wide(columns, row, step, weight, sum);
                        else
                            add_row(columns, gathered.find(columns, row, number, step), weight, sum);
                    });
                }
                store(rows, sum, first, columns.count(), result);
            }
        }
    }
    BK_HD void add_wide(const ColumnWeights<C>& columns, const From* row, int64_t step, C of_row, C* sum) const {
        const int32_t lanes = columns.count();
        each_column(columns, columns.begin(), [&](int64_t i, C of_column) BK_INLINED {
            const C weight = of_row * of_column;
            if (!counts(weight)) return;
            for (int32_t l = 0; l < lanes; ++l) sum[l] += weight * converted<C>(row[lanes > 1 ? i * lanes + l : i * step]);
        });
    }
    BK_HD static void add_row(const ColumnWeights<C>& columns, const C* elements, C of_row, C* sum) {
        int32_t tap = 0;
        for (; tap + 4 <= columns.taps(); tap += 4) add_taps<4>(columns, tap, elements, of_row, sum);
        for (; tap + 2 <= columns.taps(); tap += 2) add_taps<2>(columns, tap, elements, of_row, sum);
        for (; tap < columns.taps(); ++tap) add_taps<1>(columns, tap, elements, of_row, sum);
    }
    template <int N>
    BK_HD static void add_taps(const ColumnWeights<C>& columns, int32_t tap, const C* elements, C of_row, C* sum) {
        const int64_t count = columns.count();
        const C* const weight = columns.weight(tap);
        const C* const element = elements + tap * count;
        BK_VECTOR_LOOP
        for (int64_t e = 0; e < count; ++e) {
            C s = sum[e];
            for (int n = 0; n < N; ++n) s += of_row * weight[n * count + e] * element[n * count + e];
            sum[e] = s;
        }
    }
    BK_HD void store(const ImageRows& rows, const C* sum, int64_t first, int64_t count, To* result) const {
        if (rows.is_dense) {
            To* const at = result + first * rows.lanes;
            if (accumulates) {
                BK_VECTOR_LOOP
                for (int64_t e = 0; e < count; ++e) at[e] = finish_pass<To>(converted<C>(at[e]) + sum[e]);
            } else {
                BK_VECTOR_LOOP
                for (int64_t e = 0; e < count; ++e) at[e] = finish_pass<To>(sum[e]);
            }
            return;
        }
        for (int64_t e = 0; e < count; ++e) {
            To& at = result[(first + e) * to.stride[4]];
            at = finish_pass<To>(accumulates ? converted<C>(at) + sum[e] : sum[e]);
        }
    }
};

}  // namespace bk::image
