// SPDX-License-Identifier: Apache-2.0
// Sparsemax, the point of the probability simplex nearest to the logits (Martins and Astudillo 2016), and its gradient.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/math/math.h"
#include "core/types/pack.h"
#include "softmax/softmax_axis.h"

namespace bk {

namespace op {

// y = max(0, x - tau). Newton's method on the convex sum of y finds tau, at least max - 1: from a tau that is too small the
// elements above it give the next one, until their number no longer falls. Values are relative to the row maximum, so that
// the sum of a few of them hardly rounds.
template <class T>
struct SparsemaxRows : RowDefaults {
    using C = compute_t<T>;
    struct Acc {
        C max, sum, count;  // sum and count: of the elements above tau
    };
    struct Row {
        C max, tau, count;
        bool has_max;
    };
    using Cached = C;

    BK_HD Row start() const { return {C(0), C(-1), C(INFINITY), false}; }
    BK_HD Cached transform(const Row&, int64_t, C x) const { return x; }
    BK_HD Cached pad() const { return -C(INFINITY); }
    BK_HD Acc identity() const { return {-C(INFINITY), C(0), C(0)}; }
    template <class W, int N>
    BK_HD Acc reduce_tile(const Row& row, Cached (&x)[N], const W&) const {
        C above[N], one[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            const C distance = x[i] - row.max;
            const bool counts = !(distance <= row.tau);  // true for NaN, which makes tau NaN
            above[i] = math::select(counts, distance, C(0));
            one[i] = math::select(counts, C(1), C(0));
        }
        return {max_of(x), sum_of(above), sum_of(one)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {MaxOp{}(a.max, b.max), a.sum + b.sum, a.count + b.count}; }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        if (!row.has_max) {
            row.max = all.max;
            row.has_max = true;
            return true;
        }
        if (!(all.count < row.count)) return false;
        row.tau = (all.sum - C(1)) / all.count;
        row.count = all.count;
        return true;
    }
    BK_HD Pack<C> map(const Row& row, Nothing, int64_t, Cached x) const {
        const C above = (x - row.max) - row.tau;
        return pack(math::select(above <= C(0), C(0), above));
    }
};

// dx = dy minus its mean over the support of y, 0 elsewhere.
template <class T>
struct SparsemaxBackwardRows : RowDefaults {
    static constexpr bool kOnePass = true;
    using C = compute_t<T>;
    struct Acc {
        C sum, count;
    };
    struct Row {
        C mean;
    };
    struct Cached {
        C dy, y;
    };

    BK_HD Row start() const { return {}; }
    BK_HD Cached transform(const Row&, int64_t, C dy, C y) const { return {dy, y}; }
    BK_HD Cached pad() const { return {C(0), C(0)}; }
    BK_HD Acc identity() const { return {C(0), C(0)}; }
    template <class W, int N>
    BK_HD Acc reduce_tile(const Row&, Cached (&held)[N], const W&) const {
        C summand[N], one[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            const bool counts = held[i].y > C(0);
            summand[i] = math::select(counts, held[i].dy, C(0));
            one[i] = math::select(counts, C(1), C(0));
        }
        return {sum_of(summand), sum_of(one)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.sum + b.sum, a.count + b.count}; }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        row.mean = all.sum / all.count;
        return false;
    }
    BK_HD Pack<C> map(const Row& row, Nothing, int64_t, const Cached& held) const {
        return pack(math::select(held.y > C(0), held.dy - row.mean, C(0)));
    }
};

}  // namespace op

template <class T>
struct Sparsemax : SoftmaxForwardArgs {
    Status run(const T* x, T* y, const Launch& launch) const {
        return map_rows(launch, rows(), op::SparsemaxRows<T>{}, inputs(x), inputs(), inputs(), outputs(y), outputs());
    }
};

template <class T>
struct SparsemaxBackward : SoftmaxBackwardArgs {
    using Rows = op::SparsemaxBackwardRows<T>;
    size_t workspace_size() const { return map_rows_workspace<Rows>(rows()); }
    Status run(const T* dy, const T* y, T* dx, const Launch& launch) const { return run_rows(Rows{}, dy, y, dx, launch); }
};

}  // namespace bk
