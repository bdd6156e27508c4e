// SPDX-License-Identifier: Apache-2.0
// Indices of categories with replacement: the inverse of each row's cumulated weights, by binary search.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/random/draw.h"

namespace bk {

namespace dist {

// The first k with cdf[k] > u total, u in [0, 1) of 53 bits: a category of weight 0 is never drawn. Should rounding reach
// the total, the last category with a weight; -1 for a total that is not positive and finite.
template <class T>
struct Multinomial {
    static constexpr int kWords = 2;
    const T* cdf;
    int64_t categories, draws, numel;

    BK_HD int64_t operator()(const uint32_t* word, const MoreWords& of) const {
        if (of.element >= numel) return -1;  // lanes behind the last element
        const T* const row = cdf + of.element / draws * categories;
        const double total = static_cast<double>(row[categories - 1]);
        if (!(total > 0.0 && total < HUGE_VAL)) return -1;
        const double target = half_open<53>(word, 0.0) * total;
        int64_t first = 0, last = categories;  // the result is in [first, last]
        while (first < last) {
            const int64_t middle = first + (last - first) / 2;
            if (static_cast<double>(row[middle]) > target)
                last = middle;
            else
                first = middle + 1;
        }
        if (first == categories) {
            --first;
            while (first > 0 && row[first - 1] == row[first]) --first;
        }
        return first;
    }
};

}  // namespace dist

template <class T>
struct RandomMultinomial {
    int64_t rows;
    int64_t categories;
    int64_t draws;
    uint64_t seed;
    uint64_t offset;

    Work work() const { return rows == 0 || draws == 0 ? Work::kNone : Work::kAll; }
    Status check() const {
        BK_TRY(require_non_negative({{"rows", rows}, {"categories", categories}, {"draws", draws}}));
        if (categories == 0 && work() == Work::kAll)
            return fail(Status::kInvalidProblem, "categories is 0, must be >= 1 to draw one");
        return Status::kOk;
    }
    Status run(const T* cdf, const int64_t* state, int64_t* y, const Launch& launch) const {
        const dist::Multinomial<T> functor{cdf, categories, draws, rows * draws};
        return draw(launch, rows * draws, functor, {seed, offset, state}, y);
    }
};

}  // namespace bk
