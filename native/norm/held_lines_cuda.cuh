// A block, or a cluster of blocks, has a group. Each thread copies its vectors of it to places of its own in shared memory, all
// at once, sums up what has come, and maps from there; what shared memory does not hold is read again, from the L2 cache.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/async_copy.cuh"
#include "core/prefetch.cuh"
#include "core/reduce/reduce.h"
#include "core/reduce/square_scale.h"
#include "core/rows/row_exchange.cuh"
#include "core/rows/row_map.h"
#include "core/types/vec.h"
#include "norm/group_moments.h"
#include "norm/held_lines.h"
#include "norm/norm_map.h"

namespace bk {

constexpr int kHeldThreads = 512;
constexpr int kHeldStages = 4;  // parts of a thread's copies that it waits for one by one

// The lines of a group are shared by blocks, those of a block by teams of threads. A thread has `steps` vectors of each of its
// team's lines, and a place in shared memory for the first `held` of them all.
struct HeldGrid {
    LineGroups groups;
    int vectors = 0;                      // of a line
    int blocks = 1, lines_of_block = 0;   // of a group; of its last blocks fewer or none
    int threads = 0;                      // of a block; 0: groups are not held
    int lanes = 1, steps = 0, turns = 0;  // threads of a line, vectors of each, lines of a team
    int held = 0;
    unsigned shared = 0;

    BK_HD int teams() const { return threads / lanes; }
    BK_HD int warps_of_line() const { return lanes > 32 ? lanes / 32 : 1; }
    BK_HD int slots() const { return steps * turns; }
    BK_HD int64_t channel(int64_t group, int line) const {
        return groups.of_item == 0 ? group : group % groups.of_item * groups.lines + line;
    }

    template <class T>
    static HeldGrid of(const LineGroups& groups, int arrays);

private:
    // The lanes that leave the fewest places empty; of as good ones the fewest that read whole lines of memory.
    void share_lines() {
        int64_t best = INT64_MAX;
        for (const int wanted : {32, 64, 128, 256, 512, 16, 8, 4, 2, 1}) {
            if (wanted > threads) continue;
            const int64_t each = ceil_div<int64_t>(vectors, wanted);
            const int64_t lines = ceil_div<int64_t>(lines_of_block, threads / wanted);
            if (each * lines >= best) continue;
            best = each * lines;
            lanes = wanted;
            steps = static_cast<int>(each);
            turns = static_cast<int>(lines);
        }
    }
};

template <class T>
bool may_hold_lines(const LineGroups& groups) {
    constexpr int64_t kMostLines = 1 << 16, kMostLength = 1 << 24, kLeastBytes = 4096;
    const int64_t elements = groups.lines * groups.length;
    return groups.length % kVectorLanes<T> == 0 && groups.lines <= kMostLines && groups.length <= kMostLength &&
           (groups.of_item == 0 || elements * static_cast<int64_t>(sizeof(T)) >= kLeastBytes);
}

template <class T>
HeldGrid HeldGrid::of(const LineGroups& groups, int arrays) {
    // Three blocks of so many bytes share a multiprocessor: one loads while others store.
    constexpr int64_t kEnoughBytes = 68 << 10;
    constexpr int64_t kReservedBytes = 6 << 10, kBytesAgain = 96 << 10, kEnoughBlocks = 64, kMostTable = 8192;
    // Of many blocks two that read a little again are as good, and better than one that holds all it reads.
    constexpr int64_t kBytesAgainOfTwo = 32 << 10, kManyBlocks = 512;
    HeldGrid grid;
    grid.groups = groups;
    if (!may_hold_lines<T>(groups)) return grid;
    grid.vectors = static_cast<int>(groups.length / kVectorLanes<T>);
    const int arch = device_arch();
    const int64_t line_bytes = groups.length * static_cast<int64_t>(sizeof(T)) * arrays;
    const int most = kHasClusterCode && arch >= 90 ? kMostRowCluster : 1;
    while (2 * grid.blocks <= std::min<int64_t>(most, groups.lines) &&
           ceil_div<int64_t>(groups.lines, grid.blocks) * line_bytes > kEnoughBytes)
        grid.blocks *= 2;
    grid.lines_of_block = static_cast<int>(ceil_div<int64_t>(groups.lines, grid.blocks));
    const int64_t bytes = grid.lines_of_block * line_bytes;
    const bool fills = groups.groups * grid.blocks >= kEnoughBlocks || bytes <= kEnoughBytes;
    if (!fills || groups.groups * grid.blocks > kMaxGridX) return grid;
    const int threads = bytes <= kEnoughBytes ? kHeldThreads / 2 : kHeldThreads;
    grid.threads = threads;
    grid.share_lines();
    // Sums of lines are of gradients alone.
    const int64_t table = arrays == 1 ? 0 : int64_t{grid.lines_of_block} * grid.warps_of_line() * 2 * int{sizeof(compute_t<T>)};
    const int64_t each = int64_t{threads} * kVectorBytes * arrays;
    const int64_t slots = int64_t{grid.steps} * grid.turns;
    const auto held_in = [&](int64_t room) {
        return std::min(slots, std::max<int64_t>((room - kReservedBytes - table) / each, 0));
    };
    const int64_t of_two = held_in(most_shared_bytes(arch) / 2);
    const bool are_two = groups.groups * grid.blocks >= kManyBlocks && (slots - of_two) * each <= kBytesAgainOfTwo;
    const int64_t held = are_two ? of_two : held_in(most_shared_bytes(arch));
    grid.held = static_cast<int>(held);
    grid.shared = static_cast<unsigned>(held * each + table);
    // With what the kernel has besides it may be more than all chips give a block: a launch asks for more where this is.
    if (grid.shared <= kSharedForAll && grid.shared + kReservedBytes > kSharedForAll)
        grid.shared = kSharedForAll + kVectorBytes;
    if (table > kMostTable || (slots - held) * each > kBytesAgain) grid.threads = 0;
    return grid;
}

template <class T, class... P>
bool holds_lines(const LineGroups& groups, int arrays, const P*... pointers) {
    return (is_aligned(pointers, kVectorBytes) && ...) && HeldGrid::of<T>(groups, arrays).threads > 0;
}

// The vectors of the calling thread, of each of the arrays.
template <class T, int kArrays>
class HeldVectors {
public:
    static constexpr int N = kVectorLanes<T>;
    using Vector = Vec<T, N>;
    const int64_t group;
    const int share, first_line, last_line, lane;

    BK_DEVICE HeldVectors(const HeldGrid& grid, uint4* memory, const Pack<const T*, const T*>& of)
        : group(blockIdx.x / grid.blocks),
          share(static_cast<int>(blockIdx.x % grid.blocks)),
          first_line(share * grid.lines_of_block),
          last_line(min(first_line + grid.lines_of_block, static_cast<int>(grid.groups.lines))),
          lane(static_cast<int>(threadIdx.x) & (grid.lanes - 1)),
          grid_(grid),
          memory_(memory),
          of_(of) {}

    // Behind the vectors.
    BK_DEVICE uint4* rest_of_memory() const { return memory_ + kArrays * grid_.held * grid_.threads; }

    BK_DEVICE int64_t offset(int line, int vector) const {
        return group * grid_.groups.group_step + line * grid_.groups.line_step + int64_t{vector} * N;
    }

    // Calls body(line, there, slot) for the lines of the team, which may be fewer than others have, and so not there. All
    // threads of a block make as many calls.
    template <class Body>
    BK_DEVICE void each_line(const Body& body) const {
        int line = first_line + static_cast<int>(threadIdx.x) / grid_.lanes;
        for (int turn = 0; turn < grid_.turns; ++turn, line += grid_.teams()) body(line, line < last_line, turn * grid_.steps);
    }
    // Calls body(slot, offset) for the thread's vectors of a line.
    template <class Body>
    BK_DEVICE void each_vector(int line, bool there, int slot, const Body& body) const {
        if (!there) return;
        int64_t place = offset(line, lane);
        for (int vector = lane; vector < grid_.vectors; vector += grid_.lanes, place += int64_t{grid_.lanes} * N)
            body(slot++, place);
    }
    template <class Body>
    BK_DEVICE void each(const Body& body) const {
        each_line([&](int line, bool there, int slot) { each_vector(line, there, slot, body); });
    }

    BK_DEVICE void start_copies() {
        const uint64_t policy = cache_policy<false>();
        int stages = 0;
        each([&](int slot, int64_t place) {
            if (slot >= grid_.held) {
                prefetch_line(get<0>(of_) + place);
                if constexpr (kArrays > 1) prefetch_line(get<1>(of_) + place);
                return;
            }
            for (; (stages + 1) * of_stage() <= slot; ++stages) end_copy_group();
            start_copy<kVectorBytes>(at<0>(slot), get<0>(of_) + place, policy);
            if constexpr (kArrays > 1) start_copy<kVectorBytes>(at<1>(slot), get<1>(of_) + place, policy);
        });
        for (; stages < kHeldStages; ++stages) end_copy_group();
    }
    // Slots are asked for in their order, by the thread that copies to them.
    BK_DEVICE void wait_for(int slot) {
        for (; here_ < kHeldStages && here_ * of_stage() <= slot; ++here_) {
            if (here_ == 0) wait_for_copies<3>();
            if (here_ == 1) wait_for_copies<2>();
            if (here_ == 2) wait_for_copies<1>();
            if (here_ == 3) wait_for_copies<0>();
        }
    }
    template <int kArray>
    BK_DEVICE Vector vector(int slot, int64_t place) const {
        return slot < grid_.held ? bit_cast<Vector>(*at<kArray>(slot)) : load<N>(get<kArray>(of_) + place);
    }

private:
    static_assert(kHeldStages == 4, "wait_for() counts them");
    const HeldGrid& grid_;
    uint4* const memory_;
    const Pack<const T*, const T*> of_;
    int here_ = 0;  // stages that have come

    BK_DEVICE int of_stage() const { return (grid_.held + kHeldStages - 1) / kHeldStages; }
    template <int kArray>
    BK_DEVICE uint4* at(int slot) const {
        return memory_ + (kArray * grid_.held + slot) * grid_.threads + threadIdx.x;
    }
};

// Of a group, what its threads have summed up; all of them get it.
template <class R>
BK_DEVICE typename R::Acc combine_group(const R& reducer, const typename R::Acc& mine, int blocks,
                                        RowExchange<typename R::Acc>& exchange, int turn) {
    const typename R::Acc all = combine_block(reducer, mine, exchange, turn);
    return blocks > 1 ? combine_cluster(reducer, all, blocks, exchange, turn) : all;
}

// --- the norm ---------------------------------------------------------------------------------------------------------

template <class T, class R, class Out, class G>
__global__ void __launch_bounds__(kHeldThreads)
    norm_held_lines_kernel(const __grid_constant__ HeldGrid grid, const R moments, const Out saved, const T* x, const G* gamma,
                           const G* beta, T* y) {
    using C = compute_t<T>;
    using Acc = typename R::Acc;
    constexpr int N = kVectorLanes<T>;
    __shared__ RowExchange<Acc> exchange;
    BK_LAUNCH_SHARED(uint4, dynamic);
    if (grid.blocks > 1) exchange.blocks.open();
    HeldVectors<T, 1> held(grid, dynamic, pack(x, x));
    held.start_copies();
    Acc all;
    int turn = 0, pass = 0;
    for (bool again = true; again; ++turn) {
        const R known = in_pass(moments, pass);
        Acc mine = known.identity();
        int terms = 0;
        bool is_begun = false;
        held.each([&](int slot, int64_t place) {
            held.wait_for(slot);
            const Vec<T, N> cell = held.template vector<0>(slot, place);
            if (!is_begun) mine = known.start(widen_lane(cell, 0));
            is_begun = true;
#pragma unroll
            for (int i = 0; i < N; ++i) known.add(mine, 0, widen_lane(cell, i));
            terms += N;
            if (terms < kReduceRun) return;
            known.settle(mine, terms);
            terms = 0;
        });
        known.settle(mine, terms);
        all = combine_group(known, mine, grid.blocks, exchange, turn);
        stamp(known, all);
        again = turn == 0 && (pass = pass_of(moments, all)) > 0;
    }
    const int64_t count = grid.groups.lines * grid.groups.length;
    const auto statistic = static_cast<const GroupMoments<T>&>(moments).finish(all, count);
    const C mean = get<0>(statistic), rstd = get<1>(statistic);
    held.each_line([&](int line, bool there, int first) {
        if (!there) return;
        const int64_t channel = grid.channel(held.group, line);
        const NormLine<C> f{mean, gamma == nullptr ? rstd : rstd * widen(gamma[channel]),
                            beta == nullptr ? C(0) : widen(beta[channel])};
        held.each_vector(line, there, first, [&](int slot, int64_t place) {
            const Vec<T, N> cell = held.template vector<0>(slot, place);
            Vec<T, N> result;
#pragma unroll
            for (int i = 0; i < N; ++i) result.lane[i] = narrow<T>(get<0>(f(widen_lane(cell, i))));
            store<N>(y + place, result);
        });
    });
    if (held.share != 0 || threadIdx.x != 0) return;
    int64_t offset[Out::count];
    for (int64_t& each : offset) each = held.group;
    store_result(moments, saved.pointer, offset, all, count, 0);
}

template <class T, class R, class Out, class G>
Status norm_held_lines(const Launch& launch, const LineGroups& groups, const R& moments, const Out& saved, const T* x,
                       const G* gamma, const G* beta, T* y) {
    const HeldGrid grid = HeldGrid::of<T>(groups, 1);
    return launch_kernel(launch,
                         Grid{dim3(static_cast<unsigned>(groups.groups * grid.blocks)),
                              dim3(static_cast<unsigned>(grid.threads)), static_cast<unsigned>(grid.blocks), grid.shared},
                         norm_held_lines_kernel<T, R, Out, G>, grid, moments, saved, x, gamma, beta, y);
}

// --- its gradients ----------------------------------------------------------------------------------------------------

template <class C>
struct HeldSums {
    struct Acc {
        C product, slope;
    };
    BK_DEVICE Acc identity() const { return {0, 0}; }
    BK_DEVICE Acc combine(const Acc& a, const Acc& b) const { return {a.product + b.product, a.slope + b.slope}; }
};

template <class T, class S, class G>
__global__ void __launch_bounds__(kHeldThreads)
    held_gradient_kernel(const __grid_constant__ HeldGrid grid, const HeldGradient<T, S, G> of) {
    using C = compute_t<T>;
    using Sums = HeldSums<C>;
    using Acc = typename Sums::Acc;
    constexpr int N = kVectorLanes<T>;
    __shared__ RowExchange<Acc> exchange;
    BK_LAUNCH_SHARED(uint4, dynamic);
    if (grid.blocks > 1) exchange.blocks.open();
    HeldVectors<T, 2> held(grid, dynamic, pack(of.dy, of.x));
    held.start_copies();
    const Sums sums;
    int turn = 0;
    const auto combine = [&](const Acc& mine) { return combine_group(sums, mine, grid.blocks, exchange, turn++); };
    const C share = C(1) / static_cast<C>(grid.groups.lines * grid.groups.length);
    const bool is_leader = held.share == 0 && threadIdx.x == 0;

    C mean, rstd;
    if (of.new_mean == nullptr) {
        mean = widen(of.mean[held.group]);
        rstd = widen(of.rstd[held.group]);
    } else {
        // The mean, then what rounding has left of it, and squares; once more in another unit where these leave the range.
        using Scale = SquareScale<T>;
        C unit = 1, variance = 0;
        for (bool again = true; again;) {
            Acc mine = sums.identity();
            held.each([&](int slot, int64_t place) {
                held.wait_for(slot);
                const Vec<T, N> x = held.template vector<1>(slot, place);
                C sum = 0;
#pragma unroll
                for (int i = 0; i < N; ++i) sum += widen_lane(x, i) * unit;
                mine.slope += sum;
            });
            mean = combine(mine).slope * share;
            mine = sums.identity();
            held.each([&](int slot, int64_t place) {
                const Vec<T, N> x = held.template vector<1>(slot, place);
                C sum = 0, squares = 0;
#pragma unroll
                for (int i = 0; i < N; ++i) {
                    const C difference = widen_lane(x, i) * unit - mean;
                    sum += difference;
                    squares += difference * difference;
                }
                mine = sums.combine(mine, {squares, sum});
            });
            const Acc all = combine(mine);
            const C rest = all.slope * share;
            variance = all.product * share - rest * rest;
            if (Scale::is_finite(rest)) mean += rest;
            const C wanted = Scale::unit_of(mean, all.product, of.eps / share);
            again = unit == C(1) && wanted != C(1);
            if (again) unit = wanted;
        }
        mean = Scale::unscaled(mean, unit);
        rstd = unit / Spread<T>::of(variance < C(0) ? C(0) : variance, of.eps, unit);
        if (is_leader) {
            of.new_mean[held.group] = narrow<S>(mean);
            of.new_rstd[held.group] = narrow<S>(rstd);
        }
    }

    // Sums of lines, a number of each of their warps.
    Acc* const of_lines = reinterpret_cast<Acc*>(held.rest_of_memory());
    const int warps = grid.warps_of_line();
    held.each_line([&](int line, bool there, int first) {
        Acc mine = sums.identity();
        held.each_vector(line, there, first, [&](int slot, int64_t place) {
            held.wait_for(slot);
            const Vec<T, N> dy = held.template vector<0>(slot, place), x = held.template vector<1>(slot, place);
            C product = 0, slope = 0;
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const C each = widen_lane(dy, i);
                product += each * ((widen_lane(x, i) - mean) * rstd);
                slope += each;
            }
            mine = sums.combine(mine, {product, slope});
        });
        for (int distance = 1; distance < min(grid.lanes, 32); distance *= 2)
            mine = sums.combine(mine, shuffle_xor(mine, distance));
        if (there && held.lane % 32 == 0) of_lines[(line - held.first_line) * warps + held.lane / 32] = mine;
    });
    __syncthreads();
    const bool is_of_item = grid.groups.of_item > 0;
    const auto gamma_of = [&](int line) {
        return of.gamma == nullptr ? C(1) : widen(of.gamma[grid.channel(held.group, line)]);
    };
    Acc mine = sums.identity();
    for (int line = held.first_line + static_cast<int>(threadIdx.x); line < held.last_line; line += grid.threads) {
        const Acc* const parts = of_lines + (line - held.first_line) * warps;
        Acc all = parts[0];
        for (int warp = 1; warp < warps; ++warp) all = sums.combine(all, parts[warp]);
        if (of.line_products != nullptr) {
            of.line_products[held.group * grid.groups.lines + line] = all.product;
            of.line_slopes[held.group * grid.groups.lines + line] = all.slope;
        }
        const C factor = is_of_item ? gamma_of(line) : C(1);
        mine = sums.combine(mine, {all.product * factor, all.slope * factor});
    }
    const Acc all = combine(mine);
    if (is_leader && !is_of_item) {
        if (of.dgamma != nullptr) of.dgamma[held.group] = narrow<G>(all.product);
        if (of.dbeta != nullptr) of.dbeta[held.group] = narrow<G>(all.slope);
    }
    if (of.dx == nullptr) return;
    held.each_line([&](int line, bool there, int first) {
        if (!there) return;
        const C gamma = gamma_of(line), factor = is_of_item ? share : share * gamma;
        const auto f = NormGradientLine<C>::of(mean, rstd, gamma, all.slope * factor, all.product * factor);
        held.each_vector(line, there, first, [&](int slot, int64_t place) {
            const Vec<T, N> dy = held.template vector<0>(slot, place), x = held.template vector<1>(slot, place);
            Vec<T, N> result;
#pragma unroll
            for (int i = 0; i < N; ++i) result.lane[i] = narrow<T>(get<0>(f(widen_lane(dy, i), widen_lane(x, i))));
            store<N>(of.dx + place, result);
        });
    });
}

template <class T, class S, class G>
Status held_gradient(const Launch& launch, const LineGroups& groups, const HeldGradient<T, S, G>& of) {
    const HeldGrid grid = HeldGrid::of<T>(groups, 2);
    return launch_kernel(launch,
                         Grid{dim3(static_cast<unsigned>(groups.groups * grid.blocks)),
                              dim3(static_cast<unsigned>(grid.threads)), static_cast<unsigned>(grid.blocks), grid.shared},
                         held_gradient_kernel<T, S, G>, grid, of);
}

}  // namespace bk
