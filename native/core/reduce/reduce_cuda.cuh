// A kernel that collects terms and one that combines the parts of results that were split.
//
// What is made of each term can be stored by the kernel that collects it. `each` are outputs for that, any of them null, which
// are operands of both layouts behind the inputs; add() returns their values, a Pack or a single one. Loads of a term precede
// its stores, so such an output may be an input of the same strides.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/layout.h"
#include "core/reduce/combine.cuh"
#include "core/reduce/reduce.h"
#include "core/reduce/reduce_terms.cuh"
#include "core/types/vec.h"

namespace bk {

// A block is `across` results (or vectors of them) by `deep` threads that share each, all powers of two.
template <int In, int Out>
struct ReduceGrid {
    ReduceWalk<In + Out> kept;
    ReduceWalk<In + 1> reduced;
    int64_t results, terms, part;  // in vectors along the axis that has them; a part is blockIdx.y's
    int64_t count;                 // of a result's terms
    int64_t line;  // terms that take what stands still beside them, of which a part has whole lines or none; or 0
    int64_t kept_step[In + Out];  // along the axis of vectors, of results that are neighbours
    int64_t index_step;           // from lane to lane
    ReduceWalk<In + 1> tail;      // terms behind the last vectors, one by one
    int64_t tail_terms, tail_offset[In + 1];
    int across, deep;
    bool along_terms, dense_results;  // whose vectors are stored as such
    unsigned broadcast;               // a bit for each input that stands still along the vectors' axis
};

// Writes those results of a thread whose bits are set or, where results are split, their part.
template <int N, class R, class Out, int Places>
BK_DEVICE void store_results(const R& reducer, const typename R::Acc (&acc)[N], const Out& out, typename R::Acc* parts,
                             const ReduceGrid<Places, Out::count>& grid, const int64_t (&base)[Places + Out::count],
                             int64_t result, [[maybe_unused]] unsigned bits) {
    constexpr int kOut = Out::count;
    const int width = grid.along_terms ? 1 : N;
    if constexpr (kFinishes<R> && N > 1 && N * Out::widest <= kVectorBytes) {
        if (grid.dense_results && parts == nullptr && (!kRepeats<R> || bits == (1u << N) - 1)) {
            typename Out::template Vectors<N> y;
#pragma unroll
            for (int lane = 0; lane < N; ++lane) put(y, lane, reducer.finish(acc[lane], grid.count));
            return store_present<N>(out.pointer, base + Places, y, typename Out::Indices{});
        }
    }
#pragma unroll
    for (int lane = 0; lane < N; ++lane) {
        if (lane >= width) break;
        if (kRepeats<R> && (bits >> lane & 1) == 0) continue;
        if (parts != nullptr) {
            parts[(int64_t{blockIdx.y} * grid.results + result) * width + lane] = acc[lane];
            continue;
        }
        int64_t offset[kOut];
#pragma unroll
        for (int o = 0; o < kOut; ++o) offset[o] = base[Places + o] + lane * grid.kept_step[Places + o];
        store_result(reducer, out.pointer, offset, acc[lane], grid.count, 0);
    }
}

// Collects a thread's terms again for those of its Accs that are lost (core/reduce/reducer.h). Rare, so it is a plain loop.
template <int N, class R, class Grid, class... In, size_t... I>
BK_DEVICE void collect_again(const R& reducer, typename R::Acc (&acc)[N], const Pack<const In*...>& in, const int64_t* base,
                             const Grid& grid, int depth, std::index_sequence<I...> inputs) {
    constexpr int kIn = sizeof...(In);
    typename R::Acc again[N];
#pragma unroll
    for (int lane = 0; lane < N; ++lane) again[lane] = reducer.start_again();
    int64_t from[kIn + 1];
#pragma unroll
    for (int k = 0; k <= kIn; ++k) from[k] = k < kIn ? base[k] : 0;
    const int64_t begin = int64_t{blockIdx.y} * grid.part, end = min(begin + grid.part, grid.terms);
    find_lost<N>(reducer, acc, again, in, from, grid.reduced, begin + depth, end, grid.deep,
                 grid.along_terms ? grid.index_step : 0, grid.broadcast, inputs);
    if (grid.tail_terms > 0 && blockIdx.y + 1 == gridDim.y) {
        typename R::Acc one[1] = {acc[0]}, one_again[1] = {again[0]};
#pragma unroll
        for (int k = 0; k <= kIn; ++k) from[k] += grid.tail_offset[k];
        find_lost<1>(reducer, one, one_again, in, from, grid.tail, depth, grid.tail_terms, grid.deep, 0, 0, inputs);
        acc[0] = one[0];
        again[0] = one_again[0];
    }
#pragma unroll
    for (int lane = 0; lane < N; ++lane)
        if (reducer.is_lost(acc[lane])) acc[lane] = reducer.end_again(again[lane]);
}

// Writes the results or, where they are split, `parts`, one part of every result after another.
template <int N, class R, class Out, class In, class Each>
__global__ void __launch_bounds__(kReduceThreads, kReduceResident<R, In, Each>)
    reduce_kernel(R given, Out out, In in, Each each, typename R::Acc* parts,
                  ReduceGrid<In::count + Each::count, Out::count> grid) {
    using Acc = typename R::Acc;
    constexpr int kIn = In::count, kPlaces = kIn + Each::count, kOut = Out::count;
    constexpr typename In::Indices kInputs{};
    const int across = grid.along_terms ? threadIdx.x / grid.deep : threadIdx.x % grid.across;
    const int depth = grid.along_terms ? threadIdx.x % grid.deep : threadIdx.x / grid.across;
    const int64_t result = int64_t{blockIdx.x} * grid.across + across;
    const bool exists = result < grid.results;
    int64_t base[kPlaces + kOut] = {};
    if (exists) grid.kept(result, base);
    const int width = grid.along_terms ? 1 : N;  // results a thread
    const bool has_results = depth == 0 && exists;
    unsigned bits = (1u << width) - 1;  // of the results of a pass
    [[maybe_unused]] unsigned of_down = 0, of_up = 0;
    Acc acc[N];
    for (int pass = 0;;) {
        const R reducer = in_pass(given, pass);
#pragma unroll
        for (int lane = 0; lane < N; ++lane) acc[lane] = reducer.identity();
        if (exists) {
            const int64_t begin = int64_t{blockIdx.y} * grid.part, end = min(begin + grid.part, grid.terms);
            const int64_t lane_step = grid.along_terms ? grid.index_step : 0;
            const int64_t mine = begin + depth;
            if (mine < end) {
                int64_t offset[kPlaces + 1];
#pragma unroll
                for (int k = 0; k <= kPlaces; ++k) offset[k] = k < kPlaces ? base[k] : 0;
                grid.reduced(mine, offset);
                start_lanes<N>(reducer, acc, load_all<N, kAlwaysVectors<R>>(in.pointer, offset, grid.broadcast, kInputs),
                               kInputs);
                const bool looks_once = kLooksOnce<R, In, Each> && grid.line > 0;
                if (looks_once)
                    add_lines_beside<N>(reducer, acc, in.pointer, base, grid, begin, end, depth, kInputs);
                else if (grid.reduced.rank <= 1)
                    add_line<N>(reducer, acc, in.pointer, each, base, grid, mine, end, lane_step, kInputs);
                else
                    add_walk<N>(reducer, acc, in.pointer, each, base, grid, mine, end, lane_step, kInputs);
            }
            if (grid.tail_terms > 0 && blockIdx.y + 1 == gridDim.y) {
                bool first = mine >= end;
                for (int64_t t = depth; t < grid.tail_terms; t += grid.deep) {
                    int64_t offset[kPlaces + 1];
#pragma unroll
                    for (int k = 0; k <= kPlaces; ++k) offset[k] = grid.tail_offset[k] + (k < kPlaces ? base[k] : 0);
                    grid.tail(t, offset);
                    Acc one[1] = {acc[0]};
                    const auto x = load_all<1, false>(in.pointer, offset, 0, kInputs);
                    if (first) start_lanes<1>(reducer, one, x, kInputs);
                    add_lanes<1>(reducer, one, offset[kPlaces], 0, each, offset + kIn, x, kInputs);
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
            if (are_lost && exists) collect_again<N>(reducer, acc, in.pointer, base, grid, depth, kInputs);
        }
        if (grid.along_terms) {
#pragma unroll
            for (int lane = 1; lane < N; ++lane) acc[0] = reducer.combine(acc[0], acc[lane]);
            acc[0] = combine_neighbours(reducer, acc[0], grid.deep, depth);
        } else {
            combine_depths<N>(reducer, acc, grid.deep, grid.across, depth);
        }
        if constexpr (kRepeats<R>) {
#pragma unroll
            for (int lane = 0; lane < N; ++lane) {
                if (!has_results || lane >= width) break;
                const int wanted = pass == 0 ? pass_of(reducer, acc[lane]) : 0;
                stamp(reducer, acc[lane]);
                of_down |= (wanted == 1 ? 1u : 0u) << lane;
                of_up |= (wanted == 2 ? 1u : 0u) << lane;
            }
            if (pass == 0) bits &= ~(of_down | of_up);
        }
        if (has_results) store_results<N>(given, acc, out, parts, grid, base, result, bits);
        if constexpr (!kRepeats<R>) {
            return;
        } else {
            // Threads that combine go through the same passes.
            const bool by_warp = grid.along_terms && grid.deep <= 32;
            const auto any = [&](bool is_one) { return by_warp ? __any_sync(0xffffffffu, is_one) : __syncthreads_or(is_one); };
            if (pass == 0 && !any((of_down | of_up) != 0)) return;
            if (pass == 0 && any(of_down != 0)) {
                pass = 1;
                bits = of_down;
            } else if (pass <= 1 && any(of_up != 0)) {
                pass = 2;
                bits = of_up;
            } else {
                return;
            }
        }
    }
}

// The form of a plan that a launch takes: its vectors, if there are any, and its parts. Places are the inputs, then what is
// stored of each term.
template <int Places, int Out>
struct ReduceLaunch {
    ReducePlan<Places, Out> plan;      // the axis of vectors counts them
    Layout<Places + Out> single_kept;  // without vectors
    Layout<Places + 1> tail;
    int64_t tail_offset[Places + 1] = {};
    int64_t index_step = 0, kept_step[Places + Out] = {};
    unsigned broadcast = 0;
    int lanes = 1, deep = 1;
    int64_t splits = 1, part = 0, line = 0;
};

// Operands of a problem: places of which the first `inputs` are inputs, and a bit for each of the others that is there.
struct ReduceOperands {
    int lanes, inputs;
    unsigned present;
    int64_t term_bytes, most_blocks;
    int resident;  // blocks of a multiprocessor, or 0 where that is not known

    bool has(int place) const { return place < inputs || (present >> (place - inputs) & 1) != 0; }
};

// Turns the inner axis into vectors where the operands allow it. Results take whole vectors only; what is left of a line of
// terms is its tail, and all of it where `always` and it is short.
template <int Places, int Out>
bool make_reduce_vectors(ReduceLaunch<Places, Out>* given, const ReduceOperands& operands, bool always) {
    ReducePlan<Places, Out>& plan = given->plan;
    const int lanes = operands.lanes;
    if (always && plan.reduced.rank == 0) {  // a single term
        plan.reduced.rank = 1;
        plan.reduced.extent[0] = 1;
        for (int k = 0; k <= Places; ++k) plan.reduced.stride[k][0] = 1;
    }
    const auto stride = [&](bool of_terms, int k, int d) {
        return of_terms ? plan.reduced.stride[k][d] : plan.kept.stride[k][d];
    };
    const int last = (plan.along_terms ? plan.reduced.rank : plan.kept.rank) - 1;
    const int other = plan.along_terms ? plan.kept.rank : plan.reduced.rank;
    if (last < 0) return false;
    int64_t& extent = plan.along_terms ? plan.reduced.extent[last] : plan.kept.extent[last];
    if ((extent < lanes && !always) || (!plan.along_terms && extent % lanes != 0)) return false;
    unsigned broadcast = 0;
    for (int k = 0; k < Places; ++k) {
        if (!operands.has(k)) continue;
        const int64_t step = stride(plan.along_terms, k, last);
        if (step == 0 && k < operands.inputs) {
            broadcast |= 1u << k;
            continue;
        }
        if (step != 1) return false;
        for (int d = 0; d < last; ++d)
            if (stride(plan.along_terms, k, d) % lanes != 0) return false;
        for (int d = 0; d < other; ++d)
            if (stride(!plan.along_terms, k, d) % lanes != 0) return false;
    }
    given->lanes = lanes;
    given->broadcast = broadcast;
    if (plan.along_terms) {
        given->index_step = plan.reduced.stride[Places][last];
        given->tail = plan.reduced;
        given->tail.extent[last] = extent % lanes;
        extent /= lanes;
        for (int k = 0; k <= Places; ++k) {
            given->tail_offset[k] = extent * lanes * plan.reduced.stride[k][last];
            plan.reduced.stride[k][last] *= lanes;
        }
    } else {
        extent /= lanes;
        for (int k = 0; k < Places + Out; ++k) {
            given->kept_step[k] = plan.kept.stride[k][last];
            plan.kept.stride[k][last] *= lanes;
        }
    }
    return true;
}

// Whether vectors of results lie whole in every output.
template <int Places, int Out>
bool has_dense_results(const ReduceLaunch<Places, Out>& made) {
    if (made.lanes == 1 || made.plan.along_terms) return false;
    const Layout<Places + Out>& kept = made.plan.kept;
    for (int k = Places; k < Places + Out; ++k) {
        if (made.kept_step[k] != 1) return false;
        for (int d = 0; d < kept.rank; ++d)
            if (kept.stride[k][d] % made.lanes != 0) return false;
    }
    return true;
}

// Places that are absent lie as the first input does, so that they hinder no merging of axes.
template <int Places, int Out>
void forget_absent(ReduceAxes<Places, Out>* axes, const ReduceOperands& operands) {
    for (int k = 0; k < Places; ++k) {
        if (operands.has(k)) continue;
        std::copy_n(axes->kept.stride[0], kMaxRank, axes->kept.stride[k]);
        std::copy_n(axes->reduced.stride[0], kMaxRank, axes->reduced.stride[k]);
    }
}

// Terms along the last axis, if inputs from `moving` on stand still along all of them, and lines of a walk are long enough for
// the threads of a result, which may be made fewer for it.
template <int Places, int Out>
int64_t still_line(const ReducePlan<Places, Out>& plan, int moving, int* deep) {
    const int last = plan.reduced.rank - 1;
    if (last < 0) return 0;
    for (int k = moving; k < Places; ++k)
        for (int d = 0; d <= last; ++d)
            if (plan.reduced.stride[k][d] != 0) return 0;
    const int64_t line = plan.reduced.extent[last], enough = line / kReduceRound;
    if (last == 0) return line;
    if (plan.along_terms && enough >= 32)
        while (*deep > enough) *deep /= 2;
    return *deep > enough ? 0 : line;
}

template <class R, int Places, int Out>
BK_COLD ReduceLaunch<Places, Out> plan_reduce_launch(ReduceAxes<Places, Out> axes, const ReduceOperands& operands) {
    forget_absent(&axes, operands);
    ReduceLaunch<Places, Out> made;
    made.plan = plan_reduce<R>(axes, operands.inputs);
    made.single_kept = made.plan.kept;
    const bool wide = operands.lanes > 1 && make_reduce_vectors(&made, operands, kAlwaysVectors<R>);
    const ReducePlan<Places, Out>& plan = made.plan;
    const int64_t results = plan.kept.numel(), terms = plan.reduced.numel();
    const int64_t wanted = ceil_div<int64_t>(terms, kReduceRound);
    if (plan.along_terms) {
        // Few results take a block each. Many take a warp, which needs no barrier, or as many more threads as have
        // kReduceLeastTerms each: combining a whole block's doubles the time of rows of 1024 vectors. Of many short results
        // each takes as few threads as still read whole cache lines.
        const int64_t most = results <= 1024 ? kReduceThreads : terms / kReduceLeastTerms;
        made.deep = shared_by(wanted, most >= kReduceThreads ? kReduceThreads : most >= 128 ? 128 : most >= 64 ? 64 : 32);
        while (made.deep > kReduceLeast && made.deep <= 32 && results * made.deep > kReduceManyThreads) made.deep /= 2;
    } else {
        // Neighbouring results are as many as fill a line of memory, if there are so many.
        const int least = shared_by(results, wide ? 16 : 32);
        const int most = results >= (int64_t{1} << 18) ? 1 : kReduceThreads / least;
        made.deep = shared_by(wanted, most);
    }
    if constexpr (kMovingOf<R> < Places) made.line = still_line(plan, kMovingOf<R>, &made.deep);
    const int64_t blocks = ceil_div<int64_t>(results, kReduceThreads / made.deep);
    const int64_t bytes =
        plan.terms * operands.term_bytes * (plan.along_terms ? 1 : int64_t{made.lanes} * (kReduceThreads / made.deep));
    made.splits =
        reduce_splits(blocks, operands.most_blocks, bytes, terms / (int64_t{made.deep} * kReduceRound), operands.resident);
    made.part = std::max<int64_t>(ceil_div(terms, made.splits), 1);
    if (made.line > 0 && plan.reduced.rank > 1) made.part = ceil_div(made.part, made.line) * made.line;
    made.splits = std::max<int64_t>(ceil_div(terms, made.part), 1);
    return made;
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
            sizeof...(Each) > 0 ? 0 : kReduceResident<R, Inputs<In...>, Outputs<Each...>>};
}

template <class Acc, int Places, int Out>
Acc* carve_reduce_parts(Carver* carver, const ReduceLaunch<Places, Out>& made, int64_t results) {
    return made.splits > 1 ? carver->take<Acc>(made.splits * results) : nullptr;
}

// Whichever of `Each` are there when it runs: of them depends only whether there are vectors.
template <class R, class In, class Each, int Places, int Out>
size_t reduce_each_workspace(const ReduceAxes<Places, Out>& axes) {
    static_assert(In::count + Each::count == Places, "a type for each operand of a term");
    size_t bytes = 0;
    if (axes.kept.is_empty()) return 0;
    for (const bool aligned : {false, true}) {
        Carver carver;
        carve_reduce_parts<typename R::Acc>(
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
    constexpr int kPlaces = sizeof...(In) + sizeof...(Each), kOut = sizeof...(Out), kLanes = kReduceLanes<From, Also>;
    constexpr std::index_sequence_for<Out...> kOutputs{};
    constexpr std::index_sequence_for<Each...> kEach{};
    static_assert(sizeof(Acc) <= 40 && std::is_trivially_copyable_v<R>, "see reduce.h");
    static_assert(!kAlwaysVectors<R> || kLanes > 1, "elements of a vector");
    if (axes.kept.is_empty()) return Status::kOk;
    const bool found = launch.workspace != nullptr && workspace_holds(launch, reduce_each_workspace<R, From, Also>(axes));
    const bool aligned =
        all_aligned(in.pointer, kLanes, std::index_sequence_for<In...>{}) && all_aligned(each.pointer, kLanes, kEach);
    ReduceLaunch<kPlaces, kOut> made = plan_reduce_launch<R>(
        axes, reduce_operands<R>(in, each, aligned || kAlwaysVectors<R>, present_of(each.pointer, kEach)));
    const ReducePlan<kPlaces, kOut>& plan = made.plan;
    ReduceGrid<kPlaces, kOut> grid{};
    grid.kept = ReduceWalk<kPlaces + kOut>(plan.kept);
    grid.reduced = ReduceWalk<kPlaces + 1>(plan.reduced);
    grid.results = plan.kept.numel();
    grid.terms = plan.reduced.numel();
    if (!found) made.splits = 1, made.part = grid.terms;
    grid.part = made.part;
    grid.line = made.line;
    grid.count = plan.terms;
    std::copy_n(made.kept_step, kPlaces + kOut, grid.kept_step);
    grid.index_step = made.index_step;
    grid.tail = ReduceWalk<kPlaces + 1>(made.tail);
    grid.tail_terms = made.tail.rank > 0 ? made.tail.numel() : 0;
    std::copy_n(made.tail_offset, kPlaces + 1, grid.tail_offset);
    grid.deep = made.deep;
    grid.across = kReduceThreads / made.deep;
    grid.along_terms = plan.along_terms;
    grid.dense_results = has_dense_results(made) && all_aligned(out.pointer, made.lanes, kOutputs);
    grid.broadcast = made.broadcast | (aligned || made.lanes == 1 ? 0u : ((1u << sizeof...(In)) - 1) << kApartBit);
    Carver carver(launch.workspace);
    Acc* const parts = carve_reduce_parts<Acc>(&carver, made, plan.results);
    const int64_t blocks = ceil_div<int64_t>(grid.results, grid.across);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld results are too many for one launch", (long long)plan.results);
    const Grid shape{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(made.splits)), dim3(kReduceThreads)};
    auto kernel = reduce_kernel<kLanes, R, To, From, Also>;
    if constexpr (!kAlwaysVectors<R>)
        if (made.lanes == 1) kernel = reduce_kernel<1, R, To, From, Also>;
    BK_TRY(launch_kernel(launch, shape, kernel, reducer, out, in, each, parts, grid));
    if (parts == nullptr) return Status::kOk;
    Layout<kOut> results;
    results.rank = made.single_kept.rank;
    std::copy_n(made.single_kept.extent, kMaxRank, results.extent);
    for (int o = 0; o < kOut; ++o) std::copy_n(made.single_kept.stride[kPlaces + o], kMaxRank, results.stride[o]);
    return combine_parts(launch, parts_of(reducer, 0), out, parts, results, made.splits, plan.terms);
}

template <class R, class... Out, class... In>
Status reduce(const Launch& launch, const ReduceAxes<sizeof...(In), sizeof...(Out)>& axes, const R& reducer,
              const Outputs<Out...>& out, const Inputs<In...>& in) {
    return reduce_each(launch, axes, reducer, out, in, Outputs<>{});
}

}  // namespace bk
