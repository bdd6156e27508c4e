// SPDX-License-Identifier: Apache-2.0
// Quantiles along an axis, and their gradient.
#pragma once

#include <cstdint>

#include "core/collectives/team.h"
#include "core/pointwise/pointwise.h"
#include "core/types/convert.h"
#include "topk/order_statistics.h"

namespace bk {

constexpr int64_t kQuantileRows = 256;  // rows of a team

template <class T>
BK_HD T rounded(double x) {
    return narrow<T>(convert<T>(x));
}

// low + w (high - low), which overflows for no finite operands, and is exact where both are equal.
BK_HD double interpolate(double low, double high, double w) {
    if (w == 0 || low == high) return low;
    return (low < 0) == (high < 0) ? low + w * (high - low) : low * (1 - w) + high * w;
}

// y from the indices and weights of one or two elements.
template <class T>
struct Interpolate {
    const T* x;
    T* y;
    const int64_t *lower, *upper;
    const double* weight;
    Walk<3, uint64_t> walk;
    int64_t rows, queries, step;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t end = (item + 1) * kQuantileRows < rows ? (item + 1) * kQuantileRows : rows;
        for (int64_t r = item * kQuantileRows + team.rank; r < end; r += team.size) {
            const T* const row = x + static_cast<int64_t>(walk(static_cast<uint64_t>(r)).of[0]);
            for (int64_t q = 0; q < queries; ++q) {
                const int64_t at = q * rows + r;
                const int64_t low = lower[at], high = upper[at];
                if (low < 0) {
                    y[at] = narrow<T>(static_cast<compute_t<T>>(NAN));
                } else if (weight[at] == 0) {
                    y[at] = row[low * step];
                } else {
                    y[at] = rounded<T>(interpolate(widen(row[low * step]), widen(row[high * step]), weight[at]));
                }
            }
        }
    }
};

// Sums for each element that some query reads, in the order of the queries.
template <class T>
struct SpreadGradient {
    const T* dy;
    T* dx;
    const int64_t *lower, *upper;
    const double* weight;
    Walk<1, uint64_t> walk;
    int64_t rows, queries, length, step;

    // The element that contribution c goes to, -1 for none: even ones are of lower elements, odd ones of upper ones.
    BK_HD int64_t index(int64_t r, int64_t c) const {
        const int64_t at = c / 2 * rows + r;
        return c % 2 == 0 ? lower[at] : weight[at] == 0 ? int64_t{-1} : upper[at];
    }
    BK_HD double share(int64_t r, int64_t c) const {
        const int64_t at = c / 2 * rows + r;
        return static_cast<double>(widen(dy[at])) * (c % 2 == 0 ? 1 - weight[at] : weight[at]);
    }
    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t end = (item + 1) * kQuantileRows < rows ? (item + 1) * kQuantileRows : rows;
        for (int64_t r = item * kQuantileRows + team.rank; r < end; r += team.size) {
            T* const row = dx + static_cast<int64_t>(walk(static_cast<uint64_t>(r)).of[0]);
            for (int64_t c = 0; c < 2 * queries; ++c) {
                const int64_t to = index(r, c);
                if (to < 0 || to >= length) continue;
                bool is_first = true;
                for (int64_t d = 0; is_first && d < c; ++d) is_first = index(r, d) != to;
                if (!is_first) continue;
                double sum = share(r, c);
                for (int64_t d = c + 1; d < 2 * queries; ++d)
                    if (index(r, d) == to) sum += share(r, d);
                row[to * step] = rounded<T>(sum);
            }
        }
    }
};

template <class Op, class T>
struct Quantile {
    int64_t rows_numel;
    int32_t rank;
    int32_t order_axis;
    int64_t axis_len;
    int64_t q_count;
    int32_t interpolation;
    const int32_t* rows_shape;
    const int64_t* stride_x;

    Work work() const { return all_or_none(rows_numel == 0 ? 0 : q_count); }
    Status check() const {
        BK_TRY(axes().check({{"stride_x", stride_x}}, {}));
        BK_TRY(require_elements({"axis_len", axis_len}, rows_numel));
        if (interpolation < 0 || interpolation > static_cast<int32_t>(Interpolation::kNearest))
            return fail(Status::kInvalidProblem, "interpolation is %d, must be in [0, 4]", interpolation);
        return require_non_negative({{"q_count", q_count}});
    }
    Status locate_x(Operand* operand, const char* name, Role role, int64_t size) const {
        return axes().locate(operand, name, role, size, {"stride_x", stride_x}, {"axis_len", axis_len});
    }
    Status run(const T* x, const double* q, T* y, int64_t* lower, int64_t* upper, double* weight, const Launch& launch) const {
        using Bits = bits_t<T>;
        RankRows<Bits> rows;
        int64_t pitch[kMaxRank + 1];
        row_pitches(pitch);
        rows.rows = axes().layout(stride_x, pitch, pitch);
        rows.length = axis_len;
        rows.results = 1;
        rows.step[RowSelection::kInput] = stride_x[order_axis];
        rows.order = key_order<T>(false);
        rows.rule = {Op::kind, 0, q, q_count, static_cast<Interpolation>(interpolation)};
        rows.query_step = rows_numel;
        const RankOutputs<Bits> outputs{nullptr, {lower, true}, {upper, true}, weight};
        BK_TRY(select_ranks(launch, rows, reinterpret_cast<const Bits*>(x), outputs));
        const Interpolate<T> between{
            x, y, lower, upper, weight, Walk<3, uint64_t>(rows.rows), rows_numel, q_count, stride_x[order_axis]};
        return run_teams(launch, ceil_div(rows_numel, kQuantileRows), kQuantileRows * q_count * 32, between);
    }

private:
    RowsAlongAxis axes() const { return {rows_numel, rank, order_axis, "order_axis", rows_shape}; }
    void row_pitches(int64_t* pitch) const {
        pitch[rank] = 1;
        for (int32_t d = rank; d-- > 0;) pitch[d] = pitch[d + 1] * rows_shape[d];
        for (int32_t d = 0; d < rank; ++d) pitch[d] = pitch[d + 1];
    }
};

template <class T>
struct QuantileBackward {
    int64_t rows_numel;
    int32_t rank;
    int32_t order_axis;
    int64_t axis_len;
    int64_t q_count;
    const int32_t* rows_shape;
    const int64_t* stride_dx;

    Work work() const {
        if (rows_numel == 0 || axis_len == 0) return Work::kNone;
        return q_count == 0 ? Work::kZeros : Work::kAll;
    }
    Status check() const {
        BK_TRY(axes().check({{"stride_dx", stride_dx}}, {}));
        return require_non_negative({{"axis_len", axis_len}, {"q_count", q_count}});
    }
    Status locate_dx(Operand* operand, const char* name, Role role, int64_t size) const {
        return axes().locate(operand, name, role, size, {"stride_dx", stride_dx}, {"axis_len", axis_len});
    }
    Status run(const T* dy, const int64_t* lower, const int64_t* upper, const double* weight, T* dx,
               const Launch& launch) const {
        Layout<1> all, rows;
        for (int32_t d = 0; d < rank; ++d) {
            all.append(d == order_axis ? axis_len : rows_shape[d], {stride_dx[d]});
            if (d != order_axis) rows.append(rows_shape[d], {stride_dx[d]});
        }
        BK_TRY(pointwise_strided(launch, all, ZeroFunctor<compute_t<T>>{}, outputs(dx), inputs()));
        const SpreadGradient<T> spread{
            dy, dx, lower, upper, weight, Walk<1, uint64_t>(rows), rows_numel, q_count, axis_len, stride_dx[order_axis]};
        return run_teams(launch, ceil_div(rows_numel, kQuantileRows), kQuantileRows * q_count * 64, spread);
    }

private:
    RowsAlongAxis axes() const { return {rows_numel, rank, order_axis, "order_axis", rows_shape}; }
};

}  // namespace bk
