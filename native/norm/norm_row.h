// Row functions of the four norms (core/rows/row_map.h).
//
// All of them are y = (x - mean) * scale * gamma + beta over a row. Root mean square norm has no mean; in rms and layer norm
// gamma and beta go with the position in the row, in batch and instance norm with the row, in group norm with its channels.
#pragma once

#include <cstdint>

#include "core/math/fastdiv.h"
#include "core/math/math.h"
#include "core/reduce/square_scale.h"
#include "core/rows/row_map.h"
#include "core/types/pack.h"

namespace bk {

// A row as the forward pass knows it. Where squares of its elements overflow or vanish they are taken times a power of two, the
// unit of all but gamma and beta.
template <class C>
struct NormRow {
    C unit = 1;
    C mean = 0, spread = 0, scale = 0;  // spread = sqrt(variance + eps) = 1 / scale
    C shift = 0;                        // what rounding left of the mean, times -scale
    C gamma = 1, beta = 0;              // of the whole row
};

// A row of several channels.
template <class Row>
struct OfChannels : Row {
    int64_t place = 0;  // of the first of them
};

// Moments of elements in a unit, by shifted data and pairwise combination (Chan, Golub and LeVeque 1983): exact to the rounding
// of their sums, however far the mean is from 0.
template <class C>
struct NormMoments {
    C count, base, mean, squares;  // the mean less the base, which is one of the elements; deviations from their mean
    C unit;
};

// Numbers of the channels of a row: gamma and beta of the positions [k * extent, (k + 1) * extent).
template <class T>
struct NormChannels {
    const T* gamma = nullptr;
    const T* beta = nullptr;
    FastDiv<uint32_t> extent;
    uint32_t size = 0;  // of a row

    BK_HD bool spans(int64_t n) const { return extent.divisor() % static_cast<uint32_t>(n) == 0; }

    // Vectors reach over the ends of a row: what is found there is not used.
    BK_HD int64_t at(int64_t place, int64_t j) const {
        const uint32_t position = static_cast<uint32_t>(j);
        return place + static_cast<int64_t>(extent(position < size ? position : 0).quotient);
    }
};

template <class T>
struct NormForward : RowDefaults {
    static constexpr bool kOnePass = true, kOnlySums = true, kHoldsZeros = true;
    using C = compute_t<T>;
    using Scale = SquareScale<T>;
    using Row = NormRow<C>;
    using Acc = NormMoments<C>;
    static constexpr bool kRepeats = Scale::kIsNeeded;
    struct Held {
        C x;
    };

    C eps;
    bool is_centered;          // subtracts the mean, and saves 1 / spread in place of spread
    bool has_gamma, has_beta;  // one a position of the row
    bool has_row_gamma, has_row_beta;

    BK_HD Row start(C gamma, C beta) const {
        Row row;
        if (has_row_gamma) row.gamma = gamma;
        if (has_row_beta) row.beta = beta;
        return row;
    }
    BK_HD Held hold(const Row&, int64_t, C x) const { return {x}; }
    BK_HD Held pad() const { return {0}; }
    BK_HD Acc identity() const { return {0, 0, 0, 0, 1}; }
    template <class Where, int N>
    BK_HD Acc sum_up(const Row& row, Held (&held)[N], const Where& where) const {
        const C count = static_cast<C>(where.count());
        Acc acc{count, 0, 0, 0, row.unit};
        if (is_centered) {
            const C first = in_unit(held[0].x, row.unit);
            acc.base = math::select(Scale::is_finite(first), first, C(0));
            const C share = math::reciprocal<T>(math::max(count, C(1)));
            acc.mean =
                sum_made<N>([&](int i) { return where.has(i) ? in_unit(held[i].x, row.unit) - acc.base : C(0); }) * share;
        }
        // On a GPU deviations are not kept from one sum to the next: with them N elements take 2 N registers.
        const C base = opaque(acc.base);
        acc.squares = sum_of_squares_made<N>(
            [&](int i) { return where.has(i) ? (in_unit(held[i].x, row.unit) - base) - acc.mean : C(0); });
        return acc;
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        Acc all{a.count + b.count, 0, 0, a.squares + b.squares, a.unit};
        if (!is_centered) return all;
        all.base = a.count > 0 ? a.base : b.base;
        const C mean_b = b.count > 0 ? (b.base - all.base) + b.mean : a.mean, distance = mean_b - a.mean;
        const C share = math::reciprocal<T>(math::max(all.count, C(1)));
        all.mean = (a.count * a.mean + b.count * mean_b) * share;  // infinite where one of them is
        all.squares += distance * distance * (a.count * (b.count * share));
        return all;
    }
    template <class L>
    BK_HD Acc merge(const Acc& mine, const L& lanes) const {
        if (!is_centered) return {0, 0, 0, lanes.sum(mine.squares), mine.unit};
        Acc all{lanes.sum(mine.count), lanes.first(mine.base), 0, 0, mine.unit};
        const C own = (mine.count > 0 ? mine.base - all.base : C(0)) + mine.mean;
        all.mean = lanes.sum(own * mine.count) * math::reciprocal<T>(math::max(all.count, C(1)));
        const C distance = own - all.mean;
        all.squares = lanes.sum(mine.count > 0 ? mine.squares + distance * distance * mine.count : C(0));
        return all;
    }
    // Gives the row the unit that its moments want. Whether there is a need for others in that.
    BK_HD bool rescales(Row& row, const Acc& acc, int64_t n) const {
        if constexpr (!kRepeats) return false;
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
        row.spread = Spread<T>::of(acc.squares * math::reciprocal<T>(static_cast<C>(n)), eps, row.unit);
        row.scale = C(1) / row.spread;
        row.shift = ((row.mean - acc.base) - acc.mean) * row.scale;
    }
    // Of parts of a row that have units of their own: in the coarser. One without elements or deviations has no say.
    BK_HD Acc combine_parts(const Acc& a, const Acc& b) const {
        const C of_a = has_none(a) ? b.unit : a.unit, of_b = has_none(b) ? a.unit : b.unit;
        C unit = of_a < of_b ? of_a : of_b;
        Acc all = combine(in_unit(a, unit), in_unit(b, unit));
        if (kRepeats && unit > Scale::kDown && !(Scale::is_finite(all.squares) && Scale::is_finite(all.mean))) {
            unit = Scale::kDown;
            all = combine(in_unit(a, unit), in_unit(b, unit));
        }
        return all;
    }
    BK_HD void complete_parts(Row& row, const Acc& acc, int64_t n) const {
        row.unit = acc.unit;
        complete(row, acc, n);
    }
    BK_HD Pack<C> map(const Row& row, const Nothing&, int64_t, const Held& held, C gamma, C beta) const {
        return pack(scaled(row, held, has_gamma ? gamma : row.gamma, has_beta ? beta : row.beta));
    }
    // For statistics in T, then for those in the compute type.
    BK_HD Pack<C, C, C, C> saved(const Row& row) const {
        const C mean = Scale::unscaled(row.mean, row.unit);
        const C statistic = is_centered ? row.scale * row.unit : Scale::unscaled(row.spread, row.unit);
        return pack(mean, statistic, mean, statistic);
    }

protected:
    static BK_HD C scaled(const Row& row, const Held& held, C gamma, C beta) {
        return ((in_unit(held.x, row.unit) - row.mean) * row.scale + row.shift) * gamma + beta;
    }

private:
    static BK_HD C in_unit(C x, C unit) { return kRepeats ? x * unit : x; }
    static BK_HD Acc in_unit(const Acc& acc, C unit) {
        const C factor = unit / acc.unit;
        return {acc.count, acc.base * factor, acc.mean * factor, acc.squares * factor * factor, unit};
    }
    static BK_HD bool has_none(const Acc& acc) { return acc.count == C(0) && acc.squares == C(0); }
};

// NormForward of rows of several channels. A function of its own, since looking up channels takes registers of every element.
template <class T>
struct NormForwardOfChannels : NormForward<T> {
    using typename NormForward<T>::C;
    using typename NormForward<T>::Held;
    using Row = OfChannels<NormRow<C>>;
    NormChannels<T> channels;

    BK_HD Row start(C gamma, C beta) const { return {NormForward<T>::start(gamma, beta)}; }

    struct Near {
        C gamma, beta;
    };
    BK_HD bool spans(int64_t n) const { return channels.spans(n); }
    BK_HD Near near(const Row& row, int64_t j) const {
        const int64_t at = channels.at(row.place, j);
        return {channels.gamma == nullptr ? C(1) : widen(channels.gamma[at]),
                channels.beta == nullptr ? C(0) : widen(channels.beta[at])};
    }
    BK_HD Held hold(const Row&, const Near&, C x) const { return {x}; }
    BK_HD Pack<C> map(const Row& row, const Nothing&, const Near& near, const Held& held, C, C) const {
        return pack(this->scaled(row, held, near.gamma, near.beta));
    }
};

template <class C>
struct NormGradientRow {
    C mean = 0, scale = 1;
    C factor = 1;            // the gamma of the whole row
    C level = 0, slope = 0;  // means of h and of h * xh
    C sum = 0, sum_of_products = 0;
};

template <class C>
struct NormGradientSums {
    C h, product;
};

// dx = scale * (h - mean of h - xh * mean of h * xh), h = dy * gamma and xh = (x - mean) * scale. Statistics come in T or in
// the compute type: the inputs of the other are null, and so 0. What is saved of a row are the gradients of its own gamma and
// beta.
template <class T>
struct NormBackward : RowDefaults {
    static constexpr bool kOnePass = true, kOnlySums = true, kHoldsZeros = true;
    using C = compute_t<T>;
    using Row = NormGradientRow<C>;
    using Acc = NormGradientSums<C>;
    struct Held {
        C h, xh;
    };

    bool is_centered;  // dx has no mean, and the saved statistic is scale, not 1 / scale
    bool has_gamma;    // one an element
    bool has_row_gamma;

    BK_HD Row start(C gamma, C rounded_mean, C rounded_statistic, C mean, C statistic) const {
        Row row;
        row.mean = is_centered ? rounded_mean + mean : C(0);
        row.scale = is_centered ? rounded_statistic + statistic : C(1) / (rounded_statistic + statistic);
        if (has_row_gamma) row.factor = gamma;
        return row;
    }
    BK_HD Held hold(const Row& row, int64_t, C dy, C x, C gamma = C(1)) const {
        return {has_gamma ? dy * gamma : dy, (x - row.mean) * row.scale};
    }
    BK_HD Held pad() const { return {0, 0}; }
    BK_HD Acc identity() const { return {0, 0}; }
    template <class Where, int N>
    BK_HD Acc sum_up(const Row&, Held (&held)[N], const Where&) const {
        C h[N], xh[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            h[i] = held[i].h;
            xh[i] = held[i].xh;
        }
        return {sum_of(h), sum_of_products(h, xh)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.h + b.h, a.product + b.product}; }
    template <class L>
    BK_HD Acc merge(const Acc& mine, const L& lanes) const {
        return {lanes.sum(mine.h), lanes.sum(mine.product)};
    }
    BK_HD bool finish(Row& row, const Acc& acc, int64_t n) const {
        row.sum = acc.h;
        row.sum_of_products = acc.product;
        const C count = static_cast<C>(n);
        row.level = is_centered ? row.sum / count : C(0);
        row.slope = row.sum_of_products / count;
        return false;
    }
    BK_HD Pack<C> map(const Row& row, const Nothing&, int64_t, const Held& held) const {
        return pack(row.scale * row.factor * (held.h - row.level - held.xh * row.slope));
    }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.sum_of_products, row.sum); }
};

// NormBackward of rows of several channels.
template <class T>
struct NormBackwardOfChannels : NormBackward<T> {
    using typename NormBackward<T>::C;
    using typename NormBackward<T>::Held;
    using Row = OfChannels<NormGradientRow<C>>;
    NormChannels<T> channels;

    BK_HD Row start(C gamma, C rounded_mean, C rounded_statistic, C mean, C statistic) const {
        return {NormBackward<T>::start(gamma, rounded_mean, rounded_statistic, mean, statistic)};
    }

    struct Near {
        C gamma;
    };
    BK_HD bool spans(int64_t n) const { return channels.spans(n); }
    BK_HD Near near(const Row& row, int64_t j) const { return {widen(channels.gamma[channels.at(row.place, j)])}; }
    BK_HD Held hold(const Row& row, const Near& near, C dy, C x) const { return {dy * near.gamma, (x - row.mean) * row.scale}; }
    BK_HD Pack<C> map(const Row& row, const Nothing&, const Near&, const Held& held) const {
        return NormBackward<T>::map(row, {}, 0, held);
    }
};

}  // namespace bk
