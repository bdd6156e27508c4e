// Neighbours in memory are either different results, each with an accumulator, or terms of one, with an accumulator a lane.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/layout.h"
#include "core/reduce/strided_sum.h"

namespace bk {

// Results that are summed together: enough to read the source in order, as 1024 of f32 take half the time of twice 512, and
// few enough for a small stack.
template <class T>
constexpr int64_t kSumResults = 8192 / sizeof(compute_t<T>);

template <class T>
size_t strided_sum_workspace(const SumAxes&) {
    return 0;
}

// Terms [0, count) at `step`, in kSumLanes interleaved sums.
template <class T>
BK_HD compute_t<T> sum_line(const T* x, int64_t count, int64_t step) {
    constexpr int kSumLanes = 32;
    compute_t<T> lane[kSumLanes] = {};
    int64_t i = 0;
    if (step == 1)
        for (; i + kSumLanes <= count; i += kSumLanes)
            for (int l = 0; l < kSumLanes; ++l) lane[l] += widen(x[i + l]);
    for (; i < count; ++i) lane[i % kSumLanes] += widen(x[i * step]);
    for (int width = kSumLanes / 2; width > 0; width /= 2)
        for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
    return lane[0];
}

template <class T>
void sum_along_terms(const SumAxes& axes, const T* x, T* y) {
    const int last = axes.summed.rank - 1;
    Layout<1> outer = axes.summed;
    outer.rank = last;
    const Walk<1, uint64_t> outer_walk(outer);
    const Walk<2, uint64_t> kept(axes.kept);
    const int64_t length = axes.summed.extent[last], step = axes.summed.stride[0][last], lines = outer.numel();
    parallel_ranges(axes.kept.numel(), grain_for(sizeof(T) * length * lines), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const auto offset = kept(static_cast<uint64_t>(i));
            compute_t<T> sum = 0;
            for (int64_t r = 0; r < lines; ++r)
                sum += sum_line(x + signed_offset(offset.of[0]) + signed_offset(outer_walk(static_cast<uint64_t>(r)).of[0]),
                                length, step);
            y[signed_offset(offset.of[1])] = narrow<T>(sum);
        }
    });
}

template <bool kUnit, class T>
BK_HD void add_to_each(compute_t<T>* BK_RESTRICT sum, const T* BK_RESTRICT x, int64_t count, int64_t step) {
    for (int64_t i = 0; i < count; ++i) sum[i] += widen(x[kUnit ? i : i * step]);
}

template <class T>
void sum_along_results(const SumAxes& axes, const T* x, T* y) {
    const int last = axes.kept.rank - 1;
    Layout<2> outer = axes.kept;
    outer.rank = std::max(last, 0);
    const int64_t length = last < 0 ? 1 : axes.kept.extent[last];
    const int64_t x_step = last < 0 ? 1 : axes.kept.stride[0][last], y_step = last < 0 ? 1 : axes.kept.stride[1][last];
    const Walk<2, uint64_t> walk(outer);
    const Walk<1, uint64_t> summed(axes.summed);
    const int64_t terms = axes.summed.numel();
    // Narrow blocks where there are too few to go round.
    const int64_t fair = ceil_div(outer.numel() * length, 2 * thread_count());
    const int64_t block = std::min(length, std::max<int64_t>(16, std::min(kSumResults<T>, fair)));
    const int64_t blocks = ceil_div(length, block);
    parallel_ranges(outer.numel() * blocks, grain_for(sizeof(T) * block * terms), [&](int64_t begin, int64_t end) {
        compute_t<T> sum[kSumResults<T>];
        for (int64_t at = begin; at < end; ++at) {
            const auto offset = walk(static_cast<uint64_t>(at / blocks));
            const int64_t first = at % blocks * block, count = std::min(block, length - first);
            const T* const source = x + signed_offset(offset.of[0]) + first * x_step;
            for (int64_t i = 0; i < count; ++i) sum[i] = 0;
            for (int64_t r = 0; r < terms; ++r) {
                const T* const term = source + signed_offset(summed(static_cast<uint64_t>(r)).of[0]);
                if (x_step == 1)
                    add_to_each<true>(sum, term, count, 1);
                else
                    add_to_each<false>(sum, term, count, x_step);
            }
            T* const target = y + signed_offset(offset.of[1]) + first * y_step;
            for (int64_t i = 0; i < count; ++i) target[i * y_step] = narrow<T>(sum[i]);
        }
    });
}

template <class T>
Status strided_sum(const Launch& launch, const SumAxes& given, const T* x, T* y) {
    if (given.summed.numel() == 0) return fill_zero(launch, given.kept, y);
    const SumAxes axes{collapse(given.kept), collapse(given.summed)};
    const int64_t kept_step = axes.kept.rank > 0 ? magnitude(axes.kept.stride[0][axes.kept.rank - 1]) : INT64_MAX;
    const int64_t summed_step = axes.summed.rank > 0 ? magnitude(axes.summed.stride[0][axes.summed.rank - 1]) : INT64_MAX;
    if (summed_step < kept_step)
        sum_along_terms(axes, x, y);
    else
        sum_along_results(axes, x, y);
    return Status::kOk;
}

}  // namespace bk
