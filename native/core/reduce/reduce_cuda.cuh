// A kernel that collects terms and one that combines the parts of results that were split.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/pointwise/layout.h"
#include "core/reduce/reduce.h"
#include "core/reduce/shuffle.cuh"
#include "core/types/vec.h"

namespace bk {

constexpr int kReduceThreads = 256;
constexpr int kReduceRound = 4;  // loads in flight a thread
// Blocks that fill a large chip, and bytes that are worth a block. Constants, so that the order of additions is the same on
// every chip.
constexpr int64_t kReduceBlocks = 2048;
constexpr int64_t kReduceBlockBytes = 32768;
constexpr int64_t kReduceMostSplits = 4096;

// Rare and long, so not a part of every loop.
BK_DEVICE_COLD DivMod<int64_t> divide_long(int64_t n, int64_t divisor) { return {n / divisor, n % divisor}; }

// A walk whose divisions take 32 bits where the numbers do, whose offsets 64.
template <int Operands>
struct ReduceWalk {
    int rank = 0;
    FastDiv<uint32_t> divisor[kMaxRank];
    int64_t extent[kMaxRank] = {};
    int64_t stride[kMaxRank][Operands] = {};

    ReduceWalk() = default;
    explicit ReduceWalk(const Layout<Operands>& layout) : rank(layout.rank) {
        for (int d = 0; d < rank; ++d) {
            const int at = rank - 1 - d;
            extent[at] = layout.extent[d];
            if (extent[at] > 0 && extent[at] < kNarrow) divisor[at] = FastDiv<uint32_t>(extent[at]);
            for (int k = 0; k < Operands; ++k) stride[at][k] = layout.stride[k][d];
        }
    }

    static constexpr int64_t kNarrow = int64_t{1} << 31;

    BK_DEVICE void operator()(int64_t i, int64_t (&offset)[Operands]) const {
        if (rank == 0) return;
#pragma unroll 1
        for (int d = 0; d + 1 < rank; ++d) {
            int64_t coordinate;
            if (i < kNarrow && extent[d] < kNarrow) {
                const DivMod<uint32_t> split = divisor[d](static_cast<uint32_t>(i));
                coordinate = split.remainder;
                i = split.quotient;
            } else {
                const DivMod<int64_t> split = divide_long(i, extent[d]);
                coordinate = split.remainder;
                i = split.quotient;
            }
#pragma unroll
            for (int k = 0; k < Operands; ++k) offset[k] += coordinate * stride[d][k];
        }
#pragma unroll
        for (int k = 0; k < Operands; ++k) offset[k] += i * stride[rank - 1][k];
    }
};

// A block is `across` results (or vectors of them) by `deep` threads that share each, all powers of two.
template <int In, int Out>
struct ReduceGrid {
    ReduceWalk<In + Out> kept;
    ReduceWalk<In + 1> reduced;
    int64_t results, terms, part;  // in vectors along the axis that has them; a part is blockIdx.y's
    int64_t count;                 // of a result's terms
    int64_t kept_step[In + Out];   // along the axis of vectors, of results that are neighbours
    int64_t index_step;            // from lane to lane
    ReduceWalk<In + 1> tail;       // terms behind the last vectors, one by one
    int64_t tail_terms, tail_offset[In + 1];
    int across, deep;
    bool along_terms;
    unsigned broadcast;  // a bit for each input that stands still along the vectors' axis
};

// Of the `deep` threads that share a result, the Acc of all; the thread of depth 0 has it. Every thread of the block calls it.
template <class R>
BK_DEVICE typename R::Acc combine_threads(const R& reducer, typename R::Acc acc, int deep, int across, int depth,
                                          bool neighbours) {
    using Acc = typename R::Acc;
    __shared__ Acc shared[kReduceThreads];
    if (neighbours) {
        for (int distance = 1; distance < min(deep, 32); distance *= 2) {
            const Acc other = shuffle_xor(acc, distance);
            // The earlier thread's comes first on both sides.
            acc = depth & distance ? reducer.combine(other, acc) : reducer.combine(acc, other);
        }
        if (deep <= 32) return acc;
        __syncthreads();
        if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = acc;
        __syncthreads();
        if (depth == 0)
            for (int warp = 1; warp < deep / 32; ++warp) acc = reducer.combine(acc, shared[threadIdx.x / 32 + warp]);
        return acc;
    }
    if (deep == 1) return acc;
    __syncthreads();
    shared[threadIdx.x] = acc;
    for (int half = deep / 2; half > 0; half /= 2) {
        __syncthreads();
        if (depth < half) shared[threadIdx.x] = reducer.combine(shared[threadIdx.x], shared[threadIdx.x + half * across]);
    }
    return shared[threadIdx.x];
}

// Whether a reducer, of a single line of terms, has no kernel of single elements: inputs that are not aligned are loaded
// element by element in the kernel of vectors.
template <class R, class = void>
constexpr bool kAlwaysVectors = false;
template <class R>
constexpr bool kAlwaysVectors<R, std::enable_if_t<R::always_vectors>> = true;
constexpr int kApartBit = 16;  // of the bits of `broadcast`, the first of those of inputs that are not aligned

template <int N, bool kMayBeApart, class T>
BK_DEVICE Vec<T, N> load_terms(const T* pointer, bool broadcast, [[maybe_unused]] bool apart) {
    Vec<T, N> x;
    if constexpr (kMayBeApart) {
        if (apart) {
#pragma unroll
            for (int lane = 0; lane < N; ++lane) x.lane[lane] = pointer[lane];
            return x;
        }
    }
    if (!broadcast) return load<N>(pointer);
    const T value = *pointer;
#pragma unroll
    for (int lane = 0; lane < N; ++lane) x.lane[lane] = value;
    return x;
}

template <int N, bool kMayBeApart, class... In, size_t... I>
BK_DEVICE Pack<Vec<In, N>...> load_all(const Pack<const In*...>& in, const int64_t* offset, unsigned broadcast,
                                       std::index_sequence<I...>) {
    return pack(load_terms<N, kMayBeApart>(get<I>(in) + offset[I], broadcast >> I & 1, broadcast >> (kApartBit + I) & 1)...);
}

// Adds a vector of each input, a lane to an Acc.
template <int N, class R, class... In, size_t... I>
BK_DEVICE void add_lanes(const R& reducer, typename R::Acc (&acc)[N], int64_t index, int64_t step, const Pack<Vec<In, N>...>& x,
                         std::index_sequence<I...>) {
#pragma unroll
    for (int lane = 0; lane < N; ++lane) reducer.add(acc[lane], index + lane * step, widen(get<I>(x).lane[lane])...);
}

template <int N, class R, class... In, size_t... I>
BK_DEVICE void start_lanes(const R& reducer, typename R::Acc (&acc)[N], const Pack<Vec<In, N>...>& x,
                           std::index_sequence<I...>) {
#pragma unroll
    for (int lane = 0; lane < N; ++lane) acc[lane] = start_of(reducer, 0, widen(get<I>(x).lane[lane])...);
}

template <int N, class R>
BK_DEVICE void settle_lanes(const R& reducer, typename R::Acc (&acc)[N], int64_t terms) {
#pragma unroll
    for (int lane = 0; lane < N; ++lane) settle(reducer, acc[lane], terms, 0);
}

// Terms [t, end) at steps of `deep` of one axis: their places are one sum apart from those before, and so need no walk.
template <int N, class R, class Grid, class... In, size_t... I>
BK_DEVICE void add_line(const R& reducer, typename R::Acc (&acc)[N], const Pack<const In*...>& in, const int64_t* base,
                        const Grid& grid, int64_t t, int64_t end, int64_t lane_step, std::index_sequence<I...> each) {
    constexpr int kIn = sizeof...(In), kRounds = kReduceRun / kReduceRound;
    int64_t place[kIn + 1], step[kIn + 1];
#pragma unroll
    for (int k = 0; k <= kIn; ++k) {
        const int64_t stride = grid.reduced.rank == 0 ? 0 : grid.reduced.stride[0][k];
        place[k] = (k < kIn ? base[k] : 0) + t * stride;
        step[k] = grid.deep * stride;
    }
    int64_t left = (end - t + grid.deep - 1) / grid.deep;
    while (left >= kReduceRound) {
        int rounds = 0;
        for (; rounds < kRounds && left >= kReduceRound; ++rounds, left -= kReduceRound) {
            Pack<Vec<In, N>...> x[kReduceRound];
#pragma unroll
            for (int u = 0; u < kReduceRound; ++u) {
                int64_t offset[kIn];
#pragma unroll
                for (int k = 0; k < kIn; ++k) offset[k] = place[k] + u * step[k];
                x[u] = load_all<N, kAlwaysVectors<R>>(in, offset, grid.broadcast, each);
            }
#pragma unroll
            for (int u = 0; u < kReduceRound; ++u)
                add_lanes<N>(reducer, acc, place[kIn] + u * step[kIn], lane_step, x[u], each);
#pragma unroll
            for (int k = 0; k <= kIn; ++k) place[k] += kReduceRound * step[k];
        }
        settle_lanes<N>(reducer, acc, rounds * kReduceRound);
    }
    const int64_t rest = left;
#pragma unroll 1
    for (; left > 0; --left) {
        add_lanes<N>(reducer, acc, place[kIn], lane_step, load_all<N, kAlwaysVectors<R>>(in, place, grid.broadcast, each),
                     each);
#pragma unroll
        for (int k = 0; k <= kIn; ++k) place[k] += step[k];
    }
    settle_lanes<N>(reducer, acc, rest);
}

// Terms [t, end) at steps of `deep` of several axes, whose places a walk finds.
template <int N, class R, class Grid, class... In, size_t... I>
BK_DEVICE void add_walk(const R& reducer, typename R::Acc (&acc)[N], const Pack<const In*...>& in, const int64_t* base,
                        const Grid& grid, int64_t t, int64_t end, int64_t lane_step, std::index_sequence<I...> each) {
    constexpr int kIn = sizeof...(In);
    int run = 0;
#pragma unroll 1
    while (t < end) {
        int64_t index[kReduceRound];
        Pack<Vec<In, N>...> x[kReduceRound];
#pragma unroll
        for (int u = 0; u < kReduceRound; ++u) {
            if (t + u * grid.deep >= end) continue;
            int64_t offset[kIn + 1];
#pragma unroll
            for (int k = 0; k < kIn; ++k) offset[k] = base[k];
            offset[kIn] = 0;
            grid.reduced(t + u * grid.deep, offset);
            index[u] = offset[kIn];
            x[u] = load_all<N, kAlwaysVectors<R>>(in, offset, grid.broadcast, each);
        }
#pragma unroll
        for (int u = 0; u < kReduceRound; ++u) {
            if (t + u * grid.deep >= end) continue;
            add_lanes<N>(reducer, acc, index[u], lane_step, x[u], each);
            ++run;
        }
        t += kReduceRound * grid.deep;
        if (run + kReduceRound > kReduceRun || t >= end) {
            settle_lanes<N>(reducer, acc, run);
            run = 0;
        }
    }
}

// Writes the results or, where they are split, `parts`, one part of every result after another.
template <int N, class R, class Out, class In>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_kernel(R reducer, Out out, In in, typename R::Acc* parts, ReduceGrid<In::count, Out::count> grid) {
    using Acc = typename R::Acc;
    constexpr int kIn = In::count, kOut = Out::count;
    constexpr typename In::Indices kInputs{};
    const int across = grid.along_terms ? threadIdx.x / grid.deep : threadIdx.x % grid.across;
    const int depth = grid.along_terms ? threadIdx.x % grid.deep : threadIdx.x / grid.across;
    const int64_t result = int64_t{blockIdx.x} * grid.across + across;
    const bool exists = result < grid.results;
    Acc acc[N];
#pragma unroll
    for (int lane = 0; lane < N; ++lane) acc[lane] = reducer.identity();
    int64_t base[kIn + kOut] = {};
    if (exists) {
        grid.kept(result, base);
        const int64_t begin = int64_t{blockIdx.y} * grid.part, end = min(begin + grid.part, grid.terms);
        const int64_t lane_step = grid.along_terms ? grid.index_step : 0;
        const int64_t mine = begin + depth;
        if (mine < end) {
            int64_t offset[kIn + 1];
#pragma unroll
            for (int k = 0; k <= kIn; ++k) offset[k] = k < kIn ? base[k] : 0;
            grid.reduced(mine, offset);
            start_lanes<N>(reducer, acc, load_all<N, kAlwaysVectors<R>>(in.pointer, offset, grid.broadcast, kInputs), kInputs);
            if (grid.reduced.rank <= 1)
                add_line<N>(reducer, acc, in.pointer, base, grid, mine, end, lane_step, kInputs);
            else
                add_walk<N>(reducer, acc, in.pointer, base, grid, mine, end, lane_step, kInputs);
        }
        if (grid.tail_terms > 0 && blockIdx.y + 1 == gridDim.y) {
            bool first = mine >= end;
            for (int64_t t = depth; t < grid.tail_terms; t += grid.deep) {
                int64_t offset[kIn + 1];
#pragma unroll
                for (int k = 0; k <= kIn; ++k) offset[k] = grid.tail_offset[k] + (k < kIn ? base[k] : 0);
                grid.tail(t, offset);
                Acc one[1] = {acc[0]};
                const auto x = load_all<1, false>(in.pointer, offset, 0, kInputs);
                if (first) start_lanes<1>(reducer, one, x, kInputs);
                add_lanes<1>(reducer, one, offset[kIn], 0, x, kInputs);
                settle(reducer, one[0], 1, 0);
                acc[0] = one[0];
                first = false;
            }
        }
    }
    const int width = grid.along_terms ? 1 : N;  // results a thread
    if (grid.along_terms)
#pragma unroll
        for (int lane = 1; lane < N; ++lane) acc[0] = reducer.combine(acc[0], acc[lane]);
#pragma unroll
    for (int lane = 0; lane < N; ++lane) {
        if (lane >= width) break;
        const Acc all = combine_threads(reducer, acc[lane], grid.deep, grid.across, depth, grid.along_terms);
        if (depth != 0 || !exists) continue;
        if (parts != nullptr) {
            parts[(int64_t{blockIdx.y} * grid.results + result) * width + lane] = all;
            continue;
        }
        int64_t offset[kOut];
#pragma unroll
        for (int o = 0; o < kOut; ++o) offset[o] = base[kIn + o] + lane * grid.kept_step[kIn + o];
        store_result(reducer, out.pointer, offset, all, grid.count, 0);
    }
}

// What combines the parts: the reducer or, where it names one, a smaller reducer `Total` of the same Acc, made by total(),
// which many reducers share.
template <class R, class = void>
struct PartsOf {
    using type = R;
    static const R& of(const R& reducer) { return reducer; }
};
template <class R>
struct PartsOf<R, std::void_t<typename R::Total>> {
    using type = typename R::Total;
    static_assert(std::is_same_v<typename type::Acc, typename R::Acc>, "parts are those of the reducer");
    static type of(const R& reducer) { return reducer.total(); }
};

// `deep` threads, a power of two, share a result.
template <class R, class Out>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_parts_kernel(R reducer, Out out, const typename R::Acc* parts, ReduceWalk<Out::count> kept, int64_t results,
                        int64_t splits, int64_t count, int deep) {
    using Acc = typename R::Acc;
    const int across = kReduceThreads / deep, depth = threadIdx.x / across;
    const int64_t i = int64_t{blockIdx.x} * across + threadIdx.x % across;
    Acc acc = reducer.identity();
    if (i < results)
        for (int64_t split = depth; split < splits; split += deep)
            acc = split == depth ? parts[split * results + i] : reducer.combine(acc, parts[split * results + i]);
    acc = combine_threads(reducer, acc, deep, across, depth, false);
    if (depth != 0 || i >= results) return;
    int64_t offset[Out::count] = {};
    kept(i, offset);
    store_result(reducer, out.pointer, offset, acc, count, 0);
}

// The outputs of a layout of inputs and outputs, which is walked in the same order.
template <int Out, int Operands>
BK_COLD Layout<Out> outputs_of(const Layout<Operands>& layout) {
    Layout<Out> outputs;
    outputs.rank = layout.rank;
    for (int d = 0; d < layout.rank; ++d) {
        outputs.extent[d] = layout.extent[d];
        for (int o = 0; o < Out; ++o) outputs.stride[o][d] = layout.stride[Operands - Out + o][d];
    }
    return outputs;
}

inline int shared_by(int64_t n, int most) {
    int p = 1;
    while (p < most && p < n) p *= 2;
    return p;
}

// The form of a plan that a launch takes: its vectors, if there are any, and its parts.
template <int In, int Out>
struct ReduceLaunch {
    ReducePlan<In, Out> plan;  // the axis of vectors counts them
    Layout<In + 1> tail;
    int64_t tail_offset[In + 1] = {};
    int64_t index_step = 0, kept_step[In + Out] = {};
    unsigned broadcast = 0;
    int lanes = 1, deep = 1;
    int64_t splits = 1, part = 0;
};

// Turns the inner axis into vectors where the inputs allow it. Results take whole vectors only; what is left of a line of
// terms is its tail, and all of it where `always` and it is short.
template <int In, int Out>
bool make_reduce_vectors(ReduceLaunch<In, Out>* given, int lanes, bool always) {
    ReducePlan<In, Out>& plan = given->plan;
    if (always && plan.reduced.rank == 0) {  // a single term
        plan.reduced.rank = 1;
        plan.reduced.extent[0] = 1;
        for (int k = 0; k <= In; ++k) plan.reduced.stride[k][0] = 1;
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
    for (int k = 0; k < In; ++k) {
        const int64_t step = stride(plan.along_terms, k, last);
        if (step == 0) broadcast |= 1u << k;
        if (step == 0) continue;
        if (step != 1) return false;
        for (int d = 0; d < last; ++d)
            if (stride(plan.along_terms, k, d) % lanes != 0) return false;
        for (int d = 0; d < other; ++d)
            if (stride(!plan.along_terms, k, d) % lanes != 0) return false;
    }
    given->lanes = lanes;
    given->broadcast = broadcast;
    if (plan.along_terms) {
        given->index_step = plan.reduced.stride[In][last];
        given->tail = plan.reduced;
        given->tail.extent[last] = extent % lanes;
        extent /= lanes;
        for (int k = 0; k <= In; ++k) {
            given->tail_offset[k] = extent * lanes * plan.reduced.stride[k][last];
            plan.reduced.stride[k][last] *= lanes;
        }
    } else {
        extent /= lanes;
        for (int k = 0; k < In + Out; ++k) {
            given->kept_step[k] = plan.kept.stride[k][last];
            plan.kept.stride[k][last] *= lanes;
        }
    }
    return true;
}

template <class R, int In, int Out>
BK_COLD ReduceLaunch<In, Out> plan_reduce_launch(const ReduceAxes<In, Out>& axes, int lanes, int64_t term_bytes) {
    ReduceLaunch<In, Out> made;
    made.plan = plan_reduce<R>(axes);
    const bool wide = lanes > 1 && make_reduce_vectors(&made, lanes, kAlwaysVectors<R>);
    const ReducePlan<In, Out>& plan = made.plan;
    const int64_t results = plan.kept.numel(), terms = plan.reduced.numel();
    const int64_t wanted = ceil_div<int64_t>(terms, kReduceRound);
    if (plan.along_terms) {
        // A warp needs no barrier; few or long results want more.
        made.deep = shared_by(wanted, terms > 16 * 32 || results <= 1024 ? kReduceThreads : 32);
    } else {
        // Neighbouring results are as many as fill a line of memory, if there are so many.
        const int least = shared_by(results, wide ? 16 : 32);
        const int most = results >= (int64_t{1} << 18) ? 1 : kReduceThreads / least;
        made.deep = shared_by(wanted, most);
    }
    const int64_t blocks = ceil_div<int64_t>(results, kReduceThreads / made.deep);
    const int64_t bytes = plan.terms * term_bytes * (plan.along_terms ? 1 : int64_t{made.lanes} * (kReduceThreads / made.deep));
    made.splits = std::min({kReduceBlocks / std::max<int64_t>(blocks, 1), bytes / kReduceBlockBytes, kReduceMostSplits,
                            terms / (int64_t{made.deep} * kReduceRound)});
    made.splits = std::max<int64_t>(made.splits, 1);
    made.part = std::max<int64_t>(ceil_div(terms, made.splits), 1);
    made.splits = std::max<int64_t>(ceil_div(terms, made.part), 1);
    return made;
}

template <class... In>
constexpr int64_t kTermBytes = (int64_t{0} + ... + int64_t{sizeof(In)});
template <class... In>
constexpr int kReduceLanes = kVectorBytes / Inputs<In...>::widest;

template <class Acc, int In, int Out>
Acc* carve_reduce_parts(Carver* carver, const ReduceLaunch<In, Out>& made, int64_t results) {
    return made.splits > 1 ? carver->take<Acc>(made.splits * results) : nullptr;
}

template <class R, class... In, int I, int O>
size_t reduce_workspace(const ReduceAxes<I, O>& axes) {
    static_assert(sizeof...(In) == I, "a type for each input");
    size_t bytes = 0;
    if (axes.kept.is_empty()) return 0;
    for (const int lanes : {kAlwaysVectors<R> ? kReduceLanes<In...> : 1, kReduceLanes<In...>}) {
        Carver carver;
        carve_reduce_parts<typename R::Acc>(&carver, plan_reduce_launch<R>(axes, lanes, kTermBytes<In...>), axes.kept.numel());
        bytes = std::max(bytes, carver.bytes());
    }
    return bytes;
}

template <class R, class... Out, class... In>
Status reduce(const Launch& launch, const ReduceAxes<sizeof...(In), sizeof...(Out)>& axes, const R& reducer,
              const Outputs<Out...>& out, const Inputs<In...>& in) {
    using Acc = typename R::Acc;
    constexpr int kIn = sizeof...(In), kOut = sizeof...(Out);
    static_assert(sizeof(Acc) <= 40 && std::is_trivially_copyable_v<R>, "see reduce.h");
    if (axes.kept.is_empty()) return Status::kOk;
    bool found = false;
    if (launch.workspace != nullptr) BK_TRY(find_workspace(launch, reduce_workspace<R, In...>(axes), &found));
    constexpr int kLanes = kReduceLanes<In...>;
    static_assert(!kAlwaysVectors<R> || kLanes > 1, "elements of a vector");
    const bool aligned = all_aligned(in.pointer, kLanes, std::index_sequence_for<In...>{});
    const int lanes = aligned || kAlwaysVectors<R> ? kLanes : 1;
    ReduceLaunch<kIn, kOut> made = plan_reduce_launch<R>(axes, lanes, kTermBytes<In...>);
    const ReducePlan<kIn, kOut>& plan = made.plan;
    ReduceGrid<kIn, kOut> grid{};
    grid.kept = ReduceWalk<kIn + kOut>(plan.kept);
    grid.reduced = ReduceWalk<kIn + 1>(plan.reduced);
    grid.results = plan.kept.numel();
    grid.terms = plan.reduced.numel();
    if (!found) made.splits = 1, made.part = grid.terms;
    grid.part = made.part;
    grid.count = plan.terms;
    std::copy_n(made.kept_step, kIn + kOut, grid.kept_step);
    grid.index_step = made.index_step;
    grid.tail = ReduceWalk<kIn + 1>(made.tail);
    grid.tail_terms = made.tail.rank > 0 ? made.tail.numel() : 0;
    std::copy_n(made.tail_offset, kIn + 1, grid.tail_offset);
    grid.deep = made.deep;
    grid.across = kReduceThreads / made.deep;
    grid.along_terms = plan.along_terms;
    grid.broadcast = made.broadcast | (aligned || lanes == 1 ? 0u : ((1u << kIn) - 1) << kApartBit);
    Carver carver(launch.workspace);
    Acc* const parts = carve_reduce_parts<Acc>(&carver, made, plan.results);
    const int64_t blocks = ceil_div<int64_t>(grid.results, grid.across);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld results are too many for one launch", (long long)plan.results);
    const Grid shape{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(made.splits)), dim3(kReduceThreads)};
    auto kernel = reduce_kernel<kLanes, R, Outputs<Out...>, Inputs<In...>>;
    if constexpr (!kAlwaysVectors<R>)
        if (made.lanes == 1) kernel = reduce_kernel<1, R, Outputs<Out...>, Inputs<In...>>;
    BK_TRY(launch_kernel(launch, shape, kernel, reducer, out, in, parts, grid));
    if (parts == nullptr) return Status::kOk;
    const int deep = shared_by(made.splits / 4, kReduceThreads / shared_by(plan.results, 8));
    const int64_t adders = ceil_div<int64_t>(plan.results, kReduceThreads / deep);
    using Parts = PartsOf<R>;
    const ReduceWalk<kOut> kept(outputs_of<kOut>(collapse(axes.kept)));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(adders)), dim3(kReduceThreads)},
                         reduce_parts_kernel<typename Parts::type, Outputs<Out...>>, Parts::of(reducer), out,
                         static_cast<const Acc*>(parts), kept, plan.results, made.splits, plan.terms, deep);
}

}  // namespace bk
