// SPDX-License-Identifier: Apache-2.0
// Row functions of cosine embedding and triplet margin losses, of pairs and triplets of vectors.
//
// A row function (core/row/row_map.h) saves the loss of its row and maps the row to its gradients. start() takes the
// target, if the loss has one, and, for the gradients, dy.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/row/row_map.h"
#include "loss/cross_entropy/class_rows.h"
#include "loss/margin.h"
#include "loss/power.h"

namespace bk {

// loss = 1 - c for t > 0, else max(0, c - margin), with the cosine c = x1 x2 / (|x1| |x2|).
template <class T>
struct CosineRows : RowDefaults {
    using C = compute_t<T>;
    static constexpr C kMinNorms = std::is_same_v<C, double> ? C(1e-30) : C(1e-12);   // bounds |x1| |x2| below
    static constexpr C kMinSquare = std::is_same_v<C, double> ? C(1e-60) : C(1e-24);  // |x|^2 with no gradient along x
    struct Acc {
        C dot, square1, square2;
    };
    struct Row {
        C t, scale, cross_scale, self_scale1, self_scale2, loss;  // dx1 = cross_scale x2 - self_scale1 x1
    };
    struct Cached {
        C x1, x2;
    };

    C margin, grad_scale;

    BK_HD Row start(C t, C dy = C(1)) const { return {t, dy * grad_scale, 0, 0, 0, 0}; }
    BK_HD Cached transform(const Row&, int64_t, C x1, C x2) const { return {x1, x2}; }
    BK_HD Cached pad() const { return {0, 0}; }
    BK_HD Acc identity() const { return {0, 0, 0}; }

    template <class W, int N>
    BK_HD Acc reduce_tile(const Row&, Cached (&held)[N], const W&) const {
        C dot[N], square1[N], square2[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            dot[i] = held[i].x1 * held[i].x2;
            square1[i] = held[i].x1 * held[i].x1;
            square2[i] = held[i].x2 * held[i].x2;
        }
        return {sum_of(dot), sum_of(square1), sum_of(square2)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        return {a.dot + b.dot, a.square1 + b.square1, a.square2 + b.square2};
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        const C norms = math::sqrt<C>(all.square1) * math::sqrt<C>(all.square2);
        const C divisor = math::select(norms < kMinNorms, kMinNorms, norms), cosine = all.dot / divisor;
        const bool is_similar = row.t > C(0);
        row.loss = is_similar ? C(1) - cosine : positive_part(cosine - margin);
        const C slope = (is_similar ? C(-1) : cosine > margin ? C(1) : C(0)) * row.scale;
        row.cross_scale = slope / divisor;
        row.self_scale1 = all.square1 <= kMinSquare ? C(0) : slope * cosine / all.square1;
        row.self_scale2 = all.square2 <= kMinSquare ? C(0) : slope * cosine / all.square2;
        return false;
    }
    BK_HD Pack<C, C> map(const Row& row, Nothing, int64_t, const Cached& held) const {
        return pack(row.cross_scale * held.x2 - row.self_scale1 * held.x1,
                    row.cross_scale * held.x1 - row.self_scale2 * held.x2);
    }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.loss, row.loss); }
};

// loss = max(0, dp - dn + margin), with the p-norms dp of anchor - positive and dn of anchor - negative.
template <class T>
struct TripletRows : RowDefaults {
    using C = compute_t<T>;
    static constexpr C kMinDivisor = std::is_same_v<C, double> ? C(1e-30) : C(1e-12);  // bounds norm^(p - 1) below
    struct Acc {
        C positive, negative;  // sums of |d|^p
    };
    struct Row {
        C scale, positive_scale, negative_scale, loss;
    };
    struct Cached {
        C positive_diff, negative_diff;
    };

    C margin, p, grad_scale;

    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        each_power(f, &F::p, body);
    }
    BK_HD Row start(C dy = C(1)) const { return {dy * grad_scale, 0, 0, 0}; }
    BK_HD Cached transform(const Row&, int64_t, C a, C positive, C negative) const { return {a - positive, a - negative}; }
    BK_HD Cached pad() const { return {0, 0}; }
    BK_HD Acc identity() const { return {0, 0}; }

    template <class W, int N>
    BK_HD Acc reduce_tile(const Row&, Cached (&held)[N], const W&) const {
        C positive[N], negative[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            positive[i] = power_of<T>(math::fabs<C>(held[i].positive_diff), p);
            negative[i] = power_of<T>(math::fabs<C>(held[i].negative_diff), p);
        }
        return {sum_of(positive), sum_of(negative)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.positive + b.positive, a.negative + b.negative}; }
    BK_HD C root(C sum) const {
        if (p == 1) return sum;
        if (p == 2) return math::sqrt<C>(sum);
        return math::pow<T>(sum, C(1) / p);
    }
    BK_HD C inverse_power(C distance) const {
        const C divisor = p == 1 ? C(1) : power_of<T>(distance, p - 1);
        return C(1) / math::select(divisor < kMinDivisor, kMinDivisor, divisor);
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        const C positive = root(all.positive), negative = root(all.negative);
        row.loss = positive_part(positive - negative + margin);
        const C scale = positive - negative + margin > C(0) ? row.scale : C(0);
        row.positive_scale = scale * inverse_power(positive);
        row.negative_scale = scale * inverse_power(negative);
        return false;
    }
    BK_HD C slope(C d) const {
        const C sign = static_cast<C>(static_cast<int32_t>(d > C(0)) - static_cast<int32_t>(d < C(0)));
        if (p == 2) return d;
        if (p == 1 || d == C(0)) return sign;
        return sign * power_of<T>(math::fabs<C>(d), p - 1);
    }
    BK_HD Pack<C, C, C> map(const Row& row, Nothing, int64_t, const Cached& held) const {
        const C u = row.positive_scale == C(0) ? C(0) : slope(held.positive_diff) * row.positive_scale;
        const C v = row.negative_scale == C(0) ? C(0) : slope(held.negative_diff) * row.negative_scale;
        return pack(u - v, -u, v);
    }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.loss, row.loss); }
};

// loss = max(0, dp - min(dn, ds) + margin), with the p-norms dp, dn and ds of a - p + eps, a - n + eps and p - n + eps;
// without ds unless has_swap. Equal dn and ds have half of the gradient each.
template <class T>
struct TripletSwapRows : TripletRows<T> {
    using Base = TripletRows<T>;
    using typename Base::C;
    struct Acc {
        C positive, negative, swapped;  // sums of |d|^p
    };
    struct Row {
        C scale, positive_scale, negative_scale, swap_scale, loss;
    };
    struct Cached {
        C positive_diff, negative_diff, swap_diff;
    };

    C eps;
    bool has_swap;

    BK_HD Row start(C dy = C(1)) const { return {dy * this->grad_scale, 0, 0, 0, 0}; }
    BK_HD Cached transform(const Row&, int64_t, C a, C positive, C negative) const {
        return {a - positive + eps, a - negative + eps, positive - negative + eps};
    }
    BK_HD Cached pad() const { return {0, 0, 0}; }
    BK_HD Acc identity() const { return {0, 0, 0}; }

    template <class W, int N>
    BK_HD Acc reduce_tile(const Row&, Cached (&held)[N], const W&) const {
        C positive[N], negative[N], swapped[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            positive[i] = power_of<T>(math::fabs<C>(held[i].positive_diff), this->p);
            negative[i] = power_of<T>(math::fabs<C>(held[i].negative_diff), this->p);
            swapped[i] = power_of<T>(math::fabs<C>(held[i].swap_diff), this->p);
        }
        return {sum_of(positive), sum_of(negative), sum_of(swapped)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        return {a.positive + b.positive, a.negative + b.negative, a.swapped + b.swapped};
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        const C positive = this->root(all.positive), negative = this->root(all.negative), swapped = this->root(all.swapped);
        const C excess = positive - (has_swap ? math::min(negative, swapped) : negative) + this->margin;
        row.loss = positive_part(excess);
        const C scale = excess > C(0) ? row.scale : C(0);
        const C swap_fraction = !has_swap || swapped > negative ? C(0) : swapped == negative ? C(0.5) : C(1);
        row.positive_scale = scale * this->inverse_power(positive);
        row.negative_scale = scale * (C(1) - swap_fraction) * this->inverse_power(negative);
        row.swap_scale = scale * swap_fraction * this->inverse_power(swapped);
        return false;
    }
    BK_HD C scaled_slope(C d, C distance_scale) const {
        return distance_scale == C(0) ? C(0) : this->slope(d) * distance_scale;
    }
    BK_HD Pack<C, C, C> map(const Row& row, Nothing, int64_t, const Cached& held) const {
        const C u = scaled_slope(held.positive_diff, row.positive_scale),
                v = scaled_slope(held.negative_diff, row.negative_scale);
        const C w = scaled_slope(held.swap_diff, row.swap_scale);
        return pack(u - v, -u - w, v + w);
    }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.loss, row.loss); }
};

}  // namespace bk
