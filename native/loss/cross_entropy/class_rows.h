// SPDX-License-Identifier: Apache-2.0
// Row functions of losses over classes: cross entropy with soft targets, multi-class margin and multi-label soft
// margin; and helpers that cross_entropy_rows.h shares.
//
// A row function (core/row/row_map.h) saves the loss of its row and maps the row to its gradient. start() takes the
// target, if it is an index, and, for the gradient, dy.
#pragma once

#include <cstdint>

#include "core/math/exp_below.h"
#include "core/math/math.h"
#include "core/platform.h"
#include "core/row/row_map.h"
#include "loss/cross_entropy/class_weights.h"
#include "loss/likelihood.h"
#include "loss/margin.h"
#include "loss/power.h"

namespace bk {

// x at position `target` if that is one of these N, else 0.
template <class C, class W, int N>
BK_HD C target_logit_of(const C (&x)[N], const W& where, int32_t target) {
#if BK_IN_KERNEL
    C x_target = 0;
#pragma unroll
    for (int i = 0; i < N; i += W::width) {
        const unsigned index = static_cast<unsigned>(target - where.position(i));
        if (index >= W::width) continue;
#pragma unroll
        for (unsigned lane = 0; lane < W::width; ++lane) x_target = lane == index ? x[i + lane] : x_target;
    }
    return x_target;
#else
    if (N == 1) return static_cast<int32_t>(where.at(0)) == target ? x[0] : C(0);
    const int64_t index = target - where.at(0);  // elements are contiguous
    return index >= 0 && index < where.count() ? x[index] : C(0);
#endif
}

// Whether the row has a target and it is none of the `count` classes from `first` on.
BK_HD bool are_non_targets(int32_t target, int first, unsigned count) {
    return target >= 0 && static_cast<unsigned>(target - first) >= count;
}

// The maximum that exponents subtract; 0 if all elements are -inf, where -inf - max would be NaN.
template <class C>
BK_HD C base_of(C max) {
    return math::select(max == -C(INFINITY), C(0), max);
}

// Replaces each x by exp(x - base) / below.scale() and returns the sum of these.
template <class T, int N>
BK_HD compute_t<T> exponentials(compute_t<T> (&x)[N], const ExpBelow<T>& below) {
    BK_HELD_LOOP
    for (int i = 0; i < N; ++i) x[i] = below(x[i]);
    return sum_of(x);
}

// The index of a target: the low word alone if indices have 4 bytes.
BK_HD int64_t index_from_words(int32_t low, int32_t high, bool has_high_word) {
    const int64_t wide = static_cast<int64_t>(static_cast<uint64_t>(high) << 32 | static_cast<uint32_t>(low));
    return has_high_word ? wide : int64_t{low};
}

// loss = -sum of s[c] log(softmax(x)[c]) with s[c] = w[c] (confidence q[c] + smoothing_per_class), where s[c] = 0 adds
// nothing even if x[c] is -inf; dx[c] = (softmax(x)[c] sum of s - s[c]) dy.
template <class T>
struct SoftCrossEntropyRows : RowDefaults {
    static constexpr bool kTwoPass = !kRowsStayOnChip;  // the first pass finds the maximum
    using C = compute_t<T>;
    static constexpr bool kOnePass = !kTwoPass, kMapIsElementwise = kTwoPass, kVectorizesAcrossRows = true;
    static constexpr int kMaxChunk = 64;
    struct Acc {
        C max, sum, target_sum, dot;  // target_sum: of s; dot: of s (x - base_of(max))
    };
    struct Row : TwoPassMax<kTwoPass> {
        C scale, max, target_sum, exp_scale, loss;
    };
    struct TileParams {
        C exp_scale;
    };
    struct Cached {
        C x, q;
    };

    C grad_scale;
    int64_t classes;
    const C* weight = nullptr;  // w; null: 1
    C confidence = 1, smoothing_per_class = 0;
    bool has_class_weight = false;
    C class_weight = 1;

    template <class F>
    static F at(F f, int64_t j) {
        f.class_weight = f.weight_of(j);
        f.has_class_weight = true;
        return f;
    }
    static auto row_members() { return pack(&Row::scale, &Row::max, &Row::target_sum, &Row::exp_scale, &Row::loss); }
    static auto acc_members() { return pack(&Acc::max, &Acc::sum, &Acc::target_sum, &Acc::dot); }
    // The weight of class j, or any value past the end of the row. The bounds check becomes the mask of a vector load.
    BK_HD C weight_of(int64_t j) const {
        if (kTwoPass && has_class_weight) return class_weight;
        const uint32_t num_weights = weight == nullptr ? 0u : static_cast<uint32_t>(classes);
        C w = C(1);
        if (static_cast<uint32_t>(j) < num_weights) w = weight[j];
        return w;
    }
    BK_HD Row start(C dy = C(1)) const {
        Row row{};
        row.scale = dy * grad_scale;
        return row;
    }
    BK_HD Cached transform(const Row&, int64_t j, C x, C q) const {
        return {x, weight_of(j) * (confidence * q + smoothing_per_class)};
    }
    BK_HD Cached pad() const { return {-C(INFINITY), C(0)}; }
    BK_HD Acc identity() const { return {-C(INFINITY), C(0), C(0), C(0)}; }

    template <class W, class H, int N>
    BK_HD Acc reduce_tile([[maybe_unused]] const Row& row, H (&held)[N], const W&) const {
        C x[N], q[N], dot[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) x[i] = held[i].x, q[i] = held[i].q;
        if constexpr (kTwoPass)
            if (!row.knows_max) return {max_of(x), 0, 0, 0};
        const C max = kTwoPass ? row.max : max_of(x), base = base_of(max);
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) dot[i] = multiply_no_nan(q[i], x[i] - base);
        const ExpBelow<T> below(base);
        const C sum = exponentials(x, below) * below.scale();
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) held[i].x = x[i];
        return {max, sum, sum_of(q), sum_of(dot)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        if constexpr (kTwoPass) return {math::max(a.max, b.max), a.sum + b.sum, a.target_sum + b.target_sum, a.dot + b.dot};
        const bool first = a.max > b.max;
        const Acc high = first ? a : b, low = first ? b : a;
        const C base = base_of(high.max);
        return {high.max, high.sum + low.sum * math::exp<T>(low.max - base), a.target_sum + b.target_sum,
                high.dot + (low.dot + multiply_no_nan(low.target_sum, base_of(low.max) - base))};
    }
    template <class L>
    BK_HD Acc merge(const Acc& mine, const L& lanes) const {
        const C max = lanes.largest(mine.max), base = base_of(max), base_before = base_of(mine.max);
        return {max, lanes.sum(mine.sum * math::exp_of_negative<T>(mine.max - base)), lanes.sum(mine.target_sum),
                lanes.sum(mine.dot + multiply_no_nan(mine.target_sum, base_before - base))};
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        row.max = base_of(all.max);
        if constexpr (kTwoPass)
            if (!row.knows_max) return row.knows_max = true;
        row.target_sum = all.target_sum;
        row.loss = multiply_no_nan(all.target_sum, math::log<T>(all.sum)) - all.dot;
        row.exp_scale = all.target_sum * row.scale / all.sum;
        return false;
    }
    BK_HD TileParams tile_params(const Row& row, [[maybe_unused]] const Acc& mine) const {
        if constexpr (kTwoPass) return {row.exp_scale};
        const C base = base_of(mine.max);
        return {math::exp<T>(base - row.max) * (row.exp_scale * ExpBelow<T>(base).scale())};
    }
    BK_HD Pack<C> map(const Row& row, const TileParams& tile_params, int64_t, const Cached& held) const {
        return pack(held.x * tile_params.exp_scale - held.q * row.scale);
    }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.loss, row.loss); }
};

// Gradients of logits and soft targets. dq = confidence w (lse - x) dy needs x, which reduce_tile() replaces in Base::Cached.
template <class T>
struct SoftCrossEntropyTargetRows : SoftCrossEntropyRows<T> {
    static constexpr int kCachedBytes = 64;
    using Base = SoftCrossEntropyRows<T>;
    using typename Base::C;
    struct Cached : Base::Cached {
        C logit;
    };
    struct Row : Base::Row {
        C lse;  // log(sum of exp(x)), of logits x
    };

    static auto row_members() { return pack(&Row::scale, &Row::max, &Row::target_sum, &Row::exp_scale, &Row::loss, &Row::lse); }
    BK_HD Row start(C dy = C(1)) const { return {Base::start(dy), 0}; }
    BK_HD Cached transform(const Row& row, int64_t j, C x, C q) const { return {Base::transform(row, j, x, q), x}; }
    BK_HD Cached pad() const { return {Base::pad(), -C(INFINITY)}; }
    BK_HD bool finish(Row& row, const typename Base::Acc& all, int64_t n) const {
        const bool again = Base::finish(row, all, n);
        row.lse = math::log<T>(all.sum) + row.max;
        return again;
    }
    BK_HD Pack<C, C> map(const Row& row, const typename Base::TileParams& tile_params, int64_t j, const Cached& held) const {
        const C slope = this->weight_of(j) * this->confidence * row.scale;
        return pack(get<0>(Base::map(row, tile_params, j, held)), slope * (row.lse - held.logit));
    }
};

// loss = w[target] / classes times the sum over j != target of max(0, margin - x[target] + x[j])^p. The first of two
// passes finds x[target].
template <class T>
struct MultiMarginRows : RowDefaults {
    using C = compute_t<T>;
    struct Acc {
        C target_logit, sum, slope_sum;
    };
    struct Row {
        int32_t target;
        C target_scale, scale, offset, slope_sum, loss;  // offset: margin - x[target]
        int32_t pass;
    };
    using Cached = C;
    static constexpr bool kOnePass = false;

    int64_t classes;
    C margin, p, grad_scale;
    const C* weight;  // of each class; null: 1
    bool has_high_words;

    BK_HD Row start(int32_t low, int32_t high, C dy = C(1)) const {
        const int64_t target = index_from_words(low, high, has_high_words);
        const bool valid = target >= 0 && target < classes;
        const C target_scale = (valid && weight != nullptr ? weight[target] : C(1)) / static_cast<C>(classes);
        return {valid ? static_cast<int32_t>(target) : -1, target_scale, dy * grad_scale * target_scale, 0, 0, 0, 0};
    }
    BK_HD Cached transform(const Row&, int64_t, C x) const { return x; }
    BK_HD Cached pad() const { return 0; }
    BK_HD Acc identity() const { return {0, 0, 0}; }
    BK_HD C slope(C hinge) const { return hinge > C(0) ? (p == 1 ? C(1) : p * power_of<T>(hinge, p - 1)) : C(0); }

    template <class W, int N>
    BK_HD Acc reduce_tile(const Row& row, Cached (&x)[N], const W& where) const {
        if (row.pass == 0) return {target_logit_of(x, where, row.target), 0, 0};
        C sum = 0, slope_sum = 0;
        BK_UNROLL
        for (int i = 0; i < N; ++i) {
            if (!where.has(i) || static_cast<int32_t>(where.at(i)) == row.target) continue;
            const C hinge = positive_part(row.offset + x[i]);
            sum += power_of<T>(hinge, p);
            slope_sum += slope(hinge);
        }
        return {0, sum, slope_sum};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        return {a.target_logit + b.target_logit, a.sum + b.sum, a.slope_sum + b.slope_sum};
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        if (row.target < 0 || row.pass == 2) return false;
        if (row.pass++ == 0) {
            row.offset = margin - all.target_logit;
            return true;
        }
        row.slope_sum = all.slope_sum;
        row.loss = all.sum * row.target_scale;
        return false;
    }
    BK_HD Pack<C> map(const Row& row, Nothing, int64_t j, Cached x) const {
        if (row.target < 0) return pack(C(0));
        return pack((static_cast<int32_t>(j) == row.target ? -row.slope_sum : slope(row.offset + x)) * row.scale);
    }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.loss, row.loss); }
};

// loss = mean over c of w[c] bce_with_logits(x[c], y[c]).
template <class T>
struct SoftMarginRows : RowDefaults {
    using C = compute_t<T>;
    using Acc = C;
    struct Row {
        C loss;
    };
    struct Cached {
        C x, y;
        bool exists;
    };

    int64_t classes;
    const C* weight = nullptr;  // of each class; null: 1

    BK_HD Row start() const { return {}; }
    BK_HD Cached transform(const Row&, int64_t, C x, C y) const { return {x, y, true}; }
    BK_HD Cached pad() const { return {0, 0, false}; }
    BK_HD Acc identity() const { return 0; }

    template <class W, int N>
    BK_HD Acc reduce_tile(const Row&, Cached (&held)[N], const W& where) const {
        C class_loss[N];
        BK_UNROLL
        for (int i = 0; i < N; ++i) class_loss[i] = math::select(held[i].exists, bce_with_logit<T>(held[i].x, held[i].y), C(0));
        if (weight != nullptr) {
            BK_UNROLL
            for (int i = 0; i < N; ++i)
                if (where.has(i)) class_loss[i] *= weight[where.at(i)];
        }
        return sum_of(class_loss);
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return a + b; }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        row.loss = classes == 0 ? C(0) : all / static_cast<C>(classes);
        return false;
    }
    BK_HD Pack<> map(const Row&, Nothing, int64_t, const Cached&) const { return {}; }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.loss, row.loss); }
};

}  // namespace bk
