// SPDX-License-Identifier: Apache-2.0
// Row functions of the gradients that depend on all elements of a reduced row (core/row/row_map.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/math/math.h"
#include "core/math/wide_range.h"
#include "core/platform.h"
#include "core/reduce/square_scale.h"
#include "core/row/row_map.h"
#include "core/types/pack.h"

namespace bk::op {

// Elements that equal the extreme share its gradient evenly; NaN equals a NaN result. With is_size the result is the
// largest |x|, and a share has the sign of x.
template <class T>
struct ExtremeGradientRows : RowDefaults {
    using C = compute_t<T>;
    using Acc = int64_t;
    using Cached = C;
    struct Row {
        C y, share;
    };

    bool is_size = false;

    BK_HD bool is_extreme(const Row& row, C x) const {
        const C key = is_size ? math::fabs<C>(x) : x;
        return bool(int(key == row.y) | (int(x != x) & int(row.y != row.y)));
    }

    BK_HD Row start(C dy, C y) const { return {y, dy}; }
    BK_HD Cached transform(const Row&, int64_t, C x) const { return x; }
    BK_HD Cached pad() const { return 0; }
    BK_HD Acc identity() const { return 0; }
    template <class W, int N>
    BK_HD Acc reduce_tile(const Row& row, Cached (&x)[N], const W& where) const {
        int count = 0;
        BK_UNROLL
        for (int i = 0; i < N; ++i) count += int(is_extreme(row, x[i])) & int(where.has(i));
        return count;
    }
    BK_HD Acc combine(Acc a, Acc b) const { return a + b; }
    BK_HD bool finish(Row& row, Acc count, int64_t) const {
        row.share = row.share / static_cast<C>(count > 0 ? count : 1);
        return false;
    }
    BK_HD Pack<C> map(const Row& row, Nothing, int64_t, Cached x) const {
        const C sign = math::select(x < C(0), C(-1), math::select(x == C(0), C(0), C(1)));
        return pack(math::select(is_extreme(row, x), is_size ? row.share * sign : row.share, C(0)));
    }
};

// dy times the product of the other elements: the product of nonzeros over the element itself. A second pass
// recomputes a product that is out of range, or was subnormal on the way, as mantissa and exponent.
template <class T>
struct ProductGradientRows : RowDefaults {
    using C = compute_t<T>;
    using Cached = C;
    using Wide = WideNumber<C>;
    struct Acc {
        C product, exponent, least;  // product of nonzeros; the smallest magnitude it had
        int64_t zeros;
    };
    struct Row {
        C dy, product, scale;  // the row's product is product * scale
        bool has_zero, is_wide;
    };

    BK_HD Row start(C dy) const { return {dy, 0, 1, false, false}; }
    BK_HD Cached transform(const Row&, int64_t, C x) const { return x; }
    BK_HD Cached pad() const { return 1; }
    BK_HD Acc identity() const { return {1, 0, 1, 0}; }
    template <class W, int N>
    BK_HD Acc reduce_tile(const Row& row, Cached (&x)[N], const W&) const {
        if (row.is_wide) return sum_up_wide(x);
        C product = 1, least = 1;
        int zeros = 0;
        BK_UNROLL
        for (int i = 0; i < N; ++i) {
            product *= math::select(x[i] == C(0), C(1), x[i]);
            least = math::min(math::fabs<C>(product), least);
            zeros += x[i] == C(0);
        }
        return {product, 0, least, zeros};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        const Wide product = wide(a) * wide(b);
        return {product.mantissa, product.exponent, math::min(a.least, b.least), a.zeros + b.zeros};
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        const Wide product = wide(all);
        const bool is_lost = bool(int(!is_finite(product.mantissa)) | int(all.least < kMinNormal<C>));
        if (is_lost && !row.is_wide) return row.is_wide = true;
        const C value = product.value(), size = math::fabs<C>(value);
        const bool fits = bool(int(is_finite(value)) & int(size >= kMinNormal<C>));
        const C half = math::floor<C>(product.exponent / C(2));
        row.product = fits ? value : Wide{product.mantissa, half}.value();
        row.scale = fits ? C(1) : Wide{C(1), product.exponent - half}.value();
        row.has_zero = all.zeros > 0;
        if (all.zeros > 1) row.product = 0;
        return false;
    }
    BK_HD Pack<C> map(const Row& row, Nothing, int64_t, Cached x) const {
        const bool is_zero = x == C(0);
        const C product = row.product / math::select(is_zero, C(1), x) * row.scale;
        return pack(row.dy * math::select(bool(int(row.has_zero) & int(!is_zero)), C(0), product));
    }

private:
    BK_HD static Wide wide(const Acc& acc) {
        const Wide product = Wide::of_normal(acc.product);
        return {product.mantissa, product.exponent + acc.exponent};
    }
    template <int N>
    BK_HD Acc sum_up_wide(const Cached (&x)[N]) const {
        Wide product{1, 0};
        int zeros = 0;
        for (int i = 0; i < N; ++i) {
            product = product * Wide::of(x[i] == C(0) ? C(1) : x[i]);
            zeros += x[i] == C(0);
        }
        return {product.mantissa, product.exponent, C(1), zeros};
    }
};

// dy 2 (x - mean) / m, or dy (x - mean) / (m std), with m = n - correction; 0 if std is 0. The mean is that of
// distances from the first element, 0 in a row of equal ones. With kDyVaries, dy is one an element, else one a row.
template <class T, bool kDyVaries = false>
struct VarianceGradientRows : RowDefaults {
    using C = compute_t<T>;
    using Acc = C;
    struct Pair {
        C x, dy;
    };
    using Cached = std::conditional_t<kDyVaries, Pair, C>;
    using Scale = SquareScale<T>;
    struct Row {
        C mean, factor, dy;
        bool has_mean;
        C unit;  // power of two that multiplies x if squares would leave the range
    };

    int64_t correction;
    bool is_root;

    BK_HD Row start(C first, C dy = C(1)) const { return {first, 0, dy, false, 1}; }
    BK_HD Cached transform(const Row&, int64_t, C x) const { return x; }
    BK_HD Cached transform(const Row&, int64_t, C x, C dy) const { return {x, dy}; }
    BK_HD Cached pad() const { return {}; }
    BK_HD Acc identity() const { return 0; }
    template <class W, int N>
    BK_HD Acc reduce_tile(const Row& row, Cached (&held)[N], const W& where) const {
        C summand[N];
        BK_UNROLL
        for (int i = 0; i < N; ++i) {
            const C difference = x_of(held[i]) * row.unit - row.mean;
            summand[i] = math::select(where.has(i), row.has_mean ? difference * difference : difference, C(0));
        }
        return sum_of(summand);
    }
    BK_HD Acc combine(Acc a, Acc b) const { return a + b; }
    BK_HD bool finish(Row& row, Acc all, int64_t n) const {
        const C divisor = n > correction ? static_cast<C>(n - correction) : C(NAN);
        if (!row.has_mean) {
            const C mean = row.mean + all / static_cast<C>(n);
            if (rescales(row, mean, C(1))) return true;
            row.mean = mean;
            row.has_mean = true;
            row.factor = C(2) / divisor / row.unit;
            return is_root;
        }
        if (!is_root) return false;
        if (rescales(row, row.mean, all)) {
            row.has_mean = false;
            return true;
        }
        const C deviation = math::sqrt<C>(all / divisor);
        row.factor = deviation == C(0) ? C(0) : C(1) / (divisor * deviation);
        return false;
    }
    BK_HD Pack<C> map(const Row& row, Nothing, int64_t, const Cached& held) const {
        return pack(dy_of(row, held) * ((x_of(held) * row.unit - row.mean) * row.factor));
    }

private:
    // Changes the unit of a row from 1 if its squares require another one; true if it did.
    BK_HD static bool rescales(Row& row, C mean, C squares) {
        if (!Scale::kIsNeeded || row.unit != C(1)) return false;
        row.unit = Scale::unit_of(mean, squares, C(0));
        row.mean *= row.unit;
        return row.unit != C(1);
    }
    BK_HD static C x_of(const Pair& held) { return held.x; }
    BK_HD static C x_of(C held) { return held; }
    BK_HD static C dy_of(const Row&, const Pair& held) { return held.dy; }
    BK_HD static C dy_of(const Row& row, C) { return row.dy; }
};

}  // namespace bk::op
