// One kernel sums, a second adds up the parts of sums that were split.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/abi/launch.h"
#include "core/pointwise/long_walk.h"
#include "core/reduce/pointwise_sum.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kPointwiseSumThreads = 256;

// A block is `across` results (or vectors of them) by `deep` threads that share each, all powers of two.
template <int Operands>
struct SumGrid {
    LongWalk<Operands> kept, summed;
    uint32_t results, terms, part;  // in vectors along the axis that has them
    int across, deep;
    bool along_terms;
    unsigned broadcast;  // a bit for each input that stands still along the vectors' axis
    int output, target;
    int64_t kept_step;  // of the summed output along the last kept axis
};

template <int N, class... Out, size_t... O>
BK_DEVICE void store_present(const Pack<Out*...>& out, const int64_t* offset, const Pack<Vec<Out, N>...>& y,
                             std::index_sequence<O...>) {
    ((get<O>(out) != nullptr ? store<N>(get<O>(out) + offset[O], get<O>(y)) : void()), ...);
}

template <int N, class... In, size_t... I>
BK_DEVICE Words<Pack<Vec<In, N>...>> load_at(const Pack<const In*...>& in, const int64_t* offset, unsigned broadcast,
                                             std::index_sequence<I...>) {
    return {pack(load_lanes<N>(get<I>(in) + offset[I], broadcast >> I & 1)...)};
}

template <int N, class... Out, class... C, size_t... O>
BK_DEVICE void put_pack(Pack<Vec<Out, N>...>& y, int lane, const Pack<C...>& result, std::index_sequence<O...>) {
    ((get<O>(y).lane[lane] = narrow<Out>(get<O>(result))), ...);
}

template <int N, class C, class Fn, class... Out, class... In, size_t... I>
BK_DEVICE void add_term(const Fn& fn, const Pack<Vec<In, N>...>& x, Pack<Vec<Out, N>...>& y, int output, C (&sum)[N],
                        std::index_sequence<I...>) {
    constexpr std::index_sequence_for<Out...> each{};
#pragma unroll
    for (int lane = 0; lane < N; ++lane) {
        const auto result = as_pack(fn(widen(get<I>(x).lane[lane])...));
        sum[lane] += pick(result, output, each);
        put_pack<N>(y, lane, result, each);
    }
}

// Writes `sums` or, where the sums are split, `parts`, one part of every result after another.
template <int N, class C, class Fn, class T, class Out, class In>
__global__ void __launch_bounds__(kPointwiseSumThreads, 3)
    pointwise_sum_kernel(Fn fn, Out out, In in, T* sums, C* parts, SumGrid<Out::count + In::count> grid) {
    constexpr int kOperands = Out::count + In::count;
    constexpr typename In::Indices kInputs{};
    constexpr int kRound = 2;  // terms in flight a thread
    const int across = grid.along_terms ? threadIdx.x / grid.deep : threadIdx.x % grid.across;
    const int depth = grid.along_terms ? threadIdx.x % grid.deep : threadIdx.x / grid.across;
    const uint64_t result = uint64_t{blockIdx.x} * grid.across + across;
    C sum[N] = {};
    int64_t base[kOperands] = {};
    if (result < grid.results) {
        grid.kept(static_cast<uint32_t>(result), base);
        const uint64_t end = min(uint64_t{blockIdx.y + 1} * grid.part, uint64_t{grid.terms});
        // All loads of a round come before its stores, which may be to an input.
        for (uint64_t t = uint64_t{blockIdx.y} * grid.part + depth; t < end; t += kRound * grid.deep) {
            int64_t offset[kRound][kOperands];
            Words<typename In::template Vectors<N>> x[kRound];
#pragma unroll
            for (int u = 0; u < kRound; ++u) {
                const uint64_t term = t + u * grid.deep;
                if (term >= end) continue;
#pragma unroll
                for (int k = 0; k < kOperands; ++k) offset[u][k] = base[k];
                grid.summed(static_cast<uint32_t>(term), offset[u]);
                x[u] = load_at<N>(in.pointer, offset[u], grid.broadcast, kInputs);
            }
#pragma unroll
            for (int u = 0; u < kRound; ++u) {
                if (t + u * grid.deep >= end) continue;
                typename Out::template Vectors<N> y;
                add_term<N>(fn, from_words(x[u], kInputs), y, grid.output, sum, kInputs);
                store_present<N>(out.pointer, offset[u] + In::count, y, typename Out::Indices{});
            }
        }
    }
    int64_t target = 0;
#pragma unroll
    for (int k = 0; k < kOperands; ++k)
        if (k == grid.target) target = base[k];
    const int width = grid.along_terms ? 1 : N;  // results a thread
    if (grid.along_terms)
#pragma unroll
        for (int lane = 1; lane < N; ++lane) sum[0] += sum[lane];
    __shared__ C shared[kPointwiseSumThreads];
#pragma unroll
    for (int lane = 0; lane < N; ++lane) {
        if (lane >= width) break;
        if (grid.deep > 1) {
            __syncthreads();
            shared[threadIdx.x] = sum[lane];
            const int apart = grid.along_terms ? 1 : grid.across;
            for (int half = grid.deep / 2; half > 0; half /= 2) {
                __syncthreads();
                if (depth < half) shared[threadIdx.x] += shared[threadIdx.x + half * apart];
            }
            sum[lane] = shared[threadIdx.x];
        }
        if (depth != 0 || result >= grid.results) continue;
        if (parts != nullptr)
            parts[(int64_t{blockIdx.y} * grid.results + static_cast<int64_t>(result)) * width + lane] = sum[lane];
        else
            sums[target + lane * grid.kept_step] = narrow<T>(sum[lane]);
    }
}

// `deep` threads, a power of two, share a result.
template <class C, class T, int Operands>
__global__ void __launch_bounds__(kPointwiseSumThreads)
    add_splits(const C* parts, T* sums, LongWalk<Operands> kept, int target, uint32_t results, int splits, int deep) {
    const int across = kPointwiseSumThreads / deep, depth = threadIdx.x / across;
    const uint32_t i = blockIdx.x * across + threadIdx.x % across;
    C sum = 0;
    if (i < results)
        for (int split = depth; split < splits; split += deep) sum += parts[int64_t{split} * results + i];
    __shared__ C shared[kPointwiseSumThreads];
    shared[threadIdx.x] = sum;
    for (int half = deep / 2; half > 0; half /= 2) {
        __syncthreads();
        if (depth < half) shared[threadIdx.x] += shared[threadIdx.x + half * across];
    }
    if (depth != 0 || i >= results) return;
    int64_t offset[Operands] = {};
    kept(i, offset);
    int64_t place = 0;
#pragma unroll
    for (int k = 0; k < Operands; ++k)
        if (k == target) place = offset[k];
    sums[place] = narrow<T>(shared[threadIdx.x]);
}

inline int power_of_two_for(int64_t n, int most) {
    int p = 1;
    while (p < most && p < n) p *= 2;
    return p;
}

// Turns the inner axis into vectors where every operand that is present allows it.
template <int Operands>
bool make_sum_vectors(SumLayout<Operands>* plan, int inputs, int lanes, const bool* present, unsigned* broadcast) {
    Layout<Operands>& along = plan->along_terms ? plan->summed : plan->kept;
    const Layout<Operands>& other = plan->along_terms ? plan->kept : plan->summed;
    const int last = along.rank - 1;
    if (last < 0 || along.extent[last] % lanes != 0 || (plan->along_terms && plan->terms % lanes != 0)) return false;
    for (int k = 0; k < Operands; ++k) {
        if (!present[k]) continue;
        const int64_t step = along.stride[k][last];
        if (step == 0 && k < inputs) {
            *broadcast |= 1u << k;
            continue;
        }
        if (step != 1) return false;
        for (int d = 0; d < last; ++d)
            if (along.stride[k][d] % lanes != 0) return false;
        for (int d = 0; d < other.rank; ++d)
            if (other.stride[k][d] % lanes != 0) return false;
    }
    along.extent[last] /= lanes;
    for (int k = 0; k < Operands; ++k) along.stride[k][last] *= lanes;
    return true;
}

template <class C, class Fn, class T, class... Out, class... In>
Status sum_pass(const Launch& launch, const SumLayout<1 + sizeof...(Out) + sizeof...(In)>& given, int output, const Fn& fn,
                T* sums, const Outputs<T, Out...>& out, const Inputs<In...>& in) {
    constexpr int kIn = sizeof...(In), kOut = 1 + sizeof...(Out), kOperands = kIn + kOut;
    constexpr int kLanes = kVectorBytes / (Outputs<T, Out...>::widest > Inputs<In...>::widest ? Outputs<T, Out...>::widest
                                                                                              : Inputs<In...>::widest);
    constexpr std::make_index_sequence<kOut> each{};
    SumLayout<kOperands> plan = given;
    constexpr int64_t limit = int64_t{1} << 31;
    const int64_t results = plan.kept.numel();
    if (results >= limit || plan.summed.numel() >= limit)
        return fail(Status::kUnsupported,
                    "a gradient sums %lld results of %lld terms, at most 2^31 - 1 of either are supported", (long long)results,
                    (long long)plan.summed.numel());
    SumGrid<kOperands> grid{};
    grid.kept_step = plan.kept.rank > 0 ? plan.kept.stride[kIn + output][plan.kept.rank - 1] : 0;
    bool present[kOperands];
    for (int k = 0; k < kOperands; ++k) present[k] = k < kIn || pointer_at(out.pointer, k - kIn, each) != nullptr;
    bool wide = all_aligned(in.pointer, kLanes, std::index_sequence_for<In...>{});
    wide = wide && all_aligned(out.pointer, kLanes, each) && make_sum_vectors(&plan, kIn, kLanes, present, &grid.broadcast);
    if (!wide) {
        grid.broadcast = 0;
        plan = given;
    }
    const int lanes = wide ? kLanes : 1;
    grid.kept = LongWalk<kOperands>(plan.kept);
    grid.summed = LongWalk<kOperands>(plan.summed);
    grid.results = static_cast<uint32_t>(plan.kept.numel());
    grid.terms = static_cast<uint32_t>(plan.summed.numel());
    grid.part = static_cast<uint32_t>(plan.along_terms ? ceil_div<int64_t>(plan.terms, lanes) : plan.terms);
    grid.along_terms = plan.along_terms;
    grid.output = output;
    grid.target = kIn + output;
    grid.deep = plan.along_terms ? power_of_two_for(grid.part, kPointwiseSumThreads) : power_of_two_for(grid.part, 8);
    grid.across = kPointwiseSumThreads / grid.deep;
    const int64_t blocks = ceil_div<int64_t>(grid.results, grid.across);
    const Grid shape{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(plan.splits)), dim3(kPointwiseSumThreads)};
    C* const parts = plan.splits > 1 ? Carver(launch.workspace).take<C>(plan.splits * results) : nullptr;
    const auto kernel = wide ? pointwise_sum_kernel<kLanes, C, Fn, T, Outputs<T, Out...>, Inputs<In...>>
                             : pointwise_sum_kernel<1, C, Fn, T, Outputs<T, Out...>, Inputs<In...>>;
    BK_TRY(launch_kernel(launch, shape, kernel, fn, out, in, sums, parts, grid));
    if (parts == nullptr) return Status::kOk;
    const int deep = power_of_two_for(plan.splits / 8, kPointwiseSumThreads / 8);
    const int64_t adders = ceil_div<int64_t>(results, kPointwiseSumThreads / deep);
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(adders)), dim3(kPointwiseSumThreads)},
                         add_splits<C, T, kOperands>, static_cast<const C*>(parts), sums, LongWalk<kOperands>(given.kept),
                         kIn + output, static_cast<uint32_t>(results), static_cast<int>(plan.splits), deep);
}

}  // namespace bk
