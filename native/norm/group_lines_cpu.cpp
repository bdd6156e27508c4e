// Gradients of group and instance norm on the CPU, of long lines: the sums of a group are found line by line, and its dx is
// made while the group is still in a cache. What dgamma and dbeta need of a channel is added up item by item. A pass each takes
// their place where there are fewer parts of the channels than threads, with the same order of additions.
#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/reduce/reduce.h"
#include "core/rows/row_memory_cpu.h"
#include "norm/channel_norm_backward.h"

namespace bk {

namespace {

constexpr int64_t kMostGroupWidth = 128;  // channels of a group, of which sums are on the stack
constexpr int64_t kLongGroupLine = 256;

template <class T, class S>
class GroupLinesJob {
    using C = compute_t<T>;
    using Acc = typename JoinedSlopes<C>::Acc;

public:
    enum Work : int { kSums = 1, kMaps = 2 };

    explicit GroupLinesJob(const GroupLines<T, S>& of)
        : of_(of), width_(of.shape.width()), parts_(of.shape.parts()), join_{{}, of.gamma != nullptr} {}

    // Of all items of part t; or, sums alone, of channel t; or, maps alone, of group t.
    BK_HD void task(int work, int64_t t) const {
        int64_t part = t, item = 0, items = of_.shape.items, first = 0, last = width_;
        if (work == kSums) part = t / width_, first = t % width_, last = first + 1;
        if (work == kMaps) part = t % parts_, item = t / parts_, items = item + 1;
        Acc channel[kMostGroupWidth];
        for (int64_t c = first; c < last; ++c) channel[c] = join_.identity();
        for (; item < items; ++item) {
            Acc group = join_.identity();
            for (int64_t c = first; c < last; ++c) {
                const Pack<C, C> line = sums_of(item, part, c);
                add(JoinedSlopes<C>{{}, false}, channel[c], item, line, C(1));
                add(join_, group, c, line, gamma(part, c));
            }
            if (work & kMaps) map(item, part, group);
        }
        for (int64_t c = first; c < last && (work & kSums); ++c) {
            const auto all = join_.finish(channel[c], items);
            if (of_.dgamma != nullptr) of_.dgamma[part * width_ + c] = narrow<T>(get<0>(all));
            if (of_.dbeta != nullptr) of_.dbeta[part * width_ + c] = narrow<T>(get<1>(all));
        }
    }

private:
    BK_HD C gamma(int64_t part, int64_t c) const { return of_.gamma == nullptr ? C(1) : widen(of_.gamma[part * width_ + c]); }
    BK_HD int64_t line_at(int64_t item, int64_t part, int64_t c) const {
        return (item * of_.shape.channels + part * width_ + c) * of_.shape.spatial;
    }

    BK_HD Pack<C, C> sums_of(int64_t item, int64_t part, int64_t c) const {
        const int64_t at = line_at(item, part, c), group = item * parts_ + part;
        const NormColumnPair<T> reducer{{{}, true, false}};
        return reducer.finish(
            reduce_line(reducer, of_.shape.spatial, of_.dy + at, of_.x + at, of_.mean + group, of_.rstd + group),
            of_.shape.spatial);
    }

    // Number k of those that are added.
    static BK_HD void add(const JoinedSlopes<C>& join, Acc& acc, int64_t k, const Pack<C, C>& line, C gamma) {
        join.add(acc, k, get<0>(line), get<1>(line), gamma);
        if (k % kReduceRun == kReduceRun - 1) join.settle(acc, kReduceRun);
    }

    BK_HD void map(int64_t item, int64_t part, const Acc& group) const {
        const auto sums = join_.finish(group, width_);
        const NormMapBackward<T, false> f{{}, of_.gamma != nullptr, true, C(1) / static_cast<C>(of_.shape.group_size())};
        const C mean = widen(of_.mean[item * parts_ + part]), rstd = widen(of_.rstd[item * parts_ + part]);
        for (int64_t c = 0; c < width_; ++c) {
            const int64_t at = line_at(item, part, c);
            const auto numbers = f.start(mean, rstd, gamma(part, c), get<0>(sums), get<1>(sums));
            map_line(numbers, of_.dy + at, of_.x + at, of_.dx + at);
        }
    }

    // dx may lie on dy or x.
    BK_HD void map_line(const NormGradientLine<C>& of, const T* dy, const T* x, T* dx) const {
        constexpr int kChunk = 256;
        const int64_t n = of_.shape.spatial;
        for (int64_t first = 0; first < n; first += kChunk) {
            const int64_t count = std::min<int64_t>(kChunk, n - first);
            ask_for_chunk<1>(dx + std::min(first + 4 * kChunk, n - count), static_cast<int>(count));
            if constexpr (std::is_same_v<T, f16>) {
                float wide[2][kChunk];
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

    const GroupLines<T, S>& of_;
    int64_t width_, parts_;
    JoinedSlopes<C> join_;
};

}  // namespace

template <class T>
bool takes_group_lines(const ChannelShape& shape) {
    return !shape.is_of_batch() && shape.width() <= kMostGroupWidth && shape.spatial >= kLongGroupLine;
}

template <class T, class S>
Status run_group_lines(const GroupLines<T, S>& of) {
    using Job = GroupLinesJob<T, S>;
    const Job job(of);
    const int64_t parts = of.shape.parts(), line = 3 * of.shape.spatial * static_cast<int64_t>(sizeof(T));
    const auto run = [&](int work, int64_t tasks, int64_t lines) {
        parallel_ranges(tasks, grain_for(lines * line), [&](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t) job.task(work, t);
        });
    };
    const bool sums = of.dgamma != nullptr || of.dbeta != nullptr, maps = of.dx != nullptr;
    if (sums && maps && parts >= thread_count()) {
        run(Job::kSums | Job::kMaps, parts, of.shape.items * of.shape.width());
        return Status::kOk;
    }
    if (sums) run(Job::kSums, of.shape.channels, of.shape.items);
    if (maps) run(Job::kMaps, of.shape.items * parts, of.shape.width());
    return Status::kOk;
}

template bool takes_group_lines<f16>(const ChannelShape&);
template bool takes_group_lines<bf16>(const ChannelShape&);
template bool takes_group_lines<float>(const ChannelShape&);
template bool takes_group_lines<double>(const ChannelShape&);

template Status run_group_lines(const GroupLines<f16, f16>&);
template Status run_group_lines(const GroupLines<f16, float>&);
template Status run_group_lines(const GroupLines<bf16, bf16>&);
template Status run_group_lines(const GroupLines<bf16, float>&);
template Status run_group_lines(const GroupLines<float, float>&);
template Status run_group_lines(const GroupLines<double, double>&);

}  // namespace bk
