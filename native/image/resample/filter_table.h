// SPDX-License-Identifier: Apache-2.0
// Tables of the banded matrix of one axis, for separable passes: antialiased filters, and images of bytes.
//
// An antialiased filter is stretched by the step where that is above 1, cut at the edges, and its weights divided by their sum,
// all in f64, as Pillow does. Weights of bytes are integers in units of 2^-22, rounded half away from zero.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/abi/workspace.h"
#include "core/collectives/items.h"
#include "image/resample/pass_elements.h"
#include "image/resample/sample_axis.h"

namespace bk::image {

struct Filter {
    ResampleMode mode;
    double a;

    BK_HD double support() const {
        switch (mode) {
            case ResampleMode::kCubic: return 2;
            case ResampleMode::kLanczos: return 3;
            case ResampleMode::kBox:
            case ResampleMode::kArea: return 0.5;
            default: return 1;
        }
    }
    BK_HD double operator()(double x) const {
        switch (mode) {
            case ResampleMode::kCubic: return cubic_weight<double>(x, a);
            case ResampleMode::kLanczos: return x < -3 || x >= 3 ? 0 : sinc(x) * sinc(x / 3);
            case ResampleMode::kBox:
            case ResampleMode::kArea: return x > -0.5 && x <= 0.5 ? 1 : 0;
            case ResampleMode::kHamming: {
                const double d = ::fabs(x), angle = kPi * d;
                return d >= 1 ? 0 : sinc(d) * (0.54 + math::product<double>(0.46, ::cos(angle)));
            }
            default: {
                const double d = ::fabs(x);
                return d < 1 ? 1 - d : 0;
            }
        }
    }

private:
    static constexpr double kPi = 3.14159265358979323846;
    BK_HD static double sinc(double x) { return x == 0 ? 1 : ::sin(kPi * x) / (kPi * x); }
};

// Row o of the matrix has count[o] entries from column first[o] on: weight[k * rows + o].
template <class Weight>
struct FilterTable {
    int64_t rows, columns, most;  // most: entries of a row
    int32_t *first, *count;
    Weight* weight;
    int32_t *column_first, *column_end;  // rows that have an entry in a column; null unless the adjoint is wanted

    static FilterTable carve(Carver* carver, const SampleAxis& axis, bool antialias, bool is_adjoint) {
        FilterTable table{axis.out, axis.in, entries(axis, antialias), nullptr, nullptr, nullptr, nullptr, nullptr};
        table.first = carver->take<int32_t>(axis.out);
        table.count = carver->take<int32_t>(axis.out);
        table.weight = carver->take<Weight>(axis.out * table.most);
        if (!is_adjoint) return table;
        table.column_first = carver->take<int32_t>(axis.in);
        table.column_end = carver->take<int32_t>(axis.in);
        return table;
    }
    static int64_t entries(const SampleAxis& axis, bool antialias) {
        if (antialias) {
            const double reach = Filter{axis.mode, axis.a}.support() * std::max(axis.step, 1.0);
            return std::min(axis.in, static_cast<int64_t>(std::ceil(std::min(reach, 1e9))) * 2 + 1);
        }
        switch (axis.mode) {
            case ResampleMode::kLinear: return 2;
            case ResampleMode::kCubic: return 4;
            case ResampleMode::kArea: return std::min(axis.in, axis.in / axis.out + 2);
            default: return 1;
        }
    }
};

template <class Weight>
struct TableRowJob {
    SampleAxis axis;
    FilterTable<Weight> table;
    bool antialias;

    BK_HD static float stored(double w, float) { return static_cast<float>(w); }
    BK_HD static double stored(double w, double) { return w; }
    BK_HD static int32_t stored(double w, int32_t) {
        const double scaled = math::product<double>(w, static_cast<double>(1 << kByteWeightBits));
        return static_cast<int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    }
    BK_HD void operator()(int64_t o) const {
        if (antialias) return store_filter(o);
        const Window own = axis.row(o);
        table.first[o] = static_cast<int32_t>(own.first);
        table.count[o] = static_cast<int32_t>(own.end - own.first);
        for (int64_t k = 0; k < own.end - own.first; ++k)
            table.weight[k * table.rows + o] = stored(axis.template weight<double>(o, own.first + k), Weight{});
    }

private:
    BK_HD void store_filter(int64_t o) const {
        const Filter filter{axis.mode, axis.a};
        const double stretch = axis.step < 1 ? 1 : axis.step, inverse = 1 / stretch;
        const double reach = math::product<double>(filter.support(), stretch), last = static_cast<double>(axis.in);
        const double middle = axis.offset > 0 ? math::product<double>(static_cast<double>(o) + 0.5, axis.step)
                                              : math::product<double>(static_cast<double>(o), axis.step) + 0.5;
        // A position far outside of the input has the window of the edge.
        const double centre = middle < 0 ? 0 : middle > last ? last : middle;
        const double low = centre - reach + 0.5, high = centre + reach + 0.5;
        const int64_t first = low < 0 ? 0 : static_cast<int64_t>(low);
        const int64_t end = high > last ? axis.in : static_cast<int64_t>(high);
        const int64_t count = end - first < table.most ? end - first : table.most;
        double sum = 0;
        for (int64_t k = 0; k < count; ++k) sum += filter(at(first + k, centre, inverse));
        if (sum == 0) return store_nearest(o, axis.clamped(static_cast<int64_t>(centre)));
        table.first[o] = static_cast<int32_t>(first);
        table.count[o] = static_cast<int32_t>(count);
        for (int64_t k = 0; k < count; ++k)
            table.weight[k * table.rows + o] = stored(filter(at(first + k, centre, inverse)) / sum, Weight{});
    }
    // A window without weight, of a position at the very edge.
    BK_HD void store_nearest(int64_t o, int64_t i) const {
        table.first[o] = static_cast<int32_t>(i);
        table.count[o] = 1;
        table.weight[o] = stored(1, Weight{});
    }
    BK_HD static double at(int64_t i, double centre, double inverse) {
        return math::product<double>(static_cast<double>(i) - centre + 0.5, inverse);
    }
};

// Rows of each column, by binary search: both ends of a row rise with its index.
template <class Weight>
struct TableColumnJob {
    FilterTable<Weight> table;

    BK_HD void operator()(int64_t i) const {
        table.column_first[i] = static_cast<int32_t>(search([&](int64_t o) { return table.first[o] + table.count[o] > i; }));
        table.column_end[i] = static_cast<int32_t>(search([&](int64_t o) { return table.first[o] > i; }));
    }

private:
    template <class Is>
    BK_HD int64_t search(const Is& is) const {
        int64_t low = 0, high = table.rows;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (is(middle))
                high = middle;
            else
                low = middle + 1;
        }
        return low;
    }
};

template <class Weight>
Status fill_table(const Launch& launch, const SampleAxis& axis, bool antialias, const FilterTable<Weight>& table) {
    BK_TRY(run_items(launch, table.rows, 16 * table.most, TableRowJob<Weight>{axis, table, antialias}));
    if (table.column_first == nullptr) return Status::kOk;
    return run_items(launch, table.columns, 64, TableColumnJob<Weight>{table});
}

}  // namespace bk::image
