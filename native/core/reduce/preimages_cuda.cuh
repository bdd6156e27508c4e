// The kernel of sums over preimages. A thread takes 16 bytes of y: neighbours where y has them at aligned addresses, else
// elements that lie a block's threads apart.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/mapped_kernel.cuh"
#include "core/reduce/preimages.h"
#include "core/types/convert.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kPreimageThreads = 256;

template <class Index>
struct PreimageAxis {
    FastDiv<Index> extent;
    FoldMap<Index> map;
    int64_t stride_y = 0;
};

// Axes in the order of y's memory, the last one first.
template <class Index>
struct PreimagePlan {
    PreimageAxis<Index> axis[kMaxRank];
    int rank = 0;
    Index numel = 0;
    bool vectors = false;  // y's neighbours can be stored at once
};

// A row of y. One of the outer axes that have several terms is `several`; all others have `others` combinations.
struct PreimageRow {
    int64_t y = 0, x = 0;
    FoldTerms several;
    int several_axis = -1;
    int64_t others = 1;

    BK_DEVICE bool is_single() const { return several_axis < 0 && others == 1; }
};

template <class Index>
BK_DEVICE PreimageRow preimage_row(const PreimagePlan<Index>& plan, Index row) {
    PreimageRow found;
#pragma unroll
    for (int d = 1; d < kMaxRank; ++d) {
        if (d >= plan.rank) break;
        const auto& axis = plan.axis[d];
        Index index = row;
        if (d + 1 < plan.rank) {
            const DivMod<Index> split = axis.extent(row);
            index = split.remainder;
            row = split.quotient;
        }
        const FoldTerms terms = axis.map(index);
        found.y += static_cast<int64_t>(index) * axis.stride_y;
        if (terms.total() == 1) {
            found.x += terms.offset(0);
        } else if (found.several_axis < 0 && terms.total() > 1) {
            found.several = terms;
            found.several_axis = d;
        } else {
            found.others *= terms.total();
        }
    }
    return found;
}

// Where combination number k of the terms of the axes that are not `several_axis` and have several begins.
template <class Index>
BK_DEVICE_COLD int64_t other_terms(const PreimagePlan<Index>& plan, Index row, int several_axis, int64_t k) {
    int64_t at = 0;
    for (int d = 1; d < plan.rank; ++d) {
        const DivMod<Index> split = plan.axis[d].extent(row);
        const FoldTerms terms = plan.axis[d].map(d + 1 < plan.rank ? split.remainder : row);
        row = split.quotient;
        if (d == several_axis || terms.total() == 1) continue;
        at += terms.offset(k % terms.total());
        k /= terms.total();
    }
    return at;
}

// Of the element `along` of a row; `from` is where the row's terms begin.
template <class T>
BK_DEVICE void add_inner(const T* from, const FoldTerms& terms, compute_t<T>* total) {
    for (int64_t k = 0; k < terms.count; ++k) *total += widen(from[terms.first + k * terms.step]);
    for (int64_t k = 0; k < terms.more; ++k) *total += widen(from[terms.second + k * terms.step]);
}

template <class T, class Index>
BK_DEVICE T sum_of_element(const PreimagePlan<Index>& plan, const PreimageRow& row, Index number, Index along, const T* x) {
    const FoldTerms inner = plan.axis[0].map(along);
    if (row.is_single() && inner.total() == 1) return x[row.x + inner.offset(0)];
    if (row.others == 0 || inner.total() == 0) return narrow<T>(compute_t<T>(0));
    compute_t<T> total = -compute_t<T>(0);  // to which a zero of either sign may be added
    for (int64_t k = 0; k < row.others; ++k) {
        const T* const from = x + row.x + (row.others == 1 ? 0 : other_terms(plan, number, row.several_axis, k));
        for (int64_t s = 0; s < row.several.count; ++s)
            add_inner(from + row.several.first + s * row.several.step, inner, &total);
        for (int64_t s = 0; s < row.several.more; ++s)
            add_inner(from + row.several.second + s * row.several.step, inner, &total);
    }
    return narrow<T>(total);
}

// Elements i, ..., i + count - 1, neighbours in y.
template <int N, class T, class Index>
BK_DEVICE void sum_neighbours(const PreimagePlan<Index>& plan, const T* x, T* y, Index i, int count) {
    using Bits = bits_t<T>;
    DivMod<Index> at = plan.axis[0].extent(i);
    PreimageRow row = preimage_row(plan, at.quotient);
    Index along = at.remainder;
    T* const to = y + row.y + static_cast<int64_t>(along) * plan.axis[0].stride_y;
    const FoldMap<Index>& map = plan.axis[0].map;
    const int64_t first = static_cast<int64_t>(along), last = first + (N - 1);
    if (count == N && row.is_single() && first >= map.bulk && last < map.bulk_end && (map.stride == 1 || map.stride == -1)) {
        const int64_t from = first + map.low, until = last + map.low;
        constexpr int kAround = 4 / static_cast<int>(sizeof(T)) + 1;
        const bool inside = from >= kAround && until + kAround < map.source;
        const T* const low = x + row.x + (map.stride == 1 ? from : -until);
        const Vec<Bits, N> found = load_neighbours<N>(reinterpret_cast<const Bits*>(low), inside);
        store<N>(reinterpret_cast<Bits*>(to), map.stride == 1 ? found : reversed(found));
        return;
    }
    Vec<T, N> result;
#pragma unroll
    for (int lane = 0; lane < N; ++lane) {
        if (lane >= count) break;
        if (along == plan.axis[0].extent.divisor()) {
            ++at.quotient;
            row = preimage_row(plan, at.quotient);
            along = 0;
        }
        result.lane[lane] = sum_of_element(plan, row, at.quotient, along, x);
        ++along;
    }
    if (count == N) {
        store<N>(to, result);
        return;
    }
#pragma unroll
    for (int lane = 0; lane < N; ++lane)
        if (lane < count) to[lane] = result.lane[lane];
}

template <class T, class Index>
__global__ void __launch_bounds__(kPreimageThreads)
    preimage_kernel(const __grid_constant__ PreimagePlan<Index> plan, const T* x, T* y) {
    constexpr int N = kVectorLanes<T>;
    const Index first = static_cast<Index>(blockIdx.x) * (kPreimageThreads * N);
    if (plan.vectors) {
        const Index i = first + threadIdx.x * N;
        if (i >= plan.numel) return;
        const Index left = plan.numel - i;
        sum_neighbours<N>(plan, x, y, i, left < N ? static_cast<int>(left) : N);
        return;
    }
#pragma unroll 1
    for (int k = 0; k < N; ++k) {
        const Index i = first + k * kPreimageThreads + threadIdx.x;
        if (i >= plan.numel) return;
        const DivMod<Index> at = plan.axis[0].extent(i);
        const PreimageRow row = preimage_row(plan, at.quotient);
        y[row.y + static_cast<int64_t>(at.remainder) * plan.axis[0].stride_y] =
            sum_of_element(plan, row, at.quotient, at.remainder, x);
    }
}

template <class T, class Index>
Status launch_preimages(const Launch& launch, const FoldedSum& sum, int64_t numel, const T* x, T* y) {
    constexpr int N = kVectorLanes<T>;
    const int64_t blocks = ceil_div<int64_t>(numel, kPreimageThreads * N);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld elements are too many for one launch", static_cast<long long>(numel));
    PreimagePlan<Index> plan;
    plan.rank = sum.rank;
    plan.numel = static_cast<Index>(numel);
    bool dense = true, by_rows = sum.axis[sum.rank - 1].extent % N == 0;
    int64_t step = 1;
    for (int d = 0; d < sum.rank; ++d) {
        const FoldedAxis& axis = sum.axis[sum.rank - 1 - d];
        plan.axis[d] = {FastDiv<Index>(axis.extent), FoldMap<Index>(axis), axis.stride_y};
        dense = dense && axis.stride_y == step;
        by_rows = by_rows && (d == 0 || axis.stride_y % N == 0);
        step *= axis.extent;
    }
    plan.vectors = is_aligned(y, kVectorBytes) && plan.axis[0].stride_y == 1 && (dense || by_rows);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPreimageThreads)}, preimage_kernel<T, Index>,
                         plan, x, y);
}

template <class T>
Status sum_preimages(const Launch& launch, const FoldedSum& given, const T* x, T* y) {
    constexpr int64_t kShort = (int64_t{1} << 31) - kPreimageThreads * kVectorBytes;
    const FoldedSum sum = plan_preimages(given);
    int64_t numel = 1;
    bool is_short = true;
    for (int d = 0; d < sum.rank; ++d) {
        const FoldedAxis& axis = sum.axis[d];
        numel *= axis.extent;
        is_short = is_short && 4 * axis.extent + axis.source < kShort && axis.step < kShort &&
                   axis.extent + axis.low < kShort && (axis.window - 1) * axis.dilation < kShort &&
                   axis.dilation < (int64_t{1} << 16);
    }
    return is_short && numel < kShort ? launch_preimages<T, uint32_t>(launch, sum, numel, x, y)
                                      : launch_preimages<T, uint64_t>(launch, sum, numel, x, y);
}

}  // namespace bk
