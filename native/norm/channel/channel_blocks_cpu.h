// SPDX-License-Identifier: Apache-2.0
// CPU gradients of group_norm with channels last, a block of whole groups at a time: the sums of each channel of an
// item and the coefficients of the map are on the stack. The block size does not change the order of additions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/reduce/reduce.h"
#include "core/row/row_memory_cpu.h"
#include "norm/channel/group_norm_backward.h"

namespace bk {

template <class C>
constexpr int64_t kMaxBlockChannels = 1024 / static_cast<int64_t>(sizeof(C));
constexpr int64_t kPositionsAtOnce = 8;  // positions added to sums in registers

template <class T>
bool takes_channel_blocks(const GroupShape& shape) {
    return shape.width() <= kMaxBlockChannels<compute_t<T>>;
}

template <class T>
class ChannelBlocksJob {
    using C = compute_t<T>;
    using Reducer = NormColumnPair<T>;
    static constexpr int64_t kMaxChannels = kMaxBlockChannels<C>;
    using Accs = AccArrays<typename Reducer::Acc, kMaxChannels>;
    using Coefficients = AccArrays<NormBackwardAffine<C>, kMaxChannels>;
    struct Statistics {
        alignas(64) C mean[kMaxChannels], rstd[kMaxChannels];
    };

public:
    enum Work : int { kSums = 1, kMaps = 2 };

    ChannelBlocksJob(const ChannelBlocks<T>& of, int64_t groups) : of_(of), width_(of.shape.width()), groups_(groups) {}

    int64_t tasks(int work) const { return work == kMaps ? of_.shape.items * blocks() : blocks(); }
    int64_t elements(int work) const {
        return groups_ * of_.shape.group_size() * (work == kMaps ? int64_t{1} : of_.shape.items);
    }

    // Task t is block t of all items or, for kMaps alone, block t % blocks() of item t / blocks().
    BK_HD void task(int work, int64_t t) const {
        const GroupShape& s = of_.shape;
        const int64_t first = t % blocks() * groups_, groups = std::min(groups_, s.groups - first);
        const int64_t begin = work == kMaps ? t / blocks() : 0, end = work == kMaps ? begin + 1 : s.items;
        const int64_t count = groups * width_;
        const CombinedGradientSums<C> combiner{{}, false};
        Accs sums, channels;
        BK_VECTOR_LOOP
        for (int64_t c = 0; c < count; ++c) channels.store(c, combiner.identity());
        for (int64_t item = begin; item < end; ++item) {
            const int64_t at = item * s.spatial * s.channels + first * width_;
            add_positions(sums, item, first, of_.dy + at, of_.x + at, count);
            if (work & kSums) add_item(channels, sums, item, count);
            if (work & kMaps) map_item(sums, item, first, groups);
        }
        for (int64_t c = 0; c < count && (work & kSums); ++c) {
            const Pack<C, C, C, C> all = combiner.finish(channels.load(c), s.items);
            if (of_.dgamma != nullptr) of_.dgamma[first * width_ + c] = get<0>(all);
            if (of_.dbeta != nullptr) of_.dbeta[first * width_ + c] = get<1>(all);
        }
    }

private:
    int64_t blocks() const { return ceil_div(of_.shape.groups, groups_); }

    // Sums each channel over all positions, in the segments that the reduction engine uses.
    BK_HD void add_positions(Accs& all, int64_t item, int64_t first, const T* dy, const T* x, int64_t count) const {
        Statistics of;
        const int64_t group = item * of_.shape.groups + first;
        for (int64_t c = 0, g = group; c < count; ++g) {
            const C mean = of_.mean[g], rstd = of_.rstd[g];
            for (const int64_t end = c + width_; c < end; ++c) of.mean[c] = mean, of.rstd[c] = rstd;
        }
        const int64_t spatial = of_.shape.spatial, segment = segment_length(spatial), step = of_.shape.channels;
        const Reducer reducer{{{}, true, false}};
        Accs accs;
        for (int64_t begin = 0; begin < spatial; begin += segment) {
            const int64_t end = std::min(spatial, begin + segment);
            BK_VECTOR_LOOP
            for (int64_t c = 0; c < count; ++c) accs.store(c, reducer.identity());
            for (int64_t p = begin, pending = 0; p < end;) {
                const bool many = end - p >= kPositionsAtOnce;
                if (many)
                    add(reducer, accs, of, dy + p * step, x + p * step, count, std::make_index_sequence<kPositionsAtOnce>{});
                else
                    add(reducer, accs, of, dy + p * step, x + p * step, count, std::index_sequence<0>{});
                p += many ? kPositionsAtOnce : 1;
                if ((pending += many ? kPositionsAtOnce : 1) % kSettleInterval == 0 || p == end)
                    settle_span(reducer, accs, count, kSettleInterval);
            }
            BK_VECTOR_LOOP
            for (int64_t c = 0; c < count; ++c)
                all.store(c, begin == 0 ? accs.load(c) : reducer.combine(all.load(c), accs.load(c)));
        }
    }

    template <size_t... Position>
    BK_HD void add(const Reducer& reducer, Accs& accs, const Statistics& of, const T* dy, const T* x, int64_t count,
                   std::index_sequence<Position...>) const {
        const int64_t step = of_.shape.channels;
        BK_VECTOR_LOOP
        for (int64_t c = 0; c < count; ++c) {
            typename Reducer::Acc acc = accs.load(c);
            const auto broadcast = reducer.broadcast_of(of.mean[c], of.rstd[c]);
            (reducer.add_with(acc, broadcast, widen(dy[c + int64_t{Position} * step]), widen(x[c + int64_t{Position} * step])),
             ...);
            accs.store(c, acc);
        }
    }

    BK_HD void add_item(Accs& channels, const Accs& sums, int64_t item, int64_t count) const {
        const Reducer reducer{{{}, true, false}};
        const CombinedGradientSums<C> combiner{{}, false};
        BK_VECTOR_LOOP
        for (int64_t c = 0; c < count; ++c) {
            auto acc = channels.load(c);
            const Pack<C, C> of_channel = reducer.finish(sums.load(c), of_.shape.spatial);
            combiner.add(acc, item, get<0>(of_channel), get<1>(of_channel), C(1));
            channels.store(c, acc);
        }
        if (item % kSettleInterval == kSettleInterval - 1) settle_span(combiner, channels, count, kSettleInterval);
    }

    BK_HD void map_item(const Accs& sums, int64_t item, int64_t first, int64_t groups) const {
        const GroupShape& s = of_.shape;
        Coefficients coefficients;
        for (int64_t g = 0; g < groups; ++g) find_coefficients(coefficients, sums, item, first, g);
        for (int64_t p = 0; p < s.spatial; ++p) {
            const int64_t offset = (item * s.spatial + p) * s.channels + first * width_;
            map_position(coefficients, of_.dy + offset, of_.x + offset, of_.dx + offset, groups * width_);
        }
    }

    // Computes the coefficients of the channels of group g of the block whose first group is `first`.
    BK_HD void find_coefficients(Coefficients& coefficients, const Accs& sums, int64_t item, int64_t first, int64_t g) const {
        const GroupShape& s = of_.shape;
        const Reducer reducer{{{}, true, false}};
        const CombinedGradientSums<C> combiner{{}, of_.gamma != nullptr};
        const auto gamma = [&](int64_t c) { return of_.gamma == nullptr ? C(1) : of_.gamma[first * width_ + c]; };
        auto group = combiner.identity();
        for (int64_t k = 0; k < width_; ++k) {
            const Pack<C, C> of_channel = reducer.finish(sums.load(g * width_ + k), s.spatial);
            combiner.add(group, k, get<0>(of_channel), get<1>(of_channel), gamma(g * width_ + k));
            if (k % kSettleInterval == kSettleInterval - 1) combiner.settle(group, kSettleInterval);
        }
        const auto all = combiner.finish(group, width_);
        const NormMapBackward<T, false> f{{}, of_.gamma != nullptr, true, C(1) / static_cast<C>(s.group_size())};
        const int64_t statistic = item * s.groups + first + g;
        for (int64_t c = g * width_; c < (g + 1) * width_; ++c)
            coefficients.store(c, f.start(of_.mean[statistic], of_.rstd[statistic], gamma(c), get<0>(all), get<1>(all)));
    }

    // dx may alias dy or x.
    BK_HD void map_position(const Coefficients& coefficients, const T* dy, const T* x, T* dx, int64_t count) const {
        BK_VECTOR_LOOP
        for (int64_t c = 0; c < count; ++c) dx[c] = narrow<T>(get<0>(coefficients.load(c)(widen(dy[c]), widen(x[c]))));
    }

    const ChannelBlocks<T>& of_;
    int64_t width_, groups_;  // channels a group, groups a block
};

template <class T>
Status run_channel_blocks(const ChannelBlocks<T>& of) {
    using Job = ChannelBlocksJob<T>;
    constexpr int64_t kWide = 32, kNarrow = 16;  // min. channels a position: both passes, sums alone
    const GroupShape& s = of.shape;
    const int64_t width = s.width(), max_groups = kMaxBlockChannels<compute_t<T>> / width;
    const auto groups_for = [&](int64_t least) {
        const int64_t fair = ceil_div(s.groups, thread_count());
        return std::min({s.groups, max_groups, std::max(fair, ceil_div(least, width))});
    };
    const auto run = [&](int work, int64_t groups) {
        const Job job(of, groups);
        const int64_t bytes = 3 * job.elements(work) * static_cast<int64_t>(sizeof(T));
        parallel_ranges(job.tasks(work), grain_for(bytes), [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t) job.task(work, t);
        });
    };
    const bool sums = of.dgamma != nullptr || of.dbeta != nullptr, maps = of.dx != nullptr;
    const int64_t wide = groups_for(kWide);
    if (sums && maps && ceil_div(s.groups, wide) >= thread_count()) {
        run(Job::kSums | Job::kMaps, wide);
        return Status::kOk;
    }
    if (sums) run(Job::kSums, groups_for(kNarrow));
    if (maps) run(Job::kMaps, std::min(s.groups, max_groups));
    return Status::kOk;
}

}  // namespace bk
