// SPDX-License-Identifier: Apache-2.0
// Row functions of softmax and log-softmax, and of their gradients.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/platform.h"
#include "core/pointwise/cases.h"
#include "core/row/row_map.h"

namespace bk::op {

// y = exp(x - m) / s or x - m - ln s, with m the row maximum and s the sum of exp(x - m). One pass (online softmax, Milakov
// and Gimelshein 2018): each group of elements takes its own maximum, so that one exponential per element is enough, and
// groups combine by exp(m_group - m). If elements are cheap to read twice, a first pass finds m.
template <class T, bool kTwice = !kRowsStayOnChip>
struct SoftmaxRows : RowDefaults {
    static constexpr bool kOnePass = !kTwice, kMapIsElementwise = kTwice, kVectorizesAcrossRows = true;
    using RecomputesMap = SoftmaxRows;
    using C = compute_t<T>;
    struct Acc {
        C max, sum;  // of exp(x - base_of(max))
    };
    struct Row : TwoPassMax<kTwice> {
        C max = 0, factor = 0;  // 1 / s, or ln s
    };
    struct TileParams {
        C factor, base, log_sum;  // y = x factor - base - log_sum; two of them are neutral
    };
    using Cached = C;

    bool log;

    // The subtracted base: 0 for a group of -inf alone, whose exponentials are 0.
    static BK_HD C base_of(C max) { return math::select(max == -C(INFINITY), C(0), max); }

    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        each_value(f, &F::log, body);
    }
    BK_HD bool keeps_elements() const { return log; }
    static auto row_members() { return pack(&Row::max, &Row::factor); }
    static auto acc_members() { return pack(&Acc::max, &Acc::sum); }
    BK_HD Row start() const { return {}; }
    BK_HD Cached transform(const Row&, int64_t, C x) const { return x; }
    BK_HD Cached pad() const { return -C(INFINITY); }
    BK_HD Acc identity() const { return {-C(INFINITY), C(0)}; }

    template <class W, int N>
    BK_HD Acc reduce_tile([[maybe_unused]] const Row& row, Cached (&x)[N], const W&) const {
        C max;
        if constexpr (kTwice) {
            if (!row.knows_max) return {max_of(x), C(0)};
            max = row.max;
        } else {
            max = max_of(x);
        }
        const C base = base_of(max);
        C e[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            e[i] = math::exp_of_negative<T>(x[i] - base);
            x[i] = math::select(log, x[i], e[i]);
        }
        return {max, sum_of(e)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        if constexpr (kTwice)
            return {math::max(a.max, b.max), a.sum + b.sum};  // the first pass has no sums; later ones share a base
        const bool first = a.max > b.max;
        const Acc high = first ? a : b, low = first ? b : a;
        return {high.max, high.sum + low.sum * math::exp_of_negative<T>(low.max - base_of(high.max))};
    }
    template <class L>
    BK_HD Acc merge(const Acc& mine, const L& lanes) const {
        const C max = lanes.largest(mine.max);
        return {max, lanes.sum(mine.sum * math::exp_of_negative<T>(mine.max - base_of(max)))};
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        row.max = all.max;
        if constexpr (kTwice)
            if (!row.knows_max) return row.knows_max = true;
        row.factor = log ? math::log<T>(all.sum) : C(1) / all.sum;
        return false;
    }
    BK_HD TileParams tile_params(const Row& row, [[maybe_unused]] const Acc& mine) const {
        if (log) return {C(1), row.max, row.factor};
        if constexpr (kTwice) return {row.factor, C(0), C(0)};
        return {math::exp_of_negative<T>(base_of(mine.max) - row.max) * row.factor, C(0), C(0)};
    }
    BK_HD Pack<C> map(const Row&, const TileParams& tile_params, int64_t, Cached x) const {
        return pack((x * tile_params.factor - tile_params.base) - tile_params.log_sum);
    }
    BK_HD Pack<C> map_recompute(const Row& row, int64_t, Cached x) const {
        const auto share = [&] { return math::exp_of_negative<T>(x - row.max) * row.factor; };
        return pack(math::either(log, [&] { return (x - row.max) - row.factor; }, share));
    }
};

// dx = scale y (dy - sum(y dy)), or scale (dy - exp(y) sum(dy)) for logarithms.
template <class T>
struct SoftmaxBackwardRows : RowDefaults {
    static constexpr bool kOnePass = true, kPureReduce = true, kZeroPads = true, kVectorizesAcrossRows = true;
    using RecomputesMap = SoftmaxBackwardRows;
    using C = compute_t<T>;
    using Acc = C;
    struct Row {
        C sum;
    };
    struct Cached {
        C dy, y;
    };

    bool log;
    C scale;

    template <class F, class Body>
    static BK_HD void each_case(const F& f, const Body& body) {
        each_value(f, &F::log, body);
    }
    static auto row_members() { return pack(&Row::sum); }
    static Nothing acc_members() { return {}; }
    BK_HD Row start() const { return {}; }
    BK_HD Cached transform(const Row&, int64_t, C dy, C y) const { return {dy, y}; }
    BK_HD Cached pad() const { return {C(0), C(0)}; }
    BK_HD Acc identity() const { return C(0); }

    template <class W, int N>
    BK_HD Acc reduce_tile(const Row&, Cached (&held)[N], const W&) const {
        C dy[N], y[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            dy[i] = held[i].dy;
            y[i] = held[i].y;
        }
        return log ? sum_of(dy) : sum_of_products(y, dy);
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return a + b; }
    template <class L>
    BK_HD Acc merge(const Acc& mine, const L& lanes) const {
        return lanes.sum(mine);
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        row.sum = all;
        return false;
    }
    BK_HD Pack<C> map(const Row& row, Nothing, int64_t, const Cached& held) const {
        const auto of_log = [&] { return held.dy - math::exp_flushed<T>(held.y) * row.sum; };
        return pack(scale * math::either(log, of_log, [&] { return held.y * (held.dy - row.sum); }));
    }
    BK_HD Pack<C> map_recompute(const Row& row, int64_t j, const Cached& held) const { return map(row, {}, j, held); }
};

}  // namespace bk::op
