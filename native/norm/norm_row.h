// SPDX-License-Identifier: Apache-2.0
// Row functions of the four norms (core/row/row_map.h): y = (x - mean) * scale * gamma + beta over a row, without
// mean in RMS norm. gamma and beta go by position (rms, layer norm), row (batch, instance norm) or channel (group
// norm).
#pragma once

#include <cstdint>

#include "core/math/fastdiv.h"
#include "core/math/math.h"
#include "core/reduce/square_scale.h"
#include "core/row/row_map.h"
#include "core/types/pack.h"

namespace bk {

// State of a row in the forward pass. If squares of its elements would overflow or vanish, x is multiplied by a power
// of two, `unit`; mean, stddev and scale are then those of the scaled elements.
template <class C>
struct NormRow {
    C unit = 1;
    C mean = 0, stddev = 0, scale = 0;  // stddev = sqrt(variance + eps) = 1 / scale
    C shift = 0;                        // rounding error of the mean, times scale
    C gamma = 1, beta = 0;              // of the whole row
};

// A row of several channels; `first_offset` is the offset of the first.
template <class Row>
struct WithChannels : Row {
    int64_t first_offset = 0;
};

// Moments by shifted data and pairwise combination (Chan, Golub and LeVeque 1983): exact to the rounding of their
// sums, however far the mean is from 0.
template <class C>
struct NormMoments {
    C count, base, mean, squares;  // base is an element, mean is relative to it
    C unit;
};

// gamma and beta of a row's channels: channel k has the positions [k * extent, (k + 1) * extent).
template <class T>
struct NormChannels {
    const T* gamma = nullptr;
    const T* beta = nullptr;
    FastDiv<uint32_t> extent;
    uint32_t size = 0;  // elements of a row

    BK_HD bool shares_params(int64_t n) const { return extent.divisor() % static_cast<uint32_t>(n) == 0; }

    // Vectors may reach beyond the row: any channel will do there.
    BK_HD int64_t at(int64_t first_offset, int64_t j) const {
        const uint32_t position = static_cast<uint32_t>(j);
        return first_offset + static_cast<int64_t>(extent(position < size ? position : 0).quotient);
    }
};

template <class T>
struct NormForward : RowDefaults {
    static constexpr bool kOnePass = true, kPureReduce = true, kZeroPads = true;
    using C = compute_t<T>;
    using Scale = SquareScale<T>;
    using Row = NormRow<C>;
    using Acc = NormMoments<C>;
    static constexpr bool kMayRescale = Scale::kIsNeeded;
    struct Cached {
        C x;
    };

    C eps;
    bool is_centered;          // subtracts the mean and saves 1 / stddev, not stddev
    bool has_gamma, has_beta;  // one a position of the row
    bool has_row_gamma, has_row_beta;

    BK_HD Row start(C gamma, C beta) const {
        Row row;
        if (has_row_gamma) row.gamma = gamma;
        if (has_row_beta) row.beta = beta;
        return row;
    }
    BK_HD Cached transform(const Row&, int64_t, C x) const { return {x}; }
    BK_HD Cached pad() const { return {0}; }
    BK_HD Acc identity() const { return {0, 0, 0, 0, 1}; }
    template <class Where, int N>
    BK_HD Acc reduce_tile(const Row& row, Cached (&held)[N], const Where& where) const {
        const C count = static_cast<C>(where.count());
        Acc acc{count, 0, 0, 0, row.unit};
        if (is_centered) {
            const C first = in_unit(held[0].x, row.unit);
            acc.base = math::select(Scale::is_finite(first), first, C(0));
            const C inv_count = math::reciprocal<T>(math::max(count, C(1)));
            acc.mean = sum_generated<N>([&](int i) { return where.has(i) ? in_unit(held[i].x, row.unit) - acc.base : C(0); }) *
                       inv_count;
        }
        // opaque() makes a GPU recompute the deviations: stored, they would take as many registers as the elements.
        const C base = opaque(acc.base);
        acc.squares = sum_of_squares_generated<N>(
            [&](int i) { return where.has(i) ? (in_unit(held[i].x, row.unit) - base) - acc.mean : C(0); });
        return acc;
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        Acc all{a.count + b.count, 0, 0, a.squares + b.squares, a.unit};
        if (!is_centered) return all;
        all.base = a.count > 0 ? a.base : b.base;
        const C mean_b = b.count > 0 ? (b.base - all.base) + b.mean : a.mean, distance = mean_b - a.mean;
        const C inv_count = math::reciprocal<T>(math::max(all.count, C(1)));
        const C sum_b = b.count > 0 ? b.count * mean_b : C(0);  // nothing adds nothing, also to an infinite mean
        all.mean = (a.count * a.mean + sum_b) * inv_count;      // infinite if either mean is
        all.squares += distance * distance * (a.count * (b.count * inv_count));
        return all;
    }
    template <class L>
    BK_HD Acc merge(const Acc& mine, const L& lanes) const {
        if (!is_centered) return {0, 0, 0, lanes.sum(mine.squares), mine.unit};
        Acc all{lanes.sum(mine.count), lanes.first(mine.base), 0, 0, mine.unit};
        const C own_mean = (mine.count > 0 ? mine.base - all.base : C(0)) + mine.mean;
        all.mean = lanes.sum(own_mean * mine.count) * math::reciprocal<T>(math::max(all.count, C(1)));
        const C distance = own_mean - all.mean;
        all.squares = lanes.sum(mine.count > 0 ? mine.squares + distance * distance * mine.count : C(0));
        return all;
    }
    // Sets the unit that the moments require; true if they must be computed again in it.
    BK_HD bool rescales(Row& row, const Acc& acc, int64_t n) const {
        if constexpr (!kMayRescale) return false;
        if (row.unit != C(1)) return false;
        row.unit = Scale::unit_of(acc.base + acc.mean, acc.squares, eps * static_cast<C>(n));
        return row.unit != C(1);
    }
    BK_HD bool finish(Row& row, const Acc& acc, int64_t n) const {
        if (rescales(row, acc, n)) return true;
        complete(row, acc, n);
        return false;
    }
    BK_HD void complete(Row& row, const Acc& acc, int64_t n) const {
        row.mean = acc.base + acc.mean;
        row.stddev = StdDev<T>::of(acc.squares * math::reciprocal<T>(static_cast<C>(n)), eps, row.unit);
        row.scale = C(1) / row.stddev;
        row.shift = ((row.mean - acc.base) - acc.mean) * row.scale;
    }
    // Merges partials with different units in the coarser one; one without elements or deviations does not count.
    BK_HD Acc combine_rescaled(const Acc& a, const Acc& b) const {
        const C unit_a = is_empty(a) ? b.unit : a.unit, unit_b = is_empty(b) ? a.unit : b.unit;
        C unit = unit_a < unit_b ? unit_a : unit_b;
        Acc all = combine(in_unit(a, unit), in_unit(b, unit));
        if (kMayRescale && unit > Scale::kDown && !(Scale::is_finite(all.squares) && Scale::is_finite(all.mean))) {
            unit = Scale::kDown;
            all = combine(in_unit(a, unit), in_unit(b, unit));
        }
        return all;
    }
    BK_HD void finish_rescaled(Row& row, const Acc& acc, int64_t n) const {
        row.unit = acc.unit;
        complete(row, acc, n);
    }
    BK_HD Pack<C> map(const Row& row, const Nothing&, int64_t, const Cached& held, C gamma, C beta) const {
        return pack(scaled(row, held, has_gamma ? gamma : row.gamma, has_beta ? beta : row.beta));
    }
    // Values for outputs in T, then for outputs in the compute type.
    BK_HD Pack<C, C, C, C> saved(const Row& row) const {
        const C mean = Scale::unscaled(row.mean, row.unit);
        const C statistic = is_centered ? row.scale * row.unit : Scale::unscaled(row.stddev, row.unit);
        return pack(mean, statistic, mean, statistic);
    }

protected:
    static BK_HD C scaled(const Row& row, const Cached& held, C gamma, C beta) {
        return ((in_unit(held.x, row.unit) - row.mean) * row.scale + row.shift) * gamma + beta;
    }

private:
    static BK_HD C in_unit(C x, C unit) { return kMayRescale ? x * unit : x; }
    static BK_HD Acc in_unit(const Acc& acc, C unit) {
        const C factor = unit / acc.unit;
        return {acc.count, acc.base * factor, acc.mean * factor, acc.squares * factor * factor, unit};
    }
    static BK_HD bool is_empty(const Acc& acc) { return acc.count == C(0) && acc.squares == C(0); }
};

// NormForward for rows of several channels. A separate function, since the lookup takes registers of every element.
template <class T>
struct NormForwardWithChannels : NormForward<T> {
    using typename NormForward<T>::C;
    using typename NormForward<T>::Cached;
    using Row = WithChannels<NormRow<C>>;
    NormChannels<T> channels;

    BK_HD Row start(C gamma, C beta) const { return {NormForward<T>::start(gamma, beta)}; }

    struct PositionParams {
        C gamma, beta;
    };
    BK_HD bool shares_params(int64_t n) const { return channels.shares_params(n); }
    BK_HD PositionParams position_params(const Row& row, int64_t j) const {
        const int64_t at = channels.at(row.first_offset, j);
        return {channels.gamma == nullptr ? C(1) : widen(channels.gamma[at]),
                channels.beta == nullptr ? C(0) : widen(channels.beta[at])};
    }
    BK_HD Cached transform(const Row&, const PositionParams&, C x) const { return {x}; }
    BK_HD Pack<C> map(const Row& row, const Nothing&, const PositionParams& position_params, const Cached& held, C, C) const {
        return pack(this->scaled(row, held, position_params.gamma, position_params.beta));
    }
};

template <class C>
struct NormGradientRow {
    C mean = 0, scale = 1;
    C factor = 1;               // gamma of the whole row
    C mean_g = 0, mean_gx = 0;  // means of g and of g * x_hat
    C sum_g = 0, sum_gx = 0;
};

template <class C>
struct NormGradientSums {
    C g, gx;
};

// dx = scale * (g - mean_g - x_hat * mean_gx), g = dy * gamma and x_hat = (x - mean) * scale. Statistics come in T or
// in the compute type: inputs of the other type are null and read as 0. saved() are dgamma and dbeta of the row.
template <class T>
struct NormBackward : RowDefaults {
    static constexpr bool kOnePass = true, kPureReduce = true, kZeroPads = true;
    using C = compute_t<T>;
    using Row = NormGradientRow<C>;
    using Acc = NormGradientSums<C>;
    struct Cached {
        C g, x_hat;
    };

    bool is_centered;  // the mean is subtracted, and the saved statistic is scale, not 1 / scale
    bool has_gamma;    // one element a position
    bool has_row_gamma;

    BK_HD Row start(C gamma, C rounded_mean, C rounded_statistic, C mean, C statistic) const {
        Row row;
        row.mean = is_centered ? rounded_mean + mean : C(0);
        row.scale = is_centered ? rounded_statistic + statistic : C(1) / (rounded_statistic + statistic);
        if (has_row_gamma) row.factor = gamma;
        return row;
    }
    BK_HD Cached transform(const Row& row, int64_t, C dy, C x, C gamma = C(1)) const {
        return {has_gamma ? dy * gamma : dy, (x - row.mean) * row.scale};
    }
    BK_HD Cached pad() const { return {0, 0}; }
    BK_HD Acc identity() const { return {0, 0}; }
    template <class Where, int N>
    BK_HD Acc reduce_tile(const Row&, Cached (&held)[N], const Where&) const {
        C g[N], x_hat[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            g[i] = held[i].g;
            x_hat[i] = held[i].x_hat;
        }
        return {sum_of(g), sum_of_products(g, x_hat)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.g + b.g, a.gx + b.gx}; }
    template <class L>
    BK_HD Acc merge(const Acc& mine, const L& lanes) const {
        return {lanes.sum(mine.g), lanes.sum(mine.gx)};
    }
    BK_HD bool finish(Row& row, const Acc& acc, int64_t n) const {
        row.sum_g = acc.g;
        row.sum_gx = acc.gx;
        const C count = static_cast<C>(n);
        row.mean_g = is_centered ? row.sum_g / count : C(0);
        row.mean_gx = row.sum_gx / count;
        return false;
    }
    BK_HD Pack<C> map(const Row& row, const Nothing&, int64_t, const Cached& held) const {
        return pack(row.scale * row.factor * (held.g - row.mean_g - held.x_hat * row.mean_gx));
    }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.sum_gx, row.sum_g); }
};

// NormBackward for rows of several channels.
template <class T>
struct NormBackwardWithChannels : NormBackward<T> {
    using typename NormBackward<T>::C;
    using typename NormBackward<T>::Cached;
    using Row = WithChannels<NormGradientRow<C>>;
    NormChannels<T> channels;

    BK_HD Row start(C gamma, C rounded_mean, C rounded_statistic, C mean, C statistic) const {
        return {NormBackward<T>::start(gamma, rounded_mean, rounded_statistic, mean, statistic)};
    }

    struct PositionParams {
        C gamma;
    };
    BK_HD bool shares_params(int64_t n) const { return channels.shares_params(n); }
    BK_HD PositionParams position_params(const Row& row, int64_t j) const {
        return {widen(channels.gamma[channels.at(row.first_offset, j)])};
    }
    BK_HD Cached transform(const Row& row, const PositionParams& position_params, C dy, C x) const {
        return {dy * position_params.gamma, (x - row.mean) * row.scale};
    }
    BK_HD Pack<C> map(const Row& row, const Nothing&, const PositionParams&, const Cached& held) const {
        return NormBackward<T>::map(row, {}, 0, held);
    }
};

}  // namespace bk
