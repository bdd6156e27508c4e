// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/math/wide_range.h"
#include "core/row/row_sums_cpu.h"
#include "embedding/embedding_bag.h"

namespace bk {

// The mean or sum of a bag's kept rows, each times its scale if kScaled. Non-finite sums are recomputed from
// scaled-down rows.
template <bool kScaled, class T, class I>
BK_HD void sum_bag(const BagShape& shape, const T* weight, const I* indices, [[maybe_unused]] const T* scales,
                   BagShape::Range bag, T* y) {
    using C = compute_t<T>;
    const int64_t d = shape.embedding_dim, rows = shape.num_embeddings, total = shape.total_indices;
    const auto next_kept = [&](int64_t k) {
        while (k < bag.last && !shape.keeps(indices[k])) ++k;
        return k;
    };
    const int64_t first = next_kept(bag.first);
    if (first == bag.last) {
        memset(y, 0, sizeof(T) * static_cast<size_t>(d));
        return;
    }
    for_column_blocks({0, d}, [&](int64_t c, auto most, int64_t width) BK_INLINED {
        const auto row = [&](int64_t k) {
            // Prefetching continues into the next bag.
            if (k + kRowsAhead < total)
                if (const int64_t next = indices[k + kRowsAhead]; next >= 0 && next < rows)
                    prefetch_row(weight + next * d + c, width);
            return weight + static_cast<int64_t>(indices[k]) * d + c;
        };
        C sum[most()];
        const T* const head = row(first);
        const auto summand = [&](int64_t k, T x) { return kScaled ? widen(scales[k]) * widen(x) : widen(x); };
        for (int64_t i = 0; i < width; ++i) sum[i] = C(0) + summand(first, head[i]);
        int64_t kept = 1;
        for (int64_t k = next_kept(first + 1); k < bag.last; k = next_kept(k + 1), ++kept) {
            const T* const x = row(k);
            for (int64_t i = 0; i < width; ++i) sum[i] += summand(k, x[i]);
        }
        const C divisor = shape.is_mean() ? static_cast<C>(kept) : C(1);
        int has_nonfinite = 0;
        for (int64_t i = 0; i < width; ++i) has_nonfinite |= int(!is_finite(sum[i]));
        if (shape.is_mean())
            for (int64_t i = 0; i < width; ++i) sum[i] /= divisor;
        for (int64_t i = 0; i < width; ++i) y[c + i] = narrow<T>(sum[i]);
        if (has_nonfinite == 0) return;
        for (int64_t i = 0; i < width; ++i) {
            if (is_finite(sum[i])) continue;
            C scaled = 0;
            for (int64_t k = first; k < bag.last; k = next_kept(k + 1))
                scaled += summand(k, weight[static_cast<int64_t>(indices[k]) * d + c + i]) * kScale<C>;
            y[c + i] = narrow<T>(scaled / divisor * (C(1) / kScale<C>));
        }
    });
}

template <class T, class I>
Status embedding_bag(const Launch&, const BagShape& shape, const T* weight, const I* indices, IdArray offsets, const T* scales,
                     T* out) {
    const int64_t bags = shape.num_bags, per_bag = ceil_div<int64_t>(shape.total_indices, bags) + 1;
    const int64_t grain = std::max(grain_for(per_bag * shape.embedding_dim * static_cast<int64_t>(sizeof(T))),
                                   ceil_div<int64_t>(bags, 16 * thread_count()));
    parallel_chunks(bags, grain, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
            T* const y = out + b * shape.embedding_dim;
            if (scales == nullptr)
                sum_bag<false>(shape, weight, indices, scales, shape.bag(offsets, b), y);
            else
                sum_bag<true>(shape, weight, indices, scales, shape.bag(offsets, b), y);
        }
    });
    return Status::kOk;
}

}  // namespace bk
