// SPDX-License-Identifier: Apache-2.0
// Entmax with alpha = 1.5 (Peters, Niculae and Martins 2019) along an axis, and its gradient.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/types/pack.h"
#include "softmax/softmax_axis.h"

namespace bk {

namespace op {

// y = max(0, z - tau)^2 with z = (x - max) / 2. Newton's method finds tau, at least -1, where the sum of y is 1: the sum is
// convex and falls, so iterates from below rise and never pass the root, until rounding stops them.
template <class T>
struct Entmax15Rows : RowDefaults {
    using C = compute_t<T>;
    struct Acc {
        C max, sum, squares;  // sum and squares: of z - tau over the elements above tau
    };
    struct Row {
        C max, tau;
        bool has_max;
    };
    using Cached = C;

    BK_HD Row start() const { return {C(0), C(-1), false}; }
    BK_HD Cached transform(const Row&, int64_t, C x) const { return x; }
    BK_HD Cached pad() const { return -C(INFINITY); }
    BK_HD Acc identity() const { return {-C(INFINITY), C(0), C(0)}; }
    static BK_HD C above(const Row& row, C x) {
        const C distance = (x - row.max) * C(0.5) - row.tau;
        return math::select(distance <= C(0), C(0), distance);  // NaN stays
    }
    template <class W, int N>
    BK_HD Acc reduce_tile(const Row& row, Cached (&x)[N], const W&) const {
        C distance[N], square[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            distance[i] = above(row, x[i]);
            square[i] = distance[i] * distance[i];
        }
        return {max_of(x), sum_of(distance), sum_of(square)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        return {MaxOp{}(a.max, b.max), a.sum + b.sum, a.squares + b.squares};
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        if (!row.has_max) {
            row.max = all.max;
            row.has_max = true;
            return true;
        }
        const C next = row.tau + (all.squares - C(1)) / (C(2) * all.sum);
        const bool is_nan = next != next, grows = next > row.tau;
        if (is_nan || grows) row.tau = next;
        return grows;
    }
    BK_HD Pack<C> map(const Row& row, Nothing, int64_t, Cached x) const {
        const C distance = above(row, x);
        return pack(distance * distance);
    }
};

// dx = s (dy - sum(s dy) / sum(s)) with s = sqrt(y).
template <class T>
struct Entmax15BackwardRows : RowDefaults {
    static constexpr bool kOnePass = true;
    using C = compute_t<T>;
    struct Acc {
        C product, sum;
    };
    struct Row {
        C mean;
    };
    struct Cached {
        C dy, s;
    };

    BK_HD Row start() const { return {}; }
    BK_HD Cached transform(const Row&, int64_t, C dy, C y) const {
        return {math::select(y == C(0), C(0), dy), math::sqrt<C>(y)};
    }
    BK_HD Cached pad() const { return {C(0), C(0)}; }
    BK_HD Acc identity() const { return {C(0), C(0)}; }
    template <class W, int N>
    BK_HD Acc reduce_tile(const Row&, Cached (&held)[N], const W&) const {
        C product[N], s[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            s[i] = held[i].s;
            product[i] = held[i].s * held[i].dy;
        }
        return {sum_of(product), sum_of(s)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.product + b.product, a.sum + b.sum}; }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        row.mean = all.product / all.sum;
        return false;
    }
    BK_HD Pack<C> map(const Row& row, Nothing, int64_t, const Cached& held) const {
        return pack(math::select(held.s == C(0), C(0), held.s * (held.dy - row.mean)));
    }
};

}  // namespace op

template <class T>
struct Entmax15 {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t softmax_axis;

    Work work() const { return all_or_none(numel); }
    BK_COLD Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}}, {{"stride_y", stride_y}}));
        return require_axis("softmax_axis", softmax_axis, rank);
    }
    Status run(const T* x, T* y, const Launch& launch) const {
        return map_rows(launch, rows_along<2>(rank, shape, softmax_axis, {stride_x, stride_y}), op::Entmax15Rows<T>{},
                        inputs(x), inputs(), inputs(), outputs(y), outputs());
    }
};

template <class T>
struct Entmax15Backward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_y;
    const int64_t* stride_dx;
    int32_t softmax_axis;

    using Rows = op::Entmax15BackwardRows<T>;
    Work work() const { return all_or_none(numel); }
    BK_COLD Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_dy", stride_dy}, {"stride_y", stride_y}},
                           {{"stride_dx", stride_dx}}));
        return require_axis("softmax_axis", softmax_axis, rank);
    }
    size_t workspace_size() const { return map_rows_workspace<Rows>(rows()); }
    Status run(const T* dy, const T* y, T* dx, const Launch& launch) const {
        return map_rows(launch, rows(), Rows{}, inputs(dy, y), inputs(), inputs(), outputs(dx), outputs());
    }

private:
    RowAxes<3> rows() const { return rows_along<3>(rank, shape, softmax_axis, {stride_dy, stride_y, stride_dx}); }
};

}  // namespace bk
