// SPDX-License-Identifier: Apache-2.0
// One block, or one cluster, computes a group. A thread issues all its cp.async copies to slots of its own in shared
// memory, accumulates the stages as they arrive, and maps from there; slices that do not fit are read again, from L2.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/collectives/row_exchange.cuh"
#include "core/intrinsics/async_copy.cuh"
#include "core/intrinsics/prefetch.cuh"
#include "core/reduce/reduce.h"
#include "core/reduce/square_scale.h"
#include "core/row/row_map.h"
#include "core/types/vec.h"
#include "norm/channel/group_moments.h"
#include "norm/channel/staged_slices.h"
#include "norm/norm_map.h"

namespace bk {

constexpr int kStagedNormThreads = 512;
constexpr int kCopyStages = 4;  // commit groups of a thread's copies

// Blocks share the slices of a group, teams of `lanes` threads those of a block. A thread has `steps` vectors of each
// of its team's slices; the first `staged` of all its vectors have a slot in shared memory.
struct StagedGrid {
    SliceGroups groups;
    int vectors = 0;                            // a slice
    int blocks = 1, slices_per_block = 0;       // a group; the last blocks may have fewer or none
    int threads = 0;                            // a block; 0: groups cannot be staged
    int lanes = 1, steps = 0, team_slices = 0;  // threads a slice, vectors of each, slices a team
    int staged = 0;
    unsigned shared = 0;

    BK_HD int teams() const { return threads / lanes; }
    BK_HD int warps_per_slice() const { return lanes > 32 ? lanes / 32 : 1; }
    BK_HD int slots() const { return steps * team_slices; }
    BK_HD int64_t channel(int64_t group, int slice) const {
        return groups.groups_per_item == 0 ? group : group % groups.groups_per_item * groups.slices + slice;
    }

    template <class T>
    static StagedGrid of(const SliceGroups& groups, int arrays);

private:
    // Chooses the lanes that leave the fewest slots empty; ties go to the fewest lanes that read whole cache lines.
    void choose_lanes() {
        int64_t best = INT64_MAX;
        for (const int candidate : {32, 64, 128, 256, 512, 16, 8, 4, 2, 1}) {
            if (candidate > threads) continue;
            const int64_t each = ceil_div<int64_t>(vectors, candidate);
            const int64_t slices = ceil_div<int64_t>(slices_per_block, threads / candidate);
            if (each * slices >= best) continue;
            best = each * slices;
            lanes = candidate;
            steps = static_cast<int>(each);
            team_slices = static_cast<int>(slices);
        }
    }
};

template <class T>
bool may_stage_slices(const SliceGroups& groups) {
    constexpr int64_t kMaxSlices = 1 << 16, kMaxLength = 1 << 24, kMinBytes = 4096;
    const int64_t elements = groups.slices * groups.length;
    return groups.length % kVectorLanes<T> == 0 && groups.slices <= kMaxSlices && groups.length <= kMaxLength &&
           (groups.groups_per_item == 0 || elements * static_cast<int64_t>(sizeof(T)) >= kMinBytes);
}

template <class T>
StagedGrid StagedGrid::of(const SliceGroups& groups, int arrays) {
    // Three blocks of this many bytes are resident on an SM: one loads while others store.
    constexpr int64_t kEnoughBytes = 68 << 10;
    constexpr int64_t kReservedBytes = 6 << 10, kMaxReread = 96 << 10, kEnoughBlocks = 64, kMaxTable = 8192;
    // With many blocks, two resident blocks that read this much again beat one that stages everything.
    constexpr int64_t kMaxRereadOfTwo = 32 << 10, kManyBlocks = 512;
    StagedGrid grid;
    grid.groups = groups;
    if (!may_stage_slices<T>(groups)) return grid;
    grid.vectors = static_cast<int>(groups.length / kVectorLanes<T>);
    const int arch = device_arch();
    const int64_t slice_bytes = groups.length * static_cast<int64_t>(sizeof(T)) * arrays;
    const int most = kHasClusterCode && arch >= 90 ? kMaxRowCluster : 1;
    while (2 * grid.blocks <= std::min<int64_t>(most, groups.slices) &&
           ceil_div<int64_t>(groups.slices, grid.blocks) * slice_bytes > kEnoughBytes)
        grid.blocks *= 2;
    grid.slices_per_block = static_cast<int>(ceil_div<int64_t>(groups.slices, grid.blocks));
    const int64_t bytes = grid.slices_per_block * slice_bytes;
    const bool fills = groups.groups * grid.blocks >= kEnoughBlocks || bytes <= kEnoughBytes;
    if (!fills || groups.groups * grid.blocks > kMaxGridX) return grid;
    const int threads = bytes <= kEnoughBytes ? kStagedNormThreads / 2 : kStagedNormThreads;
    grid.threads = threads;
    grid.choose_lanes();
    // Only gradients have a table of slice sums.
    const int64_t table =
        arrays == 1 ? 0 : int64_t{grid.slices_per_block} * grid.warps_per_slice() * 2 * int{sizeof(compute_t<T>)};
    const int64_t each = int64_t{threads} * kVectorBytes * arrays;
    const int64_t slots = int64_t{grid.steps} * grid.team_slices;
    const auto staged_in = [&](int64_t limit) {
        return std::min(slots, std::max<int64_t>((limit - kReservedBytes - table) / each, 0));
    };
    const int64_t staged_of_two = staged_in(max_shared_bytes(arch) / 2);
    const bool use_two = groups.groups * grid.blocks >= kManyBlocks && (slots - staged_of_two) * each <= kMaxRereadOfTwo;
    const int64_t staged = use_two ? staged_of_two : staged_in(max_shared_bytes(arch));
    grid.staged = static_cast<int>(staged);
    grid.shared = static_cast<unsigned>(staged * each + table);
    if (table > kMaxTable || (slots - staged) * each > kMaxReread) grid.threads = 0;
    return grid;
}

template <class T, class... P>
bool can_stage_slices(const SliceGroups& groups, int arrays, const P*... pointers) {
    return (is_aligned(pointers, kVectorBytes) && ...) && StagedGrid::of<T>(groups, arrays).threads > 0;
}

// The calling thread's vectors of each array.
template <class T, int kArrays>
class StagedVectors {
public:
    static constexpr int N = kVectorLanes<T>;
    using Vector = Vec<T, N>;
    const int64_t group;
    const int rank, first_slice, end_slice, lane;

    BK_DEVICE StagedVectors(const StagedGrid& grid, uint4* memory, const Pack<const T*, const T*>& of)
        : group(blockIdx.x / grid.blocks),
          rank(static_cast<int>(blockIdx.x % grid.blocks)),
          first_slice(rank * grid.slices_per_block),
          end_slice(min(first_slice + grid.slices_per_block, static_cast<int>(grid.groups.slices))),
          lane(static_cast<int>(threadIdx.x) & (grid.lanes - 1)),
          grid_(grid),
          memory_(memory),
          of_(of) {}

    // Shared memory behind the staged vectors.
    BK_DEVICE uint4* memory_behind() const { return memory_ + kArrays * grid_.staged * grid_.threads; }

    BK_DEVICE int64_t offset(int slice, int vector) const {
        return group * grid_.groups.group_stride + slice * grid_.groups.slice_stride + int64_t{vector} * N;
    }

    // Calls body(slice, exists, first slot) for the slices of the team. All threads of a block make as many calls;
    // `exists` is false for slices beyond the block's.
    template <class Body>
    BK_DEVICE void each_slice(const Body& body) const {
        int slice = first_slice + static_cast<int>(threadIdx.x) / grid_.lanes;
        for (int s = 0; s < grid_.team_slices; ++s, slice += grid_.teams()) body(slice, slice < end_slice, s * grid_.steps);
    }
    // Calls body(slot, offset) for the thread's vectors of a slice.
    template <class Body>
    BK_DEVICE void each_vector(int slice, bool exists, int slot, const Body& body) const {
        if (!exists) return;
        int64_t position = offset(slice, lane);
        for (int vector = lane; vector < grid_.vectors; vector += grid_.lanes, position += int64_t{grid_.lanes} * N)
            body(slot++, position);
    }
    template <class Body>
    BK_DEVICE void each(const Body& body) const {
        each_slice([&](int slice, bool exists, int slot) { each_vector(slice, exists, slot, body); });
    }

    BK_DEVICE void issue_copies() {
        const uint64_t policy = cache_policy<false>();
        int stages = 0;
        each([&](int slot, int64_t position) {
            if (slot >= grid_.staged) {
                prefetch_cache_line(get<0>(of_) + position);
                if constexpr (kArrays > 1) prefetch_cache_line(get<1>(of_) + position);
                return;
            }
            for (; (stages + 1) * slots_per_stage() <= slot; ++stages) end_copy_group();
            start_copy<kVectorBytes>(at<0>(slot), get<0>(of_) + position, policy);
            if constexpr (kArrays > 1) start_copy<kVectorBytes>(at<1>(slot), get<1>(of_) + position, policy);
        });
        for (; stages < kCopyStages; ++stages) end_copy_group();
    }
    // Waits until `slot` has arrived: slots in ascending order, by the thread that copies to them.
    BK_DEVICE void wait_for(int slot) {
        for (; arrived_ < kCopyStages && arrived_ * slots_per_stage() <= slot; ++arrived_) {
            if (arrived_ == 0) wait_for_copies<3>();
            if (arrived_ == 1) wait_for_copies<2>();
            if (arrived_ == 2) wait_for_copies<1>();
            if (arrived_ == 3) wait_for_copies<0>();
        }
    }
    template <int kArray>
    BK_DEVICE Vector vector(int slot, int64_t position) const {
        return slot < grid_.staged ? bit_cast<Vector>(*at<kArray>(slot)) : load<N>(get<kArray>(of_) + position);
    }

private:
    static_assert(kCopyStages == 4, "wait_for() counts them");
    const StagedGrid& grid_;
    uint4* const memory_;
    const Pack<const T*, const T*> of_;
    int arrived_ = 0;  // stages that have arrived

    BK_DEVICE int slots_per_stage() const { return (grid_.staged + kCopyStages - 1) / kCopyStages; }
    template <int kArray>
    BK_DEVICE uint4* at(int slot) const {
        return memory_ + (kArray * grid_.staged + slot) * grid_.threads + threadIdx.x;
    }
};

// Combines the accumulators of a group's threads; all of them get the result.
template <class R>
BK_DEVICE typename R::Acc combine_group(const R& reducer, const typename R::Acc& mine, int blocks,
                                        RowExchange<typename R::Acc>& exchange, int phase) {
    const typename R::Acc all = combine_block(reducer, mine, exchange, phase);
    return blocks > 1 ? combine_cluster(reducer, all, blocks, exchange, phase) : all;
}

// --- the norm ---------------------------------------------------------------------------------------------------------

template <class T, class R, class Out, class G>
__global__ void __launch_bounds__(kStagedNormThreads)
    staged_norm_kernel(const __grid_constant__ StagedGrid grid, const R moments, const Out saved, const T* x, const G* gamma,
                       const G* beta, T* y) {
    using C = compute_t<T>;
    using Acc = typename R::Acc;
    constexpr int N = kVectorLanes<T>;
    __shared__ RowExchange<Acc> exchange;
    BK_LAUNCH_SHARED(uint4, dynamic);
    if (grid.blocks > 1) exchange.blocks.open();
    StagedVectors<T, 1> staged(grid, dynamic, pack(x, x));
    staged.issue_copies();
    Acc all;
    int phase = 0, pass = 0;
    for (bool again = true; again; ++phase) {
        const R known = in_pass(moments, pass);
        Acc mine = known.identity();
        int items = 0;
        bool has_started = false;
        staged.each([&](int slot, int64_t position) {
            staged.wait_for(slot);
            const Vec<T, N> vec = staged.template vector<0>(slot, position);
            if (!has_started) mine = known.start(widen_lane(vec, 0));
            has_started = true;
#pragma unroll
            for (int i = 0; i < N; ++i) known.add(mine, 0, widen_lane(vec, i));
            items += N;
            if (items < kSettleInterval) return;
            known.settle(mine, items);
            items = 0;
        });
        known.settle(mine, items);
        all = combine_group(known, mine, grid.blocks, exchange, phase);
        stamp(known, all);
        again = phase == 0 && (pass = pass_of(moments, all)) > 0;
    }
    const int64_t count = grid.groups.slices * grid.groups.length;
    const auto statistic = static_cast<const GroupMoments<T>&>(moments).finish(all, count);
    const C mean = get<0>(statistic), rstd = get<1>(statistic);
    staged.each_slice([&](int slice, bool exists, int first) {
        if (!exists) return;
        const int64_t channel = grid.channel(staged.group, slice);
        const NormAffine<C> f{mean, gamma == nullptr ? rstd : rstd * widen(gamma[channel]),
                              beta == nullptr ? C(0) : widen(beta[channel])};
        staged.each_vector(slice, exists, first, [&](int slot, int64_t position) {
            const Vec<T, N> vec = staged.template vector<0>(slot, position);
            Vec<T, N> result;
#pragma unroll
            for (int i = 0; i < N; ++i) result.lane[i] = narrow<T>(get<0>(f(widen_lane(vec, i))));
            store<N>(y + position, result);
        });
    });
    if (staged.rank != 0 || threadIdx.x != 0) return;
    int64_t offset[Out::count];
    for (int64_t& each : offset) each = staged.group;
    store_result(moments, saved.pointer, offset, all, count, 0);
}

template <class T, class R, class Out, class G>
Status staged_norm(const Launch& launch, const SliceGroups& groups, const R& moments, const Out& saved, const T* x,
                   const G* gamma, const G* beta, T* y) {
    const StagedGrid grid = StagedGrid::of<T>(groups, 1);
    return launch_kernel(launch,
                         Grid{dim3(static_cast<unsigned>(groups.groups * grid.blocks)),
                              dim3(static_cast<unsigned>(grid.threads)), static_cast<unsigned>(grid.blocks), grid.shared},
                         staged_norm_kernel<T, R, Out, G>, grid, moments, saved, x, gamma, beta, y);
}

// --- its gradients ----------------------------------------------------------------------------------------------------

template <class C>
struct PairSums {
    struct Acc {
        C first, second;
    };
    BK_DEVICE Acc identity() const { return {0, 0}; }
    BK_DEVICE Acc combine(const Acc& a, const Acc& b) const { return {a.first + b.first, a.second + b.second}; }
};

template <class T, class S, class G>
__global__ void __launch_bounds__(kStagedNormThreads)
    staged_norm_backward_kernel(const __grid_constant__ StagedGrid grid, const StagedNormBackward<T, S, G> of) {
    using C = compute_t<T>;
    using Sums = PairSums<C>;
    using Acc = typename Sums::Acc;
    constexpr int N = kVectorLanes<T>;
    __shared__ RowExchange<Acc> exchange;
    BK_LAUNCH_SHARED(uint4, dynamic);
    if (grid.blocks > 1) exchange.blocks.open();
    StagedVectors<T, 2> staged(grid, dynamic, pack(of.dy, of.x));
    staged.issue_copies();
    const Sums sums;
    int phase = 0;
    const auto combine = [&](const Acc& mine) { return combine_group(sums, mine, grid.blocks, exchange, phase++); };
    const C inv_count = C(1) / static_cast<C>(grid.groups.slices * grid.groups.length);
    const bool is_leader = staged.rank == 0 && threadIdx.x == 0;

    C mean, rstd;
    if (of.new_mean == nullptr) {
        mean = widen(of.mean[staged.group]);
        rstd = widen(of.rstd[staged.group]);
    } else {
        // The mean, then its rounding error and squared deviations; once more with x scaled if these overflow or
        // vanish.
        using Scale = SquareScale<T>;
        C unit = 1, variance = 0;
        for (bool again = true; again;) {
            Acc mine = sums.identity();
            staged.each([&](int slot, int64_t position) {
                staged.wait_for(slot);
                const Vec<T, N> x = staged.template vector<1>(slot, position);
                C sum = 0;
#pragma unroll
                for (int i = 0; i < N; ++i) sum += widen_lane(x, i) * unit;
                mine.second += sum;
            });
            mean = combine(mine).second * inv_count;
            mine = sums.identity();
            staged.each([&](int slot, int64_t position) {
                const Vec<T, N> x = staged.template vector<1>(slot, position);
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
            const C mean_error = all.second * inv_count;
            variance = all.first * inv_count - mean_error * mean_error;
            if (Scale::is_finite(mean_error)) mean += mean_error;
            const C required_unit = Scale::unit_of(mean, all.first, of.eps / inv_count);
            again = unit == C(1) && required_unit != C(1);
            if (again) unit = required_unit;
        }
        mean = Scale::unscaled(mean, unit);
        rstd = unit / StdDev<T>::of(variance < C(0) ? C(0) : variance, of.eps, unit);
        if (is_leader) {
            of.new_mean[staged.group] = narrow<S>(mean);
            of.new_rstd[staged.group] = narrow<S>(rstd);
        }
    }

    // Sums of slices, a partial for each warp of a slice.
    Acc* const slice_sums = reinterpret_cast<Acc*>(staged.memory_behind());
    const int warps = grid.warps_per_slice();
    staged.each_slice([&](int slice, bool exists, int first) {
        Acc mine = sums.identity();
        staged.each_vector(slice, exists, first, [&](int slot, int64_t position) {
            staged.wait_for(slot);
            const Vec<T, N> dy = staged.template vector<0>(slot, position), x = staged.template vector<1>(slot, position);
            C gx = 0, g = 0;
#pragma unroll
            for (int i = 0; i < N; ++i) {
                const C each = widen_lane(dy, i);
                gx += each * ((widen_lane(x, i) - mean) * rstd);
                g += each;
            }
            mine = sums.combine(mine, {gx, g});
        });
        for (int distance = 1; distance < min(grid.lanes, 32); distance *= 2)
            mine = sums.combine(mine, shuffle_xor(mine, distance));
        if (exists && staged.lane % 32 == 0) slice_sums[(slice - staged.first_slice) * warps + staged.lane / 32] = mine;
    });
    __syncthreads();
    const bool is_of_item = grid.groups.groups_per_item > 0;
    const auto gamma_of = [&](int slice) {
        return of.gamma == nullptr ? C(1) : widen(of.gamma[grid.channel(staged.group, slice)]);
    };
    Acc mine = sums.identity();
    for (int slice = staged.first_slice + static_cast<int>(threadIdx.x); slice < staged.end_slice; slice += grid.threads) {
        const Acc* const partials = slice_sums + (slice - staged.first_slice) * warps;
        Acc all = partials[0];
        for (int warp = 1; warp < warps; ++warp) all = sums.combine(all, partials[warp]);
        if (of.slice_gx != nullptr) {
            of.slice_gx[staged.group * grid.groups.slices + slice] = all.first;
            of.slice_g[staged.group * grid.groups.slices + slice] = all.second;
        }
        const C weight = is_of_item ? gamma_of(slice) : C(1);
        mine = sums.combine(mine, {all.first * weight, all.second * weight});
    }
    const Acc all = combine(mine);
    if (is_leader && !is_of_item) {
        if (of.dgamma != nullptr) of.dgamma[staged.group] = narrow<G>(all.first);
        if (of.dbeta != nullptr) of.dbeta[staged.group] = narrow<G>(all.second);
    }
    if (of.dx == nullptr) return;
    staged.each_slice([&](int slice, bool exists, int first) {
        if (!exists) return;
        const C gamma = gamma_of(slice), weight = is_of_item ? inv_count : inv_count * gamma;
        const auto f = NormBackwardAffine<C>::of(mean, rstd, gamma, all.second * weight, all.first * weight);
        staged.each_vector(slice, exists, first, [&](int slot, int64_t position) {
            const Vec<T, N> dy = staged.template vector<0>(slot, position), x = staged.template vector<1>(slot, position);
            Vec<T, N> result;
#pragma unroll
            for (int i = 0; i < N; ++i) result.lane[i] = narrow<T>(get<0>(f(widen_lane(dy, i), widen_lane(x, i))));
            store<N>(of.dx + position, result);
        });
    });
}

template <class T, class S, class G>
Status staged_norm_backward(const Launch& launch, const SliceGroups& groups, const StagedNormBackward<T, S, G>& of) {
    const StagedGrid grid = StagedGrid::of<T>(groups, 2);
    return launch_kernel(launch,
                         Grid{dim3(static_cast<unsigned>(groups.groups * grid.blocks)),
                              dim3(static_cast<unsigned>(grid.threads)), static_cast<unsigned>(grid.blocks), grid.shared},
                         staged_norm_backward_kernel<T, S, G>, grid, of);
}

}  // namespace bk
