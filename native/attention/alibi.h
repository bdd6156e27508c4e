// SPDX-License-Identifier: Apache-2.0
// ALiBi (Press et al. 2022): y[b, h, i, j] = scores[b, h, i, j] + slopes[h] * (j - i).
#pragma once

#include <cstdint>

#include "attention/tune.h"
#include "core/abi/checks.h"
#include "core/math/fastdiv.h"
#include "core/pointwise/pointwise.h"

namespace bk {

// Extents of the attention scores, with the checks that all ops on them share.
struct ScoreShape {
    int32_t batch, heads, q_len, k_len;

    int64_t count() const { return int64_t{batch} * heads * (int64_t{q_len} * k_len); }

    Status check() const {
        return require_non_negative({{"batch", batch}, {"heads", heads}, {"q_len", q_len}, {"k_len", k_len}});
    }
};

// Positional functor that adds the bias along a flat walk over the scores.
template <class T, class Index>
struct AlibiFunctor {
    using C = compute_t<T>;
    const T* slopes;
    FastDiv<Index> k_len, q_len, heads;

    // Bias for the remaining elements of a row of scores.
    struct Segment {
        int64_t count;
        int32_t distance;  // j - i of the first element
        C slope;
        BK_HD C operator()(int64_t k, C score) const {
            return score + slope * static_cast<C>(distance + static_cast<int32_t>(k));
        }
    };

    BK_HD Segment at(int64_t element) const {
        const auto column = k_len(static_cast<Index>(element));
        const auto row = q_len(column.quotient);
        const int32_t j = static_cast<int32_t>(column.remainder), i = static_cast<int32_t>(row.remainder);
        return {static_cast<int64_t>(k_len.divisor()) - j, j - i, widen(slopes[heads(row.quotient).remainder])};
    }
};

template <class T>
struct Alibi {
    int32_t batch;
    int32_t heads;
    int32_t q_len;
    int32_t k_len;

    Work work() const { return all_or_none(shape().count()); }
    Status check() const { return shape().check(); }
    Status run(const T* scores, const T* slopes, T* y, const Launch& launch) const {
        return shape().count() < (int64_t{1} << 31) ? run_as<uint32_t>(scores, slopes, y, launch)
                                                    : run_as<uint64_t>(scores, slopes, y, launch);
    }

private:
    ScoreShape shape() const { return {batch, heads, q_len, k_len}; }

    template <class Index>
    Status run_as(const T* scores, const T* slopes, T* y, const Launch& launch) const {
        const AlibiFunctor<T, Index> bias{slopes, FastDiv<Index>(k_len), FastDiv<Index>(q_len), FastDiv<Index>(heads)};
        return pointwise(launch, shape().count(), bias, outputs(y), inputs(scores));
    }
};

}  // namespace bk
