// SPDX-License-Identifier: Apache-2.0
// Row functions of cross entropy with class indices: loss and gradient of a row of logits in one kernel.
//
// loss = sum over c of s[c] (lse - x[c]) + z_loss lse^2, dx[c] = (softmax(x)[c] (sum of s + 2 z_loss lse) - s[c]) dy,
// with lse = log(sum of exp(x)) and s[c] = smoothing_per_class w[c], to which the target adds confidence w[target]. A
// GPU makes one pass (online softmax), the CPU two, the first for the maximum. A row function saves the loss and maps
// the row to its gradient; start() takes the target and, for the gradient, dy.
#pragma once

#include <cstdint>

#include "core/math/exp_below.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "core/row/row_map.h"
#include "loss/cross_entropy/class_rows.h"
#include "loss/cross_entropy/class_weights.h"

namespace bk {

// Cross entropy without label smoothing. A target that is ignored or out of range gives a loss and gradients of 0.
template <class T>
struct CrossEntropyRows : RowDefaults {
    static constexpr bool kTwoPass = !kRowsStayOnChip;  // the first pass finds the maximum
    static constexpr bool kOnePass = !kTwoPass, kMapIsElementwise = kTwoPass, kPadsInputs = true;
    using RecomputesMap = CrossEntropyRows;
    using C = compute_t<T>;
    struct Acc {
        C max, sum, weighted_logit;  // sums of exp(x - base_of(max)) and of s x
    };
    struct Row : TwoPassMax<kTwoPass> {
        int32_t target;
        C scale, target_weight, max, exp_scale, on_value, loss;  // target_weight: confidence w[target]
    };
    struct TileParams {
        C exp_scale;
    };
    using Cached = C;

    int64_t classes, ignored;
    C grad_scale;
    const C* weight = nullptr;  // of each class; null: 1
    const double* divisor = nullptr;
    C confidence = 1, z_loss = 0;  // confidence: 1 - label smoothing
    bool has_high_words = true, has_dy = true;

    BK_HD ClassWeights<C> weights() const { return {classes, ignored, weight, divisor}; }
    BK_HD Row start(int64_t target, C dy = C(1)) const {
        const bool valid = weights().is_counted(target);
        Row row{};
        row.target = valid ? static_cast<int32_t>(target) : -1;
        row.scale = (has_dy ? dy : C(1)) * grad_scale * weights().inverse_divisor();
        row.target_weight = valid ? confidence * weights().of(target) : C(0);
        return row;
    }
    BK_HD Row start(int32_t low, int32_t high, C dy = C(1)) const {
        return start(index_from_words(low, high, has_high_words), dy);
    }
    BK_HD Cached transform(const Row&, int64_t, C x) const { return x; }
    BK_HD Cached pad() const { return -C(INFINITY); }
    BK_HD Acc identity() const { return {-C(INFINITY), C(0), C(0)}; }

    template <class W, int N>
    BK_HD Acc reduce_tile(const Row& row, Cached (&x)[N], const W& where) const {
        if constexpr (kTwoPass)
            if (!row.knows_max) return {max_of(x), C(0), C(0)};
        Acc acc = reduce_without_exp(row, x, where);
        const ExpBelow<T> by = shifted_exp(acc.max);
        acc.sum = exponentials(x, by) * by.scale();
        return acc;
    }
    BK_HD ExpBelow<T> shifted_exp(C max) const { return ExpBelow<T>(base_of(max)); }
    // An accumulator that lacks the sum of exponentials. A GPU adds the target logit in add_target().
    template <class W, int N>
    BK_HD Acc reduce_without_exp([[maybe_unused]] const Row& row, const Cached (&x)[N], [[maybe_unused]] const W& where) const {
#if BK_CUDA
        return {max_of(x), C(0), C(0)};
#else
        return {row.max, C(0), row.target_weight * target_logit_of(x, where, row.target)};
#endif
    }
    BK_HD bool has_sums_without_exp() const { return false; }
    BK_HD int target_index(const Row& row) const { return row.target; }
    BK_HD void add_target(const Row& row, Acc* all, C x) const { all->weighted_logit += row.target_weight * x; }
    BK_HD Acc combine_same_base(const Acc& a, const Acc& b) const {
        return {MaxOp{}(a.max, b.max), a.sum + b.sum, a.weighted_logit + b.weighted_logit};
    }
    // Online softmax: the sum below the smaller maximum is rescaled to the larger one.
    BK_HD C combined_sum(const Acc& a, const Acc& b) const {
        const bool first = a.max > b.max;
        const C high = first ? a.max : b.max, low = first ? b.max : a.max;
        return (first ? a.sum : b.sum) + (first ? b.sum : a.sum) * math::exp<T>(low - base_of(high));
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        Acc both = combine_same_base(a, b);
        if constexpr (!kTwoPass) both.sum = combined_sum(a, b);
        return both;
    }
    template <class L>
    BK_HD Acc merge(const Acc& mine, const L& lanes) const {
        const C max = lanes.largest(mine.max);
        return {max, lanes.sum(mine.sum * math::exp_of_negative<T>(mine.max - base_of(max))), mine.weighted_logit};
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const { return finish_with(row, all, row.target_weight); }
    // target_sum: the sum of s over the classes.
    BK_HD bool finish_with(Row& row, const Acc& all, C target_sum) const {
        row.max = base_of(all.max);
        if constexpr (kTwoPass)
            if (!row.knows_max) return row.knows_max = true;
        const C logarithm = math::log<T>(all.sum), lse = logarithm + row.max;
        const C loss = target_sum * logarithm + (target_sum * row.max - all.weighted_logit) + z_loss * lse * lse;
        row.loss = row.target < 0 ? C(0) : loss;
        row.exp_scale = row.scale * (target_sum + C(2) * z_loss * lse) / all.sum;
        row.on_value = row.scale * row.target_weight;
        return false;
    }
    BK_HD TileParams tile_params(const Row& row, [[maybe_unused]] const Acc& mine) const {
        if constexpr (kTwoPass) return {row.exp_scale};
        const ExpBelow<T> by = shifted_exp(mine.max);
        return {math::exp<T>(by.base - row.max) * (row.exp_scale * by.scale())};
    }
    BK_HD Pack<C> map(const Row& row, const TileParams& tile_params, int64_t j, Cached e) const {
        const C grad = e * tile_params.exp_scale - math::select(static_cast<int32_t>(j) == row.target, row.on_value, C(0));
        return pack(math::select(row.target < 0, C(0), grad));
    }
    BK_HD Pack<C> map_recompute(const Row& row, int64_t j, Cached x) const {
        const ExpBelow<T> by(row.max);
        return map(row, {row.exp_scale * by.scale()}, j, by(x));
    }
    BK_HD bool excludes_target(const Row& row, int first, unsigned count) const {
        return are_non_targets(row.target, first, count);
    }
    BK_HD Pack<C> map_non_target(const Row&, const TileParams& tile_params, Cached e) const {
        return pack(e * tile_params.exp_scale);
    }
    BK_HD Pack<C> map_non_target_recompute(const Row& row, Cached x) const {
        const ExpBelow<T> by(row.max);
        return map_non_target(row, {row.exp_scale * by.scale()}, by(x));
    }
    BK_HD Pack<C, C> saved(const Row& row) const {
        const C loss = row.loss * weights().inverse_divisor();  // NaN if every target is ignored: 0 / 0
        return pack(loss, loss);
    }
};

// Cross entropy with label smoothing: every class adds smoothing_per_class w[c] (lse - x[c]) to the loss.
template <class T>
struct SmoothCrossEntropyRows : CrossEntropyRows<T> {
    using Base = CrossEntropyRows<T>;
    using Base::kTwoPass, Base::shifted_exp, Base::weight;
    static constexpr bool kVectorizesAcrossRows = true, kBypassesL1 = true;                 // every row reads the weights again
    static constexpr int kCachedBytes = 64, kCachedInputBytes = sizeof(T) == 4 ? 128 : 64;  // Row needs registers too
    using RecomputesMap = SmoothCrossEntropyRows;
    using typename Base::C;
    using typename Base::Cached;
    using typename Base::TileParams;
    struct Acc : Base::Acc {
        C weight_sum;  // of the classes, if there is smoothing
    };
    struct Row : Base::Row {
        C off_value;
    };

    C smoothing_per_class = 0;
    C class_weight = 1;  // w of the class that at() selects

    // reduce_tile() of a lane per row reads class_weight; map() has the weights as a column input, too.
    template <class F>
    static F at(F f, int64_t j) {
        if (f.weight != nullptr) f.class_weight = f.weight[j];
        return f;
    }
    static auto row_members() {
        return pack(&Row::target, &Row::scale, &Row::target_weight, &Row::max, &Row::exp_scale, &Row::on_value, &Row::off_value,
                    &Row::loss);
    }
    static auto acc_members() { return pack(&Acc::max, &Acc::sum, &Acc::weighted_logit, &Acc::weight_sum); }
    template <class... P>
    BK_HD Row start(P... given) const {
        return {Base::start(given...), C(0)};
    }
    BK_HD Acc identity() const { return {Base::identity(), C(0)}; }

#if BK_CUDA
    // load(exists, j, w) sets w to the weights of W::width classes from j on, a multiple of W::width, or to 0.
    template <class W, int N, class Load>
    BK_DEVICE void add_smoothing_from(const Cached (&x)[N], const W& where, Acc* acc, const Load& load) const {
        C dot = 0, weights = 0;
#pragma unroll
        for (int i = 0; i < N; i += W::width) {
            const bool exists = where.has(i);
            C w[W::width];
            load(exists, where.position(i), w);
#pragma unroll
            for (int lane = 0; lane < W::width; ++lane) {
                dot += w[lane] * math::select(exists, x[i + lane], C(0));
                weights += w[lane];
            }
        }
        acc->weighted_logit += smoothing_per_class * dot;
        acc->weight_sum = weights;
    }
#endif
    // Adds smoothing_per_class times the sum of w[j] x[j], and the sum of w[j].
    template <class W, int N>
    BK_HD void add_smoothing([[maybe_unused]] const Row& row, const Cached (&x)[N], const W& where, Acc* acc) const {
#if BK_IN_KERNEL
        if (weight == nullptr)
            add_smoothing_from(x, where, acc, [](bool exists, int, C(&w)[W::width]) {
#pragma unroll
                for (C& lane_weight : w) lane_weight = exists ? C(1) : C(0);
            });
        else if (reinterpret_cast<uintptr_t>(weight) % kVectorBytes == 0)
            add_smoothing_from(x, where, acc, [this](bool exists, int j, C(&w)[W::width]) {
                const Vec<C, W::width> loaded = load_if<W::width>(exists, weight + j);
#pragma unroll
                for (int lane = 0; lane < W::width; ++lane) w[lane] = loaded.lane[lane];
            });
        else
            add_smoothing_from(x, where, acc, [this](bool exists, int j, C(&w)[W::width]) {
#pragma unroll
                for (int lane = 0; lane < W::width; ++lane) w[lane] = exists ? weight[j + lane] : C(0);
            });
#else
        if constexpr (N == 1) {  // a vector lane for each of many rows: no branches
            acc->weighted_logit += math::select(smoothing_per_class == C(0), C(0), smoothing_per_class * (class_weight * x[0]));
            acc->weight_sum = math::select(smoothing_per_class == C(0), C(0), class_weight);
            return;
        }
        C dot[N], weights[N];
        const C* const weights_at = weight == nullptr ? nullptr : weight + where.at(0);
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            C w = C(1);
            if (weights_at != nullptr && where.has(i)) w = weights_at[i];
            weights[i] = math::select(where.has(i), w, C(0));
            dot[i] = math::select(where.has(i), smoothing_per_class * (w * x[i]), C(0));
        }
        // The target adds to its element first, as in a lane for each row, whose bits are the same.
        const int64_t index = row.target - where.at(0);
        dot[index >= 0 && index < where.count() ? index : 0] += acc->weighted_logit;
        acc->weighted_logit = sum_of(dot);
        acc->weight_sum = sum_of(weights);
#endif
    }
    template <class W, int N>
    BK_HD Acc reduce_tile(const Row& row, Cached (&x)[N], const W& where) const {
        if constexpr (kTwoPass)
            if (!row.knows_max) return {Base::reduce_tile(row, x, where), C(0)};
        Acc acc = reduce_without_exp(row, x, where);
        const ExpBelow<T> by = shifted_exp(acc.max);
        acc.sum = exponentials(x, by) * by.scale();
        return acc;
    }
    template <class W, int N>
    BK_HD Acc reduce_without_exp(const Row& row, const Cached (&x)[N], const W& where) const {
        Acc acc{Base::reduce_without_exp(row, x, where), C(0)};
        if ((kTwoPass && N == 1) || has_sums_without_exp()) add_smoothing(row, x, where, &acc);
        return acc;
    }
    BK_HD bool has_sums_without_exp() const { return smoothing_per_class != C(0); }
    BK_HD Acc combine_same_base(const Acc& a, const Acc& b) const {
        return {Base::combine_same_base(a, b), a.weight_sum + b.weight_sum};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {Base::combine(a, b), a.weight_sum + b.weight_sum}; }
    template <class L>
    BK_HD Acc merge(const Acc& mine, const L& lanes) const {
        Acc all{Base::merge(mine, lanes), C(0)};
        if (!has_sums_without_exp()) return all;  // the target logit is in the first lane
        all.weighted_logit = lanes.sum(mine.weighted_logit);
        all.weight_sum = lanes.sum(mine.weight_sum);
        return all;
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        const bool again = Base::finish_with(row, all, row.target_weight + smoothing_per_class * all.weight_sum);
        row.off_value = math::select(weight == nullptr, row.scale * smoothing_per_class, C(0));
        row.on_value = row.scale * row.target_weight + row.off_value;
        return again;
    }
    // w is 0 if there are no weights or no smoothing.
    BK_HD Pack<C> map(const Row& row, const TileParams& tile_params, int64_t j, Cached e, C w = C(0)) const {
        const C subtracted = math::select(static_cast<int32_t>(j) == row.target, row.on_value, row.off_value) +
                             row.scale * smoothing_per_class * w;
        return pack(math::select(row.target < 0, C(0), e * tile_params.exp_scale - subtracted));
    }
    BK_HD Pack<C> map_recompute(const Row& row, int64_t j, Cached x, C w = C(0)) const {
        const ExpBelow<T> by(row.max);
        return map(row, {row.exp_scale * by.scale()}, j, by(x), w);
    }
    BK_HD Pack<C> map_non_target(const Row& row, const TileParams& tile_params, Cached e, C w = C(0)) const {
        return pack(e * tile_params.exp_scale - (row.off_value + row.scale * smoothing_per_class * w));
    }
    BK_HD Pack<C> map_non_target_recompute(const Row& row, Cached x, C w = C(0)) const {
        const ExpBelow<T> by(row.max);
        return map_non_target(row, {row.exp_scale * by.scale()}, by(x), w);
    }
};

}  // namespace bk
