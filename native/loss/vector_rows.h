// Row functions of the losses of pairs and triplets of vectors.
//
// Each saves its row's term, and maps the row to its gradients. start() takes the target of the row, where there is one, and,
// for the gradients, dy.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/rows/row_map.h"
#include "loss/class_rows.h"
#include "loss/margin.h"
#include "loss/power.h"

namespace bk {

// With the cosine c of x1 and x2: 1 - c for t > 0, else max(0, c - margin).
template <class T>
struct CosineRows : RowDefaults {
    using C = compute_t<T>;
    static constexpr C kLeast = std::is_same_v<C, double> ? C(1e-30) : C(1e-12);        // of the product of the lengths
    static constexpr C kLeastSquare = std::is_same_v<C, double> ? C(1e-60) : C(1e-24);  // of the square of one
    struct Acc {
        C dot, square1, square2;
    };
    struct Row {
        C t, scale, across, along1, along2, term;  // dx1 = across x2 - along1 x1
    };
    struct Held {
        C x1, x2;
    };

    C margin, factor;

    BK_HD Row start(C t, C dy = C(1)) const { return {t, dy * factor, 0, 0, 0, 0}; }
    BK_HD Held hold(const Row&, int64_t, C x1, C x2) const { return {x1, x2}; }
    BK_HD Held pad() const { return {0, 0}; }
    BK_HD Acc identity() const { return {0, 0, 0}; }

    template <class W, int N>
    BK_HD Acc sum_up(const Row&, Held (&held)[N], const W&) const {
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
        const C lengths = math::sqrt<C>(all.square1) * math::sqrt<C>(all.square2);
        const C divisor = math::select(lengths < kLeast, kLeast, lengths), cosine = all.dot / divisor;
        const bool alike = row.t > C(0);
        row.term = alike ? C(1) - cosine : positive_part(cosine - margin);
        const C slope = (alike ? C(-1) : cosine > margin ? C(1) : C(0)) * row.scale;
        row.across = slope / divisor;
        row.along1 = all.square1 <= kLeastSquare ? C(0) : slope * cosine / all.square1;
        row.along2 = all.square2 <= kLeastSquare ? C(0) : slope * cosine / all.square2;
        return false;
    }
    BK_HD Pack<C, C> map(const Row& row, Nothing, int64_t, const Held& held) const {
        return pack(row.across * held.x2 - row.along1 * held.x1, row.across * held.x1 - row.along2 * held.x2);
    }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.term, row.term); }
};

// With the p-norms dp of a - p and dn of a - n: max(0, dp - dn + margin).
template <class T>
struct TripletRows : RowDefaults {
    using C = compute_t<T>;
    static constexpr C kLeast = std::is_same_v<C, double> ? C(1e-30) : C(1e-12);  // of a power of a norm that divides
    struct Acc {
        C positive, negative;  // sums of powers
    };
    struct Row {
        C scale, to_positive, to_negative, term;
    };
    struct Held {
        C from_positive, from_negative;
    };

    C margin, p, factor;

    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        each_power(f, &F::p, body);
    }
    BK_HD Row start(C dy = C(1)) const { return {dy * factor, 0, 0, 0}; }
    BK_HD Held hold(const Row&, int64_t, C a, C positive, C negative) const { return {a - positive, a - negative}; }
    BK_HD Held pad() const { return {0, 0}; }
    BK_HD Acc identity() const { return {0, 0}; }

    template <class W, int N>
    BK_HD Acc sum_up(const Row&, Held (&held)[N], const W&) const {
        C positive[N], negative[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            positive[i] = power_of<T>(math::fabs<C>(held[i].from_positive), p);
            negative[i] = power_of<T>(math::fabs<C>(held[i].from_negative), p);
        }
        return {sum_of(positive), sum_of(negative)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.positive + b.positive, a.negative + b.negative}; }
    BK_HD C root(C sum) const {
        if (p == 1) return sum;
        if (p == 2) return math::sqrt<C>(sum);
        return math::pow<T>(sum, C(1) / p);
    }
    BK_HD C weight(C distance) const {
        const C divisor = p == 1 ? C(1) : power_of<T>(distance, p - 1);
        return C(1) / math::select(divisor < kLeast, kLeast, divisor);
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        const C positive = root(all.positive), negative = root(all.negative);
        row.term = positive_part(positive - negative + margin);
        const C scale = positive - negative + margin > C(0) ? row.scale : C(0);
        row.to_positive = scale * weight(positive);
        row.to_negative = scale * weight(negative);
        return false;
    }
    BK_HD C slope(C d) const {
        const C sign = static_cast<C>(static_cast<int32_t>(d > C(0)) - static_cast<int32_t>(d < C(0)));
        if (p == 2) return d;
        if (p == 1 || d == C(0)) return sign;
        return sign * power_of<T>(math::fabs<C>(d), p - 1);
    }
    BK_HD Pack<C, C, C> map(const Row& row, Nothing, int64_t, const Held& held) const {
        const C u = row.to_positive == C(0) ? C(0) : slope(held.from_positive) * row.to_positive;
        const C v = row.to_negative == C(0) ? C(0) : slope(held.from_negative) * row.to_negative;
        return pack(u - v, -u, v);
    }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.term, row.term); }
};

// With the p-norms dp, dn and ds of a - p, a - n and p - n, eps added to each difference: max(0, dp - min(dn, ds) + margin),
// without ds where `swaps` is false. Where dn and ds are equal, each has half of the gradient.
template <class T>
struct TripletSwapRows : TripletRows<T> {
    using Base = TripletRows<T>;
    using typename Base::C;
    struct Acc {
        C positive, negative, swapped;  // sums of powers
    };
    struct Row {
        C scale, to_positive, to_negative, to_swapped, term;
    };
    struct Held {
        C from_positive, from_negative, between;
    };

    C eps;
    bool swaps;

    BK_HD Row start(C dy = C(1)) const { return {dy * this->factor, 0, 0, 0, 0}; }
    BK_HD Held hold(const Row&, int64_t, C a, C positive, C negative) const {
        return {a - positive + eps, a - negative + eps, positive - negative + eps};
    }
    BK_HD Held pad() const { return {0, 0, 0}; }
    BK_HD Acc identity() const { return {0, 0, 0}; }

    template <class W, int N>
    BK_HD Acc sum_up(const Row&, Held (&held)[N], const W&) const {
        C positive[N], negative[N], swapped[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            positive[i] = power_of<T>(math::fabs<C>(held[i].from_positive), this->p);
            negative[i] = power_of<T>(math::fabs<C>(held[i].from_negative), this->p);
            swapped[i] = power_of<T>(math::fabs<C>(held[i].between), this->p);
        }
        return {sum_of(positive), sum_of(negative), sum_of(swapped)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        return {a.positive + b.positive, a.negative + b.negative, a.swapped + b.swapped};
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        const C positive = this->root(all.positive), negative = this->root(all.negative), swapped = this->root(all.swapped);
        const C excess = positive - (swaps ? math::min(negative, swapped) : negative) + this->margin;
        row.term = positive_part(excess);
        const C scale = excess > C(0) ? row.scale : C(0);
        const C of_swapped = !swaps || swapped > negative ? C(0) : swapped == negative ? C(0.5) : C(1);
        row.to_positive = scale * this->weight(positive);
        row.to_negative = scale * (C(1) - of_swapped) * this->weight(negative);
        row.to_swapped = scale * of_swapped * this->weight(swapped);
        return false;
    }
    BK_HD C share(C d, C of_distance) const { return of_distance == C(0) ? C(0) : this->slope(d) * of_distance; }
    BK_HD Pack<C, C, C> map(const Row& row, Nothing, int64_t, const Held& held) const {
        const C u = share(held.from_positive, row.to_positive), v = share(held.from_negative, row.to_negative);
        const C w = share(held.between, row.to_swapped);
        return pack(u - v, -u - w, v + w);
    }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.term, row.term); }
};

}  // namespace bk
