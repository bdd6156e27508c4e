// SPDX-License-Identifier: Apache-2.0
// CUDA reduction engine: one kernel accumulates items, a second one combines the partials of split results.
//
// The first can store what it computes for each item. `each` are outputs for that, any of them null; they are operands
// of both layouts behind the inputs, and add() returns their values, a Pack or a single one. An item is loaded before
// it is stored, so such an output may alias an input of the same strides.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/layout/layout.h"
#include "core/reduce/combine.cuh"
#include "core/reduce/reduce.h"
#include "core/reduce/reduce_items.cuh"
#include "core/types/vec.h"

namespace bk {

// A block is `block_results` results (or vectors of them) by `result_threads` threads each, both powers of two.
template <int In, int Out>
struct ReduceGrid {
    ReduceWalk<In + Out> kept;
    ReduceWalk<In + 1> reduced;
    int64_t results, items, split_items;  // in vectors along the vectorised axis
    int64_t count;                        // items of a result
    int64_t segment;                      // items that share broadcast inputs; 0: not hoisted
    int64_t kept_step[In + Out];          // between adjacent results of a vector
    int64_t index_step;                   // from lane to lane
    ReduceWalk<In + 1> tail;              // items behind the last vector, one by one
    int64_t tail_items, tail_offset[In + 1];
    int block_results, result_threads;
    bool along_items, dense_results;  // results can be stored as vectors
    unsigned broadcast;               // a bit for each input with stride 0 along the vectorised axis
};

// Writes those results of a thread whose bits are set or, if results are split, their partials.
template <int N, class R, class Out, int Operands>
BK_DEVICE void store_results(const R& reducer, const typename R::Acc (&acc)[N], const Out& out, typename R::Acc* partials,
                             const ReduceGrid<Operands, Out::count>& grid, const int64_t (&base)[Operands + Out::count],
                             int64_t result, [[maybe_unused]] unsigned bits) {
    constexpr int kOut = Out::count;
    const int width = grid.along_items ? 1 : N;
    if constexpr (kFinishes<R> && N > 1 && N * Out::widest <= kVectorBytes) {
        if (grid.dense_results && partials == nullptr && (!kRepeats<R> || bits == (1u << N) - 1)) {
            typename Out::template Vectors<N> y;
#pragma unroll
            for (int lane = 0; lane < N; ++lane) put(y, lane, reducer.finish(acc[lane], grid.count));
            return store_present<N>(out.pointer, base + Operands, y, typename Out::Indices{});
        }
    }
#pragma unroll
    for (int lane = 0; lane < N; ++lane) {
        if (lane >= width) break;
        if (kRepeats<R> && (bits >> lane & 1) == 0) continue;
        if (partials != nullptr) {
            partials[(int64_t{blockIdx.y} * grid.results + result) * width + lane] = acc[lane];
            continue;
        }
        int64_t offset[kOut];
#pragma unroll
        for (int o = 0; o < kOut; ++o) offset[o] = base[Operands + o] + lane * grid.kept_step[Operands + o];
        store_result(reducer, out.pointer, offset, acc[lane], grid.count, 0);
    }
}

// Recomputes those of a thread's accumulators that are lost (core/reduce/reducer.h). Rare, so it is a plain loop.
template <int N, class R, class Grid, class... In, size_t... I>
BK_DEVICE void recompute_lanes(const R& reducer, typename R::Acc (&acc)[N], const Pack<const In*...>& in, const int64_t* base,
                               const Grid& grid, int thread_rank, std::index_sequence<I...> inputs) {
    constexpr int kIn = sizeof...(In);
    typename R::Acc again[N];
#pragma unroll
    for (int lane = 0; lane < N; ++lane) again[lane] = reducer.start_again();
    int64_t from[kIn + 1];
#pragma unroll
    for (int k = 0; k <= kIn; ++k) from[k] = k < kIn ? base[k] : 0;
    const int64_t begin = int64_t{blockIdx.y} * grid.split_items, end = min(begin + grid.split_items, grid.items);
    recompute_lost<N>(reducer, acc, again, in, from, grid.reduced, begin + thread_rank, end, grid.result_threads,
                      grid.along_items ? grid.index_step : 0, grid.broadcast, inputs);
    if (grid.tail_items > 0 && blockIdx.y + 1 == gridDim.y) {
        typename R::Acc one[1] = {acc[0]}, one_again[1] = {again[0]};
#pragma unroll
        for (int k = 0; k <= kIn; ++k) from[k] += grid.tail_offset[k];
        recompute_lost<1>(reducer, one, one_again, in, from, grid.tail, thread_rank, grid.tail_items, grid.result_threads, 0, 0,
                          inputs);
        acc[0] = one[0];
        again[0] = one_again[0];
    }
#pragma unroll
    for (int lane = 0; lane < N; ++lane)
        if (reducer.is_lost(acc[lane])) acc[lane] = reducer.end_again(again[lane]);
}

// Writes the results or, if they are split, `partials`, stored split by split.
template <int N, class R, class Out, class In, class Each>
__global__ void __launch_bounds__(kReduceThreads, kReduceMinBlocks<R, In, Each>)
    reduce_kernel(R first_reducer, Out out, In in, Each each, typename R::Acc* partials,
                  ReduceGrid<In::count + Each::count, Out::count> grid) {
    using Acc = typename R::Acc;
    constexpr int kIn = In::count, kOperands = kIn + Each::count, kOut = Out::count;
    constexpr typename In::Indices kInputs{};
    const int slot = grid.along_items ? threadIdx.x / grid.result_threads : threadIdx.x % grid.block_results;
    const int thread_rank = grid.along_items ? threadIdx.x % grid.result_threads : threadIdx.x / grid.block_results;
    const int64_t result = int64_t{blockIdx.x} * grid.block_results + slot;
    const bool exists = result < grid.results;
    int64_t base[kOperands + kOut] = {};
    if (exists) grid.kept(result, base);
    const int width = grid.along_items ? 1 : N;  // results a thread
    const bool has_results = thread_rank == 0 && exists;
    unsigned bits = (1u << width) - 1;  // results that this pass decides
    [[maybe_unused]] unsigned down_bits = 0, up_bits = 0;
    Acc acc[N];
    for (int pass = 0;;) {
        const R reducer = in_pass(first_reducer, pass);
#pragma unroll
        for (int lane = 0; lane < N; ++lane) acc[lane] = reducer.identity();
        if (exists) {
            const int64_t begin = int64_t{blockIdx.y} * grid.split_items, end = min(begin + grid.split_items, grid.items);
            const int64_t lane_step = grid.along_items ? grid.index_step : 0;
            const int64_t mine = begin + thread_rank;
            if (mine < end) {
                int64_t offset[kOperands + 1];
#pragma unroll
                for (int k = 0; k <= kOperands; ++k) offset[k] = k < kOperands ? base[k] : 0;
                grid.reduced(mine, offset);
                start_lanes<N>(reducer, acc, load_all<N, kAlwaysVectors<R>>(in.pointer, offset, grid.broadcast, kInputs),
                               kInputs);
                const bool hoists_broadcast = kHoistsBroadcast<R, In, Each> && grid.segment > 0;
                if (hoists_broadcast)
                    add_segments_broadcast<N>(reducer, acc, in.pointer, base, grid, begin, end, thread_rank, kInputs);
                else if (grid.reduced.rank <= 1)
                    add_axis<N>(reducer, acc, in.pointer, each, base, grid, mine, end, lane_step, kInputs);
                else
                    add_walk<N>(reducer, acc, in.pointer, each, base, grid, mine, end, lane_step, kInputs);
            }
            if (grid.tail_items > 0 && blockIdx.y + 1 == gridDim.y) {
                bool first = mine >= end;
                for (int64_t t = thread_rank; t < grid.tail_items; t += grid.result_threads) {
                    int64_t offset[kOperands + 1];
#pragma unroll
                    for (int k = 0; k <= kOperands; ++k) offset[k] = grid.tail_offset[k] + (k < kOperands ? base[k] : 0);
                    grid.tail(t, offset);
                    Acc one[1] = {acc[0]};
                    const auto x = load_all<1, false>(in.pointer, offset, 0, kInputs);
                    if (first) start_lanes<1>(reducer, one, x, kInputs);
                    add_lanes<1>(reducer, one, offset[kOperands], 0, each, offset + kIn, x, kInputs);
                    settle(reducer, one[0], 1, 0);
                    acc[0] = one[0];
                    first = false;
                }
            }
        }
        if constexpr (kMayBeLost<R> && Each::count == 0) {
            bool are_lost = false;
#pragma unroll
            for (int lane = 0; lane < N; ++lane) are_lost = are_lost || reducer.is_lost(acc[lane]);
            if (are_lost && exists) recompute_lanes<N>(reducer, acc, in.pointer, base, grid, thread_rank, kInputs);
        }
        if (grid.along_items) {
#pragma unroll
            for (int lane = 1; lane < N; ++lane) acc[0] = reducer.combine(acc[0], acc[lane]);
            acc[0] = combine_adjacent(reducer, acc[0], grid.result_threads, thread_rank);
        } else {
            combine_strided<N>(reducer, acc, grid.result_threads, grid.block_results, thread_rank);
        }
        if constexpr (kRepeats<R>) {
#pragma unroll
            for (int lane = 0; lane < N; ++lane) {
                if (!has_results || lane >= width) break;
                const int wanted = pass == 0 ? pass_of(reducer, acc[lane]) : 0;
                stamp(reducer, acc[lane]);
                down_bits |= (wanted == 1 ? 1u : 0u) << lane;
                up_bits |= (wanted == 2 ? 1u : 0u) << lane;
            }
            if (pass == 0) bits &= ~(down_bits | up_bits);
        }
        if (has_results) store_results<N>(first_reducer, acc, out, partials, grid, base, result, bits);
        if constexpr (!kRepeats<R>) {
            return;
        } else {
            // Threads that combine must make the same passes.
            const bool by_warp = grid.along_items && grid.result_threads <= 32;
            const auto any = [&](bool flag) { return by_warp ? __any_sync(0xffffffffu, flag) : __syncthreads_or(flag); };
            if (pass == 0 && !any((down_bits | up_bits) != 0)) return;
            if (pass == 0 && any(down_bits != 0)) {
                pass = 1;
                bits = down_bits;
            } else if (pass <= 1 && any(up_bits != 0)) {
                pass = 2;
                bits = up_bits;
            } else {
                return;
            }
        }
    }
}

// Launch configuration: vectors, if any, and splits. Operands are the inputs, then what is stored of each item.
template <int Operands, int Out>
struct ReduceLaunch {
    ReducePlan<Operands, Out> plan;      // the vectorised axis counts vectors
    Layout<Operands + Out> single_kept;  // without vectors
    Layout<Operands + 1> tail;
    int64_t tail_offset[Operands + 1] = {};
    int64_t index_step = 0, kept_step[Operands + Out] = {};
    unsigned broadcast = 0;
    int lanes = 1, result_threads = 1;
    int64_t splits = 1, split_items = 0, segment = 0;
};

// Operands of a problem: the first `inputs` are inputs; `present` has a bit for each of the others that exists.
struct ReduceOperands {
    int lanes, inputs;
    unsigned present;
    int64_t item_bytes, max_blocks;
    int resident;  // blocks of an SM, 0 if unknown

    bool has(int operand) const { return operand < inputs || (present >> (operand - inputs) & 1) != 0; }
};

// Vectorises the inner axis if the operands allow it. Results must be whole vectors; items behind the last vector are
// the tail, all of them if `always` and they are few.
template <int Operands, int Out>
bool vectorize_reduce(ReduceLaunch<Operands, Out>* first_reducer, const ReduceOperands& operands, bool always) {
    ReducePlan<Operands, Out>& plan = first_reducer->plan;
    const int lanes = operands.lanes;
    if (always && plan.reduced.rank == 0) {  // a single item
        plan.reduced.rank = 1;
        plan.reduced.extent[0] = 1;
        for (int k = 0; k <= Operands; ++k) plan.reduced.stride[k][0] = 1;
    }
    const auto stride = [&](bool of_items, int k, int d) {
        return of_items ? plan.reduced.stride[k][d] : plan.kept.stride[k][d];
    };
    const int last = (plan.along_items ? plan.reduced.rank : plan.kept.rank) - 1;
    const int other = plan.along_items ? plan.kept.rank : plan.reduced.rank;
    if (last < 0) return false;
    int64_t& extent = plan.along_items ? plan.reduced.extent[last] : plan.kept.extent[last];
    if ((extent < lanes && !always) || (!plan.along_items && extent % lanes != 0)) return false;
    unsigned broadcast = 0;
    for (int k = 0; k < Operands; ++k) {
        if (!operands.has(k)) continue;
        const int64_t step = stride(plan.along_items, k, last);
        if (step == 0 && k < operands.inputs) {
            broadcast |= 1u << k;
            continue;
        }
        if (step != 1) return false;
        for (int d = 0; d < last; ++d)
            if (stride(plan.along_items, k, d) % lanes != 0) return false;
        for (int d = 0; d < other; ++d)
            if (stride(!plan.along_items, k, d) % lanes != 0) return false;
    }
    first_reducer->lanes = lanes;
    first_reducer->broadcast = broadcast;
    if (plan.along_items) {
        first_reducer->index_step = plan.reduced.stride[Operands][last];
        first_reducer->tail = plan.reduced;
        first_reducer->tail.extent[last] = extent % lanes;
        extent /= lanes;
        for (int k = 0; k <= Operands; ++k) {
            first_reducer->tail_offset[k] = extent * lanes * plan.reduced.stride[k][last];
            plan.reduced.stride[k][last] *= lanes;
        }
    } else {
        extent /= lanes;
        for (int k = 0; k < Operands + Out; ++k) {
            first_reducer->kept_step[k] = plan.kept.stride[k][last];
            plan.kept.stride[k][last] *= lanes;
        }
    }
    return true;
}

// Whether every output can store vectors of results.
template <int Operands, int Out>
bool has_dense_results(const ReduceLaunch<Operands, Out>& config) {
    if (config.lanes == 1 || config.plan.along_items) return false;
    const Layout<Operands + Out>& kept = config.plan.kept;
    for (int k = Operands; k < Operands + Out; ++k) {
        if (config.kept_step[k] != 1) return false;
        for (int d = 0; d < kept.rank; ++d)
            if (kept.stride[k][d] % config.lanes != 0) return false;
    }
    return true;
}

// Gives absent operands the strides of the first input, so that they do not prevent merging axes.
template <int Operands, int Out>
void alias_absent(ReduceAxes<Operands, Out>* axes, const ReduceOperands& operands) {
    for (int k = 0; k < Operands; ++k) {
        if (operands.has(k)) continue;
        std::copy_n(axes->kept.stride[0], kMaxRank, axes->kept.stride[k]);
        std::copy_n(axes->reduced.stride[0], kMaxRank, axes->reduced.stride[k]);
    }
}

// Items of the last axis if inputs from `varying` on are broadcast along all reduced axes and segments are long enough
// for the threads of a result, which may be made fewer for it; else 0.
template <int Operands, int Out>
int64_t broadcast_segment(const ReducePlan<Operands, Out>& plan, int varying, int* result_threads) {
    const int last = plan.reduced.rank - 1;
    if (last < 0) return 0;
    for (int k = varying; k < Operands; ++k)
        for (int d = 0; d <= last; ++d)
            if (plan.reduced.stride[k][d] != 0) return 0;
    const int64_t segment = plan.reduced.extent[last], enough = segment / kReduceUnroll;
    if (last == 0) return segment;
    if (plan.along_items && enough >= 32)
        while (*result_threads > enough) *result_threads /= 2;
    return *result_threads > enough ? 0 : segment;
}

template <class R, int Operands, int Out>
BK_COLD ReduceLaunch<Operands, Out> plan_reduce_launch(ReduceAxes<Operands, Out> axes, const ReduceOperands& operands) {
    alias_absent(&axes, operands);
    ReduceLaunch<Operands, Out> config;
    config.plan = plan_reduce<R>(axes, operands.inputs);
    config.single_kept = config.plan.kept;
    const bool is_vectorized = operands.lanes > 1 && vectorize_reduce(&config, operands, kAlwaysVectors<R>);
    const ReducePlan<Operands, Out>& plan = config.plan;
    const int64_t results = plan.kept.numel(), items = plan.reduced.numel();
    const int64_t wanted = ceil_div<int64_t>(items, kReduceUnroll);
    if (plan.along_items) {
        // Few results take a block each. Many take a warp, which needs no barrier, or more threads that have
        // kReduceMinVectors each: combining a whole block doubles the time of rows of 1024 vectors. Many short results
        // take as few threads as still read whole cache lines.
        const int64_t most = results <= 1024 ? kReduceThreads : items / kReduceMinVectors;
        config.result_threads = power_of_two_for(wanted, most >= kReduceThreads ? kReduceThreads
                                                         : most >= 128          ? 128
                                                         : most >= 64           ? 64
                                                                                : 32);
        while (config.result_threads > kReduceMinThreads && config.result_threads <= 32 &&
               results * config.result_threads > kReduceManyThreads)
            config.result_threads /= 2;
    } else {
        // A block has enough adjacent results to fill a cache line, if there are so many.
        const int least = power_of_two_for(results, is_vectorized ? 16 : 32);
        const int most = results >= (int64_t{1} << 18) ? 1 : kReduceThreads / least;
        config.result_threads = power_of_two_for(wanted, most);
    }
    if constexpr (kVaryingInputsOf<R> < Operands)
        config.segment = broadcast_segment(plan, kVaryingInputsOf<R>, &config.result_threads);
    const int64_t blocks = ceil_div<int64_t>(results, kReduceThreads / config.result_threads);
    const int64_t bytes = plan.items * operands.item_bytes *
                          (plan.along_items ? 1 : int64_t{config.lanes} * (kReduceThreads / config.result_threads));
    config.splits = reduce_splits(blocks, operands.max_blocks, bytes, items / (int64_t{config.result_threads} * kReduceUnroll),
                                  operands.resident);
    config.split_items = std::max<int64_t>(ceil_div(items, config.splits), 1);
    if (config.segment > 0 && plan.reduced.rank > 1)
        config.split_items = ceil_div(config.split_items, config.segment) * config.segment;
    config.splits = std::max<int64_t>(ceil_div(items, config.split_items), 1);
    return config;
}

template <class In, class Each>
constexpr int kReduceLanes = kVectorBytes / (In::widest > Each::widest ? In::widest : Each::widest);

template <class R, class... In, class... Each>
ReduceOperands reduce_operands(Inputs<In...>, Outputs<Each...>, bool aligned, unsigned present) {
    return {aligned ? kReduceLanes<Inputs<In...>, Outputs<Each...>> : 1,
            sizeof...(In),
            present,
            (int64_t{0} + ... + int64_t{sizeof(In)}) + (int64_t{0} + ... + int64_t{sizeof(Each)}),
            kReduceBlocks<Outputs<Each...>>,
            sizeof...(Each) > 0 ? 0 : kReduceMinBlocks<R, Inputs<In...>, Outputs<Each...>>};
}

template <class Acc, int Operands, int Out>
Acc* carve_partials(Carver* carver, const ReduceLaunch<Operands, Out>& config, int64_t results) {
    return config.splits > 1 ? carver->take<Acc>(config.splits * results) : nullptr;
}

// The size serves any of `Each` being present: they decide only whether there are vectors.
template <class R, class In, class Each, int Operands, int Out>
size_t reduce_each_workspace(const ReduceAxes<Operands, Out>& axes) {
    static_assert(In::count + Each::count == Operands, "a type for each operand of an item");
    size_t bytes = 0;
    if (axes.kept.is_empty()) return 0;
    for (const bool aligned : {false, true}) {
        Carver carver;
        carve_partials<typename R::Acc>(
            &carver, plan_reduce_launch<R>(axes, reduce_operands<R>(In{}, Each{}, aligned || kAlwaysVectors<R>, 0)),
            axes.kept.numel());
        bytes = std::max(bytes, carver.bytes());
    }
    return bytes;
}

template <class R, class... In, int I, int O>
size_t reduce_workspace(const ReduceAxes<I, O>& axes) {
    return reduce_each_workspace<R, Inputs<In...>, Outputs<>>(axes);
}

template <class... T, size_t... I>
unsigned present_of(const Pack<T*...>& pointers, std::index_sequence<I...>) {
    return (0u | ... | (get<I>(pointers) != nullptr ? 1u << I : 0u));
}

template <class R, class... Out, class... In, class... Each>
Status reduce_each(const Launch& launch, const ReduceAxes<sizeof...(In) + sizeof...(Each), sizeof...(Out)>& axes,
                   const R& reducer, const Outputs<Out...>& out, const Inputs<In...>& in, const Outputs<Each...>& each) {
    using Acc = typename R::Acc;
    using To = Outputs<Out...>;
    using From = Inputs<In...>;
    using Also = Outputs<Each...>;
    constexpr int kOperands = sizeof...(In) + sizeof...(Each), kOut = sizeof...(Out), kLanes = kReduceLanes<From, Also>;
    constexpr std::index_sequence_for<Out...> kOutputs{};
    constexpr std::index_sequence_for<Each...> kEach{};
    static_assert(sizeof(Acc) <= 40 && std::is_trivially_copyable_v<R>, "see reduce.h");
    static_assert(!kAlwaysVectors<R> || kLanes > 1, "elements of a vector");
    if (axes.kept.is_empty()) return Status::kOk;
    const bool found = launch.workspace != nullptr && workspace_holds(launch, reduce_each_workspace<R, From, Also>(axes));
    const bool aligned =
        all_aligned(in.pointer, kLanes, std::index_sequence_for<In...>{}) && all_aligned(each.pointer, kLanes, kEach);
    ReduceLaunch<kOperands, kOut> config = plan_reduce_launch<R>(
        axes, reduce_operands<R>(in, each, aligned || kAlwaysVectors<R>, present_of(each.pointer, kEach)));
    const ReducePlan<kOperands, kOut>& plan = config.plan;
    ReduceGrid<kOperands, kOut> grid{};
    grid.kept = ReduceWalk<kOperands + kOut>(plan.kept);
    grid.reduced = ReduceWalk<kOperands + 1>(plan.reduced);
    grid.results = plan.kept.numel();
    grid.items = plan.reduced.numel();
    if (!found) config.splits = 1, config.split_items = grid.items;
    grid.split_items = config.split_items;
    grid.segment = config.segment;
    grid.count = plan.items;
    std::copy_n(config.kept_step, kOperands + kOut, grid.kept_step);
    grid.index_step = config.index_step;
    grid.tail = ReduceWalk<kOperands + 1>(config.tail);
    grid.tail_items = config.tail.rank > 0 ? config.tail.numel() : 0;
    std::copy_n(config.tail_offset, kOperands + 1, grid.tail_offset);
    grid.result_threads = config.result_threads;
    grid.block_results = kReduceThreads / config.result_threads;
    grid.along_items = plan.along_items;
    grid.dense_results = has_dense_results(config) && all_aligned(out.pointer, config.lanes, kOutputs);
    grid.broadcast = config.broadcast | (aligned || config.lanes == 1 ? 0u : ((1u << sizeof...(In)) - 1) << kUnalignedBit);
    Carver carver(launch.workspace);
    Acc* const partials = carve_partials<Acc>(&carver, config, plan.results);
    const int64_t blocks = ceil_div<int64_t>(grid.results, grid.block_results);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld results are too many for one launch", (long long)plan.results);
    const Grid shape{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(config.splits)), dim3(kReduceThreads)};
    auto kernel = reduce_kernel<kLanes, R, To, From, Also>;
    if constexpr (!kAlwaysVectors<R>)
        if (config.lanes == 1) kernel = reduce_kernel<1, R, To, From, Also>;
    BK_TRY(launch_kernel(launch, shape, kernel, reducer, out, in, each, partials, grid));
    if (partials == nullptr) return Status::kOk;
    Layout<kOut> results;
    results.rank = config.single_kept.rank;
    std::copy_n(config.single_kept.extent, kMaxRank, results.extent);
    for (int o = 0; o < kOut; ++o) std::copy_n(config.single_kept.stride[kOperands + o], kMaxRank, results.stride[o]);
    return combine_splits(launch, combiner_of(reducer, 0), out, partials, results, config.splits, plan.items);
}

template <class R, class... Out, class... In>
Status reduce(const Launch& launch, const ReduceAxes<sizeof...(In), sizeof...(Out)>& axes, const R& reducer,
              const Outputs<Out...>& out, const Inputs<In...>& in) {
    return reduce_each(launch, axes, reducer, out, in, Outputs<>{});
}

}  // namespace bk
