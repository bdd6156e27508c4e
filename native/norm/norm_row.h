// Row functions of the four norms (core/rows/row_map.h).
//
// All of them are y = (x - mean) * scale * gamma + beta over a row. Root mean square norm has no mean; in rms and layer norm
// gamma and beta go with the position in the row, in batch and instance norm with the row, in group norm with its channels.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "core/rows/row_map.h"
#include "core/types/pack.h"

namespace bk {

// Mean and variance in two passes over the elements on the chip: exact to the rounding of their sums, however far the mean is
// from 0 in units of the deviation.
template <class C>
struct NormRow {
    C mean = 0, spread = 0, scale = 0;  // spread = sqrt(variance + eps) = 1 / scale
    C gamma = 1, beta = 0;              // of the whole row
    bool has_mean = false;
};

template <class C>
struct NormSum {
    C sum;
};

// What map() multiplies an element by and adds to it, beside what it has from the row.
enum class NormAffine { kColumns, kElements };

template <class T, NormAffine affine>
struct NormForward : RowDefaults {
    using C = compute_t<T>;
    using Row = NormRow<C>;
    using Acc = NormSum<C>;
    using Part = Nothing;
    struct Alone {
        C x;
    };
    struct WithAffine {
        C x, gamma, beta;
    };
    using Held = std::conditional_t<affine == NormAffine::kColumns, Alone, WithAffine>;

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
    BK_HD Alone hold(const Row&, int64_t, C x) const { return {x}; }
    BK_HD WithAffine hold(const Row&, int64_t, C x, C gamma, C beta) const {
        return {x, has_gamma ? gamma : C(1), has_beta ? beta : C(0)};
    }
    BK_HD Held pad() const { return {}; }
    BK_HD Acc identity() const { return {0}; }
    template <class Where, int N>
    BK_HD Acc sum_up(const Row& row, Held (&held)[N], const Where& where) const {
        const bool squares = !is_centered || row.has_mean;
        C term[N];
#if BK_ON_GPU
#pragma unroll
#endif
        for (int i = 0; i < N; ++i) {
            const C distance = held[i].x - row.mean;
            term[i] = !where.has(i) ? C(0) : squares ? distance * distance : distance;
        }
        return {sum_of(term)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.sum + b.sum}; }
    BK_HD bool finish(Row& row, const Acc& acc, int64_t n) const {
        const C average = acc.sum / static_cast<C>(n);
        if (is_centered && !row.has_mean) {
            row.mean = average;
            row.has_mean = true;
            return true;
        }
        row.spread = math::sqrt<C>(average + eps);
        row.scale = C(1) / row.spread;
        return false;
    }
    BK_HD Pack<C> map(const Row& row, const Part&, int64_t, const Held& held, C gamma, C beta) const {
        return pack((held.x - row.mean) * row.scale * (has_gamma ? gamma : row.gamma) + (has_beta ? beta : row.beta));
    }
    BK_HD Pack<C> map(const Row& row, const Part&, int64_t, const Held& held) const {
        return pack((held.x - row.mean) * row.scale * held.gamma + held.beta);
    }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.mean, is_centered ? row.scale : row.spread); }
};

template <class C>
struct NormGradientRow {
    C mean = 0, scale = 1, gamma = 1;  // gamma of the whole row
    C level = 0, slope = 0;            // means of h and of h * xh
    C sum = 0, sum_of_products = 0;
};

template <class C>
struct NormGradientSums {
    C h, product;
};

// dx = scale * (h - mean of h - xh * mean of h * xh), h = dy * gamma and xh = (x - mean) * scale. What is saved of a row are
// the gradients of its own gamma and beta.
template <class T>
struct NormBackward : RowDefaults {
    using C = compute_t<T>;
    using Row = NormGradientRow<C>;
    using Acc = NormGradientSums<C>;
    using Part = Nothing;
    struct Held {
        C h, xh;
    };

    bool is_centered;  // dx has no mean, and the saved statistic is scale, not 1 / scale
    bool has_gamma;    // one an element
    bool has_row_gamma;

    BK_HD Row start(C mean, C statistic, C gamma) const {
        Row row;
        row.mean = is_centered ? mean : C(0);
        row.scale = is_centered ? statistic : C(1) / statistic;
        if (has_row_gamma) row.gamma = gamma;
        return row;
    }
    BK_HD Held hold(const Row& row, int64_t, C dy, C x, C gamma) const {
        return {has_gamma ? dy * gamma : dy, (x - row.mean) * row.scale};
    }
    BK_HD Held pad() const { return {0, 0}; }
    BK_HD Acc identity() const { return {0, 0}; }
    template <class Where, int N>
    BK_HD Acc sum_up(const Row&, Held (&held)[N], const Where& where) const {
        C h[N], product[N];
#if BK_ON_GPU
#pragma unroll
#endif
        for (int i = 0; i < N; ++i) {
            h[i] = where.has(i) ? held[i].h : C(0);
            product[i] = where.has(i) ? held[i].h * held[i].xh : C(0);
        }
        return {sum_of(h), sum_of(product)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.h + b.h, a.product + b.product}; }
    BK_HD bool finish(Row& row, const Acc& acc, int64_t n) const {
        row.sum = acc.h;
        row.sum_of_products = acc.product;
        row.level = is_centered ? acc.h / static_cast<C>(n) : C(0);
        row.slope = acc.product / static_cast<C>(n);
        return false;
    }
    BK_HD Pack<C> map(const Row& row, const Part&, int64_t, const Held& held) const {
        return pack(row.scale * row.gamma * (held.h - row.level - held.xh * row.slope));
    }
    BK_HD Pack<C, C> saved(const Row& row) const { return pack(row.sum_of_products, row.sum); }
};

}  // namespace bk
