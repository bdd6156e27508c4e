// Two kernels: neighbours in memory are either different results or terms of one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/layout.h"
#include "core/reduce/strided_sum.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kSumThreads = 256;
constexpr int kSumWarps = kSumThreads / 32;
// Threads that fill a large chip. A constant, so that the order of additions is the same on every one.
constexpr int64_t kSumTargetThreads = int64_t{1} << 18;
constexpr int64_t kSumMaxSplits = 512;

// A result's terms are cut into `splits` ranges of `terms` each; one range a blockIdx.y.
struct SumRange {
    int64_t count;
    int64_t terms;
};

template <int N, class C, class T, class Index>
BK_DEVICE void add_terms(C (&sum)[N], const T* x, const Walk<1, Index>& summed, int64_t first, int64_t last, int64_t step) {
    constexpr int kUnroll = 8;
    int64_t r = first;
    for (; r + (kUnroll - 1) * step < last; r += kUnroll * step) {
        Vec<T, N> term[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) term[u] = load<N>(x + signed_offset(summed(static_cast<Index>(r + u * step)).of[0]));
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
#pragma unroll
            for (int lane = 0; lane < N; ++lane) sum[lane] += widen(term[u].lane[lane]);
    }
    for (; r < last; r += step) {
        const Vec<T, N> term = load<N>(x + signed_offset(summed(static_cast<Index>(r)).of[0]));
#pragma unroll
        for (int lane = 0; lane < N; ++lane) sum[lane] += widen(term.lane[lane]);
    }
}

// One thread a vector of N results or, if kShared, one of 8 threads that share it: 32 vectors a block.
template <int N, bool kShared, class T, class Out, class Index>
__global__ void __launch_bounds__(kSumThreads)
    sum_along_results(const T* x, Out* y, Walk<2, Index> kept, Walk<1, Index> summed, int64_t vectors, SumRange range) {
    using C = compute_t<T>;
    const int across = kShared ? threadIdx.x % 32 : threadIdx.x, depth = kShared ? threadIdx.x / 32 : 0;
    const int64_t v = int64_t{blockIdx.x} * (kShared ? 32 : kSumThreads) + across;
    const int64_t begin = blockIdx.y * range.terms, end = min(begin + range.terms, range.count);
    C sum[N] = {};
    Offsets<2, Index> offset{};
    if (v < vectors) {
        offset = kept(static_cast<Index>(v));
        add_terms(sum, x + signed_offset(offset.of[0]), summed, begin + depth, end, kShared ? kSumWarps : 1);
    }
    if constexpr (kShared) {
        __shared__ C partial[kSumWarps][N][32];
#pragma unroll
        for (int lane = 0; lane < N; ++lane) partial[depth][lane][across] = sum[lane];
        __syncthreads();
        if (depth != 0) return;
        for (int other = 1; other < kSumWarps; ++other)
#pragma unroll
            for (int lane = 0; lane < N; ++lane) sum[lane] += partial[other][lane][across];
    }
    if (v >= vectors) return;
    Vec<Out, N> result;
#pragma unroll
    for (int lane = 0; lane < N; ++lane) result.lane[lane] = narrow<Out>(sum[lane]);
    store<N>(y + blockIdx.y * vectors * N * (gridDim.y > 1) + signed_offset(offset.of[1]), result);
}

// `lanes` threads (a power of two up to a warp, or the whole block) share one result, each summing vectors of N terms.
template <int N, class T, class Out, class Index>
__global__ void __launch_bounds__(kSumThreads) sum_along_terms(const T* x, Out* y, Walk<2, Index> kept, Walk<1, Index> summed,
                                                               int64_t results, SumRange range, int lanes) {
    using C = compute_t<T>;
    const int64_t result = int64_t{blockIdx.x} * (kSumThreads / lanes) + threadIdx.x / lanes;
    const int64_t begin = blockIdx.y * range.terms, end = min(begin + range.terms, range.count);
    C lane_sum[N] = {};
    Offsets<2, Index> offset{};
    if (result < results) {
        offset = kept(static_cast<Index>(result));
        add_terms(lane_sum, x + signed_offset(offset.of[0]), summed, begin + threadIdx.x % lanes, end, lanes);
    }
    C sum = lane_sum[0];
#pragma unroll
    for (int lane = 1; lane < N; ++lane) sum += lane_sum[lane];
    for (int distance = min(lanes, 32) / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (lanes > 32) {
        __shared__ C partial[kSumWarps];
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
        __syncthreads();
        sum = partial[0];
        for (int warp = 1; warp < kSumWarps; ++warp) sum += partial[warp];
    }
    if (result < results && threadIdx.x % lanes == 0)
        y[blockIdx.y * results * (gridDim.y > 1) + signed_offset(offset.of[1])] = narrow<Out>(sum);
}

struct SumPlan {
    SumAxes axes;              // collapsed, last axis in vectors
    int lanes = 1;             // of a vector
    bool along_terms = false;  // neighbours in memory are terms of one sum
    int sharing = 1;           // threads that share a result
    int64_t splits = 1;
    SumRange range{};
};

// Turns the last axis into one of whole vectors if every operand is dense along it and aligned across the others.
template <int Operands>
bool make_vectors(Layout<Operands>* layout, int lanes) {
    const int last = layout->rank - 1;
    if (last < 0 || layout->extent[last] % lanes != 0) return false;
    for (int k = 0; k < Operands; ++k) {
        if (layout->stride[k][last] != 1) return false;
        for (int d = 0; d < last; ++d)
            if (layout->stride[k][d] % lanes != 0) return false;
    }
    layout->extent[last] /= lanes;
    for (int k = 0; k < Operands; ++k) layout->stride[k][last] *= lanes;
    return true;
}

template <class T>
SumPlan plan_sum(const SumAxes& given, bool aligned) {
    SumPlan plan;
    plan.axes.kept = collapse(given.kept);
    plan.axes.summed = collapse(given.summed);
    Layout<2>& kept = plan.axes.kept;
    Layout<1>& summed = plan.axes.summed;
    const int64_t kept_step = kept.rank > 0 ? magnitude(kept.stride[0][kept.rank - 1]) : INT64_MAX;
    const int64_t summed_step = summed.rank > 0 ? magnitude(summed.stride[0][summed.rank - 1]) : INT64_MAX;
    plan.along_terms = summed_step < kept_step;
    constexpr int lanes = kVectorLanes<T>;
    if (aligned && plan.along_terms) {
        bool even = true;  // every other step of x must keep vectors aligned
        for (int d = 0; d < kept.rank; ++d) even = even && kept.stride[0][d] % lanes == 0;
        if (even && make_vectors(&summed, lanes)) plan.lanes = lanes;
    } else if (aligned) {
        bool even = true;
        for (int d = 0; d < summed.rank; ++d) even = even && summed.stride[0][d] % lanes == 0;
        if (even && make_vectors(&kept, lanes)) plan.lanes = lanes;
    }
    const int64_t results = kept.numel(), terms = summed.numel();
    if (plan.along_terms) {
        while (plan.sharing < 32 && plan.sharing < terms) plan.sharing *= 2;
        if (terms >= 2048) plan.sharing = kSumThreads;
    } else if (terms >= 4 * kSumWarps && results < kSumTargetThreads) {
        plan.sharing = kSumWarps;
    }
    const int64_t wanted = kSumTargetThreads / std::max<int64_t>(results * plan.sharing, 1);
    plan.splits = std::max<int64_t>(1, std::min({wanted, terms / (16 * plan.sharing), kSumMaxSplits}));
    plan.range = {terms, ceil_div(terms, plan.splits)};
    plan.splits = ceil_div(terms, plan.range.terms);
    return plan;
}

template <class T, class Out, class Index>
Status launch_sum(const Launch& launch, const SumPlan& plan, const T* x, Out* y) {
    constexpr int N = kVectorLanes<T>;
    const Walk<2, Index> kept(plan.axes.kept);
    const Walk<1, Index> summed(plan.axes.summed);
    const int64_t results = plan.axes.kept.numel();
    const int per_block = plan.along_terms ? kSumThreads / plan.sharing : plan.sharing > 1 ? 32 : kSumThreads;
    const int64_t blocks = ceil_div<int64_t>(results, per_block);
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "%lld results are too many for one launch", (long long)results);
    const Grid grid{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(plan.splits)), dim3(kSumThreads)};
    const bool wide = plan.lanes > 1;
    if (plan.along_terms)
        return launch_kernel(launch, grid, wide ? sum_along_terms<N, T, Out, Index> : sum_along_terms<1, T, Out, Index>, x, y,
                             kept, summed, results, plan.range, plan.sharing);
    if (plan.sharing > 1)
        return launch_kernel(launch, grid,
                             wide ? sum_along_results<N, true, T, Out, Index> : sum_along_results<1, true, T, Out, Index>, x, y,
                             kept, summed, results, plan.range);
    return launch_kernel(launch, grid,
                         wide ? sum_along_results<N, false, T, Out, Index> : sum_along_results<1, false, T, Out, Index>, x, y,
                         kept, summed, results, plan.range);
}

template <class T, class Out>
Status launch_sum(const Launch& launch, const SumPlan& plan, const T* x, Out* y) {
    const bool fits = plan.axes.kept.fits_32bit() && plan.axes.summed.fits_32bit() &&
                      plan.axes.kept.reach(0) + plan.axes.summed.reach(0) < (int64_t{1} << 31);
    return fits ? launch_sum<T, Out, uint32_t>(launch, plan, x, y) : launch_sum<T, Out, uint64_t>(launch, plan, x, y);
}

template <class T>
compute_t<T>* carve_partials(Carver* carver, const SumPlan& plan) {
    if (plan.splits == 1) return nullptr;
    return carver->take<compute_t<T>>(plan.splits * plan.axes.kept.numel() * (plan.along_terms ? 1 : plan.lanes));
}

// Aligned or not, the same bytes suffice: fewer lanes a vector, the same results.
template <class T>
size_t strided_sum_workspace(const SumAxes& axes) {
    if (axes.summed.numel() <= 1) return 0;
    size_t bytes = 0;
    for (const bool aligned : {true, false}) {
        Carver carver;
        carve_partials<T>(&carver, plan_sum<T>(axes, aligned));
        bytes = std::max(bytes, carver.bytes());
    }
    return bytes;
}

template <class T>
Status strided_sum(const Launch& launch, const SumAxes& axes, const T* x, T* y) {
    using C = compute_t<T>;
    if (axes.summed.numel() == 0) return fill_zero(launch, axes.kept, y);
    if (axes.summed.numel() == 1) return copy_kept(launch, axes.kept, x, y);
    bool found = false;
    BK_TRY(find_workspace(launch, strided_sum_workspace<T>(axes), &found));
    SumPlan plan = plan_sum<T>(axes, is_aligned(x, kVectorBytes) && is_aligned(y, kVectorBytes));
    if (!found || plan.splits == 1) {
        plan.splits = 1;
        plan.range.terms = plan.range.count;
        return launch_sum(launch, plan, x, y);
    }
    // Partial sums lie densely in the order of the kept walk; the second sum, over the splits, scatters them to y.
    Carver carver(launch.workspace);
    C* const partial = carve_partials<T>(&carver, plan);
    const int width = plan.along_terms ? 1 : plan.lanes;
    SumPlan first = plan;
    int64_t step = width;
    for (int d = plan.axes.kept.rank - 1; d >= 0; --d) {
        first.axes.kept.stride[1][d] = step;
        step *= plan.axes.kept.extent[d];
    }
    BK_TRY(launch_sum(launch, first, x, partial));
    SumAxes second;
    for (int d = 0; d < plan.axes.kept.rank; ++d)
        second.kept.append(plan.axes.kept.extent[d], {first.axes.kept.stride[1][d], plan.axes.kept.stride[1][d]});
    if (width > 1) second.kept.append(width, {1, 1});
    second.summed.append(plan.splits, {step});
    SumPlan last = plan_sum<C>(second, false);
    last.splits = 1;
    last.range.terms = last.range.count;
    return launch_sum(launch, last, static_cast<const C*>(partial), y);
}

}  // namespace bk
