#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/row_sums_cpu.h"
#include "embedding/embedding_bag.h"

namespace bk {

// Sums the kept rows of one bag over at most 256 columns at a time.
template <class T, class I>
BK_HD void sum_bag(const BagShape& shape, const T* weight, const I* indices, BagShape::Range bag, T* y) {
    using C = compute_t<T>;
    constexpr int64_t kColumns = 256;
    const int64_t d = shape.embedding_dim;
    int64_t kept = 0;
    for (int64_t k = bag.first; k < bag.last; ++k) kept += shape.keeps(indices[k]);
    const C divisor = shape.is_mean() && kept > 0 ? static_cast<C>(kept) : C(1);
    C sum[kColumns];
    for (int64_t c = 0; c < d; c += kColumns) {
        const int64_t width = std::min(kColumns, d - c);
        for (int64_t i = 0; i < width; ++i) sum[i] = 0;
        for (int64_t k = bag.first; k < bag.last; ++k) {
            const int64_t index = indices[k];
            if (!shape.keeps(index)) continue;
            constexpr int64_t kAhead = 8;  // rows are far apart: the hardware cannot guess the next
            if (k + kAhead < bag.last)
                if (const int64_t next = indices[k + kAhead]; shape.keeps(next))
                    for (int64_t i = 0; i < width; i += 64 / static_cast<int64_t>(sizeof(T)))
                        __builtin_prefetch(weight + next * d + c + i);
            const T* const x = weight + index * d + c;
            for (int64_t i = 0; i < width; ++i) sum[i] += widen(x[i]);
        }
        for (int64_t i = 0; i < width; ++i) y[c + i] = narrow<T>(sum[i] / divisor);
    }
}

template <class T, class I>
Status embedding_bag(const Launch&, const BagShape& shape, const T* weight, const I* indices, const int32_t* offsets, T* out) {
    const int64_t bags = shape.num_bags, per_bag = ceil_div<int64_t>(shape.total_indices, bags) + 1;
    const int64_t grain = std::max(grain_for(per_bag * shape.embedding_dim * static_cast<int64_t>(sizeof(T))),
                                   ceil_div<int64_t>(bags, 64 * thread_count()));
    parallel_chunks(bags, grain, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
            sum_bag(shape, weight, indices, shape.bag(offsets, b), out + b * shape.embedding_dim);
    });
    return Status::kOk;
}

}  // namespace bk
