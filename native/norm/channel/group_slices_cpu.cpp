// SPDX-License-Identifier: Apache-2.0
// CPU gradients of group and instance norm with long slices: a group is summed slice by slice, and its dx is written
// while it is still in cache; dgamma and dbeta of a channel accumulate item by item. With fewer channel groups than
// threads, the sums and the map are two passes with the same order of additions.
#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/reduce/reduce.h"
#include "core/row/row_memory_cpu.h"
#include "norm/channel/channel_norm_backward.h"

namespace bk {

namespace {

constexpr int64_t kMaxGroupWidth = 128;  // channels a group; their sums are on the stack
constexpr int64_t kMinGroupSlice = 256;

template <class T, class S>
class GroupSlicesJob {
    using C = compute_t<T>;
    using Acc = typename CombinedGradientSums<C>::Acc;

public:
    enum Work : int { kSums = 1, kMaps = 2 };

    explicit GroupSlicesJob(const GroupSlices<T, S>& of)
        : of_(of), width_(of.shape.width()), channel_groups_(of.shape.channel_groups()), combiner_{{}, of.gamma != nullptr} {}

    // Task t is channel group t of all items, or channel t (kSums alone), or group t (kMaps alone).
    BK_HD void task(int work, int64_t t) const {
        int64_t channel_group = t, item = 0, items = of_.shape.items, first = 0, last = width_;
        if (work == kSums) channel_group = t / width_, first = t % width_, last = first + 1;
        if (work == kMaps) channel_group = t % channel_groups_, item = t / channel_groups_, items = item + 1;
        Acc channel[kMaxGroupWidth];
        for (int64_t c = first; c < last; ++c) channel[c] = combiner_.identity();
        for (; item < items; ++item) {
            Acc group = combiner_.identity();
            for (int64_t c = first; c < last; ++c) {
                const Pack<C, C> slice = sums_of(item, channel_group, c);
                add(CombinedGradientSums<C>{{}, false}, channel[c], item, slice, C(1));
                add(combiner_, group, c, slice, gamma(channel_group, c));
            }
            if (work & kMaps) map(item, channel_group, group);
        }
        for (int64_t c = first; c < last && (work & kSums); ++c) {
            const auto all = combiner_.finish(channel[c], items);
            if (of_.dgamma != nullptr) of_.dgamma[channel_group * width_ + c] = narrow<T>(get<0>(all));
            if (of_.dbeta != nullptr) of_.dbeta[channel_group * width_ + c] = narrow<T>(get<1>(all));
        }
    }

private:
    BK_HD C gamma(int64_t channel_group, int64_t c) const {
        return of_.gamma == nullptr ? C(1) : widen(of_.gamma[channel_group * width_ + c]);
    }
    BK_HD int64_t slice_at(int64_t item, int64_t channel_group, int64_t c) const {
        return (item * of_.shape.channels + channel_group * width_ + c) * of_.shape.spatial;
    }

    BK_HD Pack<C, C> sums_of(int64_t item, int64_t channel_group, int64_t c) const {
        const int64_t at = slice_at(item, channel_group, c), group = item * channel_groups_ + channel_group;
        const NormColumnPair<T> reducer{{{}, true, false}};
        return reducer.finish(
            reduce_contiguous(reducer, of_.shape.spatial, of_.dy + at, of_.x + at, of_.mean + group, of_.rstd + group),
            of_.shape.spatial);
    }

    // Adds summand k.
    static BK_HD void add(const CombinedGradientSums<C>& combiner, Acc& acc, int64_t k, const Pack<C, C>& slice, C gamma) {
        combiner.add(acc, k, get<0>(slice), get<1>(slice), gamma);
        if (k % kSettleInterval == kSettleInterval - 1) combiner.settle(acc, kSettleInterval);
    }

    BK_HD void map(int64_t item, int64_t channel_group, const Acc& group) const {
        const auto sums = combiner_.finish(group, width_);
        const NormMapBackward<T, false> f{{}, of_.gamma != nullptr, true, C(1) / static_cast<C>(of_.shape.group_size())};
        const C mean = widen(of_.mean[item * channel_groups_ + channel_group]),
                rstd = widen(of_.rstd[item * channel_groups_ + channel_group]);
        for (int64_t c = 0; c < width_; ++c) {
            const int64_t at = slice_at(item, channel_group, c);
            const auto coefficients = f.start(mean, rstd, gamma(channel_group, c), get<0>(sums), get<1>(sums));
            map_slice(coefficients, of_.dy + at, of_.x + at, of_.dx + at);
        }
    }

    // dx may alias dy or x.
    BK_HD void map_slice(const NormBackwardAffine<C>& of, const T* dy, const T* x, T* dx) const {
        constexpr int kTile = 256;
        const int64_t n = of_.shape.spatial;
        for (int64_t first = 0; first < n; first += kTile) {
            const int64_t count = std::min<int64_t>(kTile, n - first);
            prefetch_chunk<1>(dx + std::min(first + 4 * kTile, n - count), static_cast<int>(count));
            if constexpr (std::is_same_v<T, f16>) {
                float wide[2][kTile];
                widen_span(wide[0], dy + first, count);
                widen_span(wide[1], x + first, count);
                BK_VECTOR_LOOP
                for (int64_t i = 0; i < count; ++i) wide[0][i] = get<0>(of(wide[0][i], wide[1][i]));
                narrow_span(dx + first, wide[0], count);
            } else {
                BK_VECTOR_LOOP
                for (int64_t i = first; i < first + count; ++i) dx[i] = narrow<T>(get<0>(of(widen(dy[i]), widen(x[i]))));
            }
        }
    }

    const GroupSlices<T, S>& of_;
    int64_t width_, channel_groups_;
    CombinedGradientSums<C> combiner_;
};

}  // namespace

template <class T>
bool takes_group_slices(const ChannelShape& shape) {
    return !shape.is_of_batch() && shape.width() <= kMaxGroupWidth && shape.spatial >= kMinGroupSlice;
}

template <class T, class S>
Status run_group_slices(const GroupSlices<T, S>& of) {
    using Job = GroupSlicesJob<T, S>;
    const Job job(of);
    const int64_t channel_groups = of.shape.channel_groups(),
                  slice_bytes = 3 * of.shape.spatial * static_cast<int64_t>(sizeof(T));
    const auto run = [&](int work, int64_t tasks, int64_t slices) {
        parallel_ranges(tasks, grain_for(slices * slice_bytes), [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t) job.task(work, t);
        });
    };
    const bool sums = of.dgamma != nullptr || of.dbeta != nullptr, maps = of.dx != nullptr;
    if (sums && maps && channel_groups >= thread_count()) {
        run(Job::kSums | Job::kMaps, channel_groups, of.shape.items * of.shape.width());
        return Status::kOk;
    }
    if (sums) run(Job::kSums, of.shape.channels, of.shape.items);
    if (maps) run(Job::kMaps, of.shape.items * channel_groups, of.shape.width());
    return Status::kOk;
}

template bool takes_group_slices<f16>(const ChannelShape&);
template bool takes_group_slices<bf16>(const ChannelShape&);
template bool takes_group_slices<float>(const ChannelShape&);
template bool takes_group_slices<double>(const ChannelShape&);

template Status run_group_slices(const GroupSlices<f16, f16>&);
template Status run_group_slices(const GroupSlices<f16, float>&);
template Status run_group_slices(const GroupSlices<bf16, bf16>&);
template Status run_group_slices(const GroupSlices<bf16, float>&);
template Status run_group_slices(const GroupSlices<float, float>&);
template Status run_group_slices(const GroupSlices<double, double>&);

}  // namespace bk
