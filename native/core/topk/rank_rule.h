// SPDX-License-Identifier: Apache-2.0
// Order statistics: elements of each row by rank in ascending key order. NaN is above all numbers.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/topk/row_selection.h"

namespace bk {

enum class RankKind : int32_t { kGiven, kMedian, kNanMedian, kQuantile, kNanQuantile };
enum class Interpolation : int32_t { kLinear, kLower, kHigher, kMidpoint, kNearest };

// Ranks of a row that are wanted.
struct RankRule {
    RankKind kind = RankKind::kGiven;
    int64_t rank = 0;           // of kGiven
    const double* q = nullptr;  // of quantiles, `queries` of them
    int64_t queries = 1;
    Interpolation interpolation = Interpolation::kLinear;
};

// The result lies between the elements of ranks `lower` and `upper`, which are equal or adjacent: at this fraction of the
// way. Both are -1 if q is not in [0, 1].
struct RankChoice {
    int64_t lower, upper;
    double weight;
};

// Whether the number of NaN in a row matters.
BK_HD bool counts_nans(RankKind kind) { return kind != RankKind::kGiven; }

// A row with NaN has the median NaN, its first one, and so have quantiles; the nan variants skip NaN if there are numbers.
BK_HD RankChoice choose_ranks(const RankRule& rule, int64_t length, int64_t nans, double q) {
    if (rule.kind == RankKind::kGiven) return {rule.rank, rule.rank, 0};
    const bool skips = rule.kind == RankKind::kNanMedian || rule.kind == RankKind::kNanQuantile;
    const int64_t numbers = length - nans;
    if (nans > 0 && (!skips || numbers == 0)) return {numbers, numbers, 0};
    if (rule.kind == RankKind::kMedian || rule.kind == RankKind::kNanMedian) return {(numbers - 1) / 2, (numbers - 1) / 2, 0};
    if (!(q >= 0 && q <= 1)) return {-1, -1, 0};
    const double position = q * static_cast<double>(numbers - 1);
    int64_t lower = static_cast<int64_t>(position);
    if (lower > numbers - 1) lower = numbers - 1;  // a length of more than 2^53
    const double fraction = position - static_cast<double>(lower);
    double weight = 0;
    switch (rule.interpolation) {
        case Interpolation::kLinear: weight = fraction; break;
        case Interpolation::kLower: break;
        case Interpolation::kHigher: lower += fraction > 0; break;
        case Interpolation::kMidpoint: weight = fraction > 0 ? 0.5 : 0.0; break;
        case Interpolation::kNearest: lower += fraction > 0.5 || (fraction == 0.5 && lower % 2 == 1); break;
    }
    return {lower, lower + (weight > 0 ? 1 : 0), weight};
}

// Rows with one result for each query; results of query j lie j * query_step further. `rows` has strides of the input,
// the values and the indices.
template <class Bits>
struct RankRows : RowSelection {
    KeyOrder<Bits> order{};
    RankRule rule;
    int64_t query_step = 0;
};

// Null outputs are not wanted; `upper` and `weight` have the layout of the indices.
template <class Bits>
struct RankOutputs {
    Bits* values = nullptr;
    IndexArray lower, upper;
    double* weight = nullptr;

    BK_HD void set(int64_t value_at, int64_t at, const Bits* x, int64_t step, RankChoice index) const {
        if (values != nullptr) values[value_at] = x[index.lower * step];
        if (lower.pointer != nullptr) lower.set(at, index.lower);
        if (upper.pointer != nullptr) upper.set(at, index.upper);
        if (weight != nullptr) weight[at] = index.weight;
    }
};

template <class Bits>
Status select_ranks(const Launch& launch, const RankRows<Bits>& rows, const Bits* x, const RankOutputs<Bits>& outputs);

}  // namespace bk
