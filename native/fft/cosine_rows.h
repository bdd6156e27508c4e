// SPDX-License-Identifier: Apache-2.0
// Elements before and behind the Fourier transform of a cosine or sine transform (fft/cosine.h). Pairs of numbers share a root
// of unity.
#pragma once

#include <cstdint>

#include "fft/butterflies.h"
#include "fft/roots.h"

namespace bk {

// Rows of n elements, and what the Fourier transform takes and gives: rows of `before` and `behind` real numbers.
struct FftCosineRows {
    int64_t rows, n;
    int32_t kind;
    bool is_sine;
    double edge_in, edge_out, scale;

    BK_HD bool is_whole() const { return kind == 4 && n % 2 == 1; }  // complex numbers, twice as many as elements
    BK_HD int64_t length() const {
        return kind == 1 ? (is_sine ? 2 * (n + 1) : 2 * (n - 1)) : kind < 4 ? n : is_whole() ? 2 * n : n / 2;
    }
    BK_HD int64_t before() const { return kind < 3 ? length() : kind == 3 ? 2 * (n / 2 + 1) : is_whole() ? 2 * n : n; }
    BK_HD int64_t behind() const { return kind < 3 ? 2 * (length() / 2 + 1) : kind == 3 ? n : 2 * length(); }
};

// Roots exp(-2 pi i (step k + first) / period), in tables of `count` numbers, or computed where there is none.
template <class R>
struct CosineRoots {
    int64_t step, first, period, count;
    R *c, *s;

    BK_HD FftRoot<R> operator()(int64_t k) const {
        return c == nullptr ? unit_root<R>(step * k + first, period) : FftRoot<R>{c[k], s[k]};
    }
    // Roots that the elements before and behind the transform use.
    static CosineRoots before(const FftCosineRows& of) {
        if (of.kind < 3) return {0, 0, 1, 0, nullptr, nullptr};
        if (of.kind == 4 && !of.is_whole()) return {4, 1, 8 * of.n, of.n / 2, nullptr, nullptr};
        return {1, 0, 4 * of.n, of.kind == 3 ? of.n / 2 + 1 : of.n, nullptr, nullptr};
    }
    static CosineRoots behind(const FftCosineRows& of) {
        if (of.kind % 2 == 1) return {0, 0, 1, 0, nullptr, nullptr};
        if (of.is_whole()) return {2, 1, 8 * of.n, of.n, nullptr, nullptr};
        return {1, 0, of.kind == 2 ? 4 * of.n : 2 * of.n, of.kind == 2 ? of.n : of.n / 2, nullptr, nullptr};
    }
};

// Input of the Fourier transform, from a row of x.
template <class R>
struct CosineBefore {
    FftCosineRows of;
    CosineRoots<R> roots;
    const R* x;

    // Kinds 1 and 2, element j; `is_upper` elements are mirrored.
    BK_HD int64_t first_upper() const { return of.kind == 2 ? (of.n + 1) / 2 : of.is_sine ? of.n + 2 : of.n; }
    template <int kKind>
    BK_HD R copied(const R* row, int64_t j, bool is_upper) const {
        const int64_t n = of.n;
        if constexpr (kKind == 2) {
            const R value = row[is_upper ? 2 * (n - 1 - j) + 1 : 2 * j];
            return of.is_sine && is_upper ? -value : value;
        } else {
            const int64_t m = of.length();
            if (of.is_sine) {
                if (j == 0 || j == n + 1) return R(0);
                return is_upper ? -row[m - j - 1] : row[j - 1];
            }
            const int64_t from = is_upper ? m - j : j;
            return row[from] * static_cast<R>(from == 0 || from == n - 1 ? of.edge_in : 1.0);
        }
    }
    // Kinds 3 and 4, numbers 2 k and 2 k + 1.
    template <int kKind>
    BK_HD FftValue<R> pair(const R* row, int64_t k, const FftRoot<R>& root) const {
        const int64_t n = of.n;
        if constexpr (kKind == 4) {
            if (of.is_whole()) return {element(row, k) * root.c, -element(row, k) * root.s};
            const R a = element(row, 2 * k), b = element(row, n - 1 - 2 * k);
            return {a * root.c + b * root.s, b * root.c - a * root.s};
        } else {
            R a = element(row, k);
            const R b = k == 0 ? R(0) : element(row, n - k);
            if (k == 0) a *= static_cast<R>(of.edge_in);
            return {a * root.c + b * root.s, a * root.s - b * root.c};
        }
    }

private:
    // Element i of a cosine's fiber.
    BK_HD R element(const R* row, int64_t i) const { return row[of.is_sine ? of.n - 1 - i : i]; }
};

// A row of y, from what the Fourier transform gives.
template <class R>
struct CosineBehind {
    FftCosineRows of;
    CosineRoots<R> roots;
    const R* b;

    BK_HD R scale() const { return static_cast<R>(of.scale); }
    BK_HD R edge() const { return static_cast<R>(of.scale * of.edge_out); }

    // Kind 1, element k.
    BK_HD R first_kind(const R* row, int64_t k) const {
        if (of.is_sine) return -row[2 * (k + 1) + 1] * scale();
        return row[2 * k] * (k == 0 || k == of.n - 1 ? edge() : scale());
    }
    // Kind 2, element `at` of a cosine; `is_upper`: 2 at > n.
    BK_HD R second_kind(const R* row, int64_t at, bool is_upper, const FftRoot<R>& root) const {
        const R* v = row + 2 * (is_upper ? of.n - at : at);
        const R sum = v[0] * root.c + (is_upper ? -v[1] : v[1]) * root.s;
        return R(2) * sum * (at == 0 ? edge() : scale());
    }
    // Kind 3, element 2 k or 2 k + 1.
    BK_HD R third_kind(const R* row, int64_t k, bool is_odd) const {
        return row[is_odd ? of.n - 1 - k : k] * (of.is_sine && is_odd ? -scale() : scale());
    }
    // Kind 4 of an even n, element 2 at, or n - 1 - 2 at, which is odd; and of an odd n.
    BK_HD R fourth_kind(const R* row, int64_t at, bool is_odd, const FftRoot<R>& root) const {
        const R re = row[2 * at], im = row[2 * at + 1];
        return R(2) * (is_odd ? re * root.s - im * root.c : re * root.c + im * root.s) *
               (of.is_sine && is_odd ? -scale() : scale());
    }
    BK_HD R fourth_kind_whole(const R* row, int64_t k, const FftRoot<R>& root) const {
        return R(2) * (row[2 * k] * root.c + row[2 * k + 1] * root.s) * (of.is_sine && k % 2 == 1 ? -scale() : scale());
    }
};

}  // namespace bk

#if BK_CUDA
#include "fft/cosine_rows_cuda.cuh"
#else
#include "fft/cosine_rows_cpu.h"
#endif
