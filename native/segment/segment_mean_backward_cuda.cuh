// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/math/divide_by.h"
#include "segment/gradient_rows.cuh"
#include "segment/segment_counts.cuh"
#include "segment/segment_mean_backward.h"

namespace bk {

template <class T>
struct MeanGradient {
    using Element = T;
    static constexpr int kUnroll = 4;
    template <int N>
    struct Loaded {
        Vec<T, N> dy;
        int32_t count;
    };
    const T* d_output;
    const int32_t* counts;
    int64_t columns;

    template <int N>
    BK_DEVICE Loaded<N> load(const RowElement& at) const {
        return {bk::load<N>(d_output + at.id * columns + at.column), counts[at.id]};
    }
    template <int N>
    BK_DEVICE Vec<T, N> compute(const Loaded<N>& x, const RowElement&) const {
        const DivideBy<T> mean(static_cast<compute_t<T>>(x.count));
        Vec<T, N> y;
#pragma unroll
        for (int i = 0; i < N; ++i) y.lane[i] = narrow<T>(mean(widen_lane(x.dy, i)));
        return y;
    }
};

template <bool kSorted, class T>
Status segment_mean_backward(const Launch& launch, const SegmentShape& shape, const T* d_output, IdArray ids, T* d_input) {
    int32_t* const counts = find_counts(launch, shape);
    if (counts == nullptr)
        return launch_kernel(launch, count_tiles_grid(shape), gather_by_tiles_kernel<T>, shape, d_output, ids, d_input);
    BK_TRY(count_ids(launch, shape, ids, counts));
    return gradient_rows(launch, shape, MeanGradient<T>{d_output, counts, shape.d}, ids, kSorted, nullptr, d_input,
                         is_aligned(d_output, kVectorBytes));
}

}  // namespace bk
