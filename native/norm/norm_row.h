// Row functions of the four norms (core/rows/row_map.h).
//
// All of them are y = (x - mean) * scale * gamma + beta over a row. Root mean square norm has no mean; in rms and layer norm
// gamma and beta go with the position in the row, in batch and instance norm with the row, in group norm with its channels.
#pragma once

#include <cstdint>

#include "core/math/fastdiv.h"
#include "core/math/math.h"
#include "core/rows/row_map.h"
#include "core/types/pack.h"

namespace bk {

// A row as the forward pass knows it. A chunk of it has the mean and the squares of its differences from that, which join as
// those of Chan, Golub and LeVeque 1983: exact to the rounding of their sums, however far the mean is from 0.
template <class C>
struct NormRow {
    C mean = 0, spread = 0, scale = 0;  // spread = sqrt(variance + eps) = 1 / scale
    C gamma = 1, beta = 0;              // of the whole row
};

// A row of several channels.
template <class Row>
struct OfChannels : Row {
    int64_t place = 0;  // of the first of them
};

template <class C>
struct NormMoments {
    C count, sum, mean, squares;  // of differences from the mean; infinities may make that NaN, not the sum
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
    using Row = NormRow<C>;
    using Acc = NormMoments<C>;
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
    BK_HD Acc identity() const { return {0, 0, 0, 0}; }
    template <class Where, int N>
    BK_HD Acc sum_up(const Row&, Held (&held)[N], const Where& where) const {
        const C count = static_cast<C>(where.count());
        Acc acc{count, 0, 0, 0};
        C x[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) x[i] = held[i].x;
        if (is_centered) {
            acc.sum = sum_of(x);
            acc.mean = acc.sum * math::reciprocal<T>(math::max(count, C(1)));
        }
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) x[i] = where.has(i) ? x[i] - acc.mean : C(0);
        acc.squares = sum_of_products(x, x);
        return acc;
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        Acc all{a.count + b.count, a.sum + b.sum, 0, a.squares + b.squares};
        if (!is_centered) return all;
        const C share = C(1) / math::max(all.count, C(1)), distance = b.mean - a.mean;
        all.mean = all.sum * share;
        if (a.count > 0 && b.count > 0) all.squares += distance * distance * (a.count * (b.count * share));
        return all;
    }
    template <class L>
    BK_HD Acc merge(const Acc& mine, const L& lanes) const {
        if (!is_centered) return {0, 0, 0, lanes.sum(mine.squares)};
        Acc all{lanes.sum(mine.count), lanes.sum(mine.sum), 0, 0};
        all.mean = all.sum * math::reciprocal<T>(math::max(all.count, C(1)));
        const C distance = mine.mean - all.mean;
        all.squares = lanes.sum(mine.count > 0 ? mine.squares + distance * distance * mine.count : C(0));
        return all;
    }
    BK_HD bool finish(Row& row, const Acc& acc, int64_t n) const {
        const C share = math::reciprocal<T>(static_cast<C>(n));
        row.mean = acc.sum * share;
        row.spread = math::sqrt<C>(acc.squares * share + eps);
        row.scale = C(1) / row.spread;
        return false;
    }
    BK_HD Pack<C> map(const Row& row, const Nothing&, int64_t, const Held& held, C gamma, C beta) const {
        return pack(scaled(row, held, has_gamma ? gamma : row.gamma, has_beta ? beta : row.beta));
    }
    // For statistics in T, then for those in the compute type.
    BK_HD Pack<C, C, C, C> saved(const Row& row) const {
        const C statistic = is_centered ? row.scale : row.spread;
        return pack(row.mean, statistic, row.mean, statistic);
    }

protected:
    static BK_HD C scaled(const Row& row, const Held& held, C gamma, C beta) {
        return (held.x - row.mean) * row.scale * gamma + beta;
    }
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
