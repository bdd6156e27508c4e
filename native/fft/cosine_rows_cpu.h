// SPDX-License-Identifier: Apache-2.0
// Elements before and behind the Fourier transform of a cosine transform on the CPU: loops over rows, with roots from tables
// that all rows share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "fft/cosine_rows.h"
#include "fft/roots_cpu.h"

namespace bk {

// Real numbers of the larger table.
template <class R>
int64_t cosine_root_count(const FftCosineRows& of) {
    return 2 * std::max(CosineRoots<R>::before(of).count, CosineRoots<R>::behind(of).count);
}

// The roots, computed into the table.
template <class R>
BK_COLD CosineRoots<R> tabulated(CosineRoots<R> roots, R* table) {
    if (roots.count == 0) return roots;
    roots.c = table;
    roots.s = table + roots.count;
    parallel_ranges(roots.count, 1 << 12, [&](int64_t begin, int64_t end) BK_INLINED {
        fill_roots<R>(roots.step, roots.step * begin + roots.first, roots.period, end - begin, roots.c + begin,
                      roots.s + begin);
    });
    return roots;
}

template <class R>
BK_HD void before_row(const CosineBefore<R>& fn, const R* BK_RESTRICT row, R* BK_RESTRICT to) {
    const FftCosineRows of = fn.of;
    const CosineRoots<R> roots = fn.roots;
    const auto copy = [&](auto copied) BK_INLINED {
        const int64_t m = of.length(), upper = std::min(fn.first_upper(), m);
        BK_VECTOR_LOOP
        for (int64_t j = 0; j < upper; ++j) to[j] = copied(j, false);
        BK_VECTOR_LOOP
        for (int64_t j = upper; j < m; ++j) to[j] = copied(j, true);
    };
    const auto store_pairs = [&](int64_t begin, auto pair) BK_INLINED {
        BK_VECTOR_LOOP
        for (int64_t k = begin; k < roots.count; ++k) {
            const FftValue<R> of_k = pair(k);
            to[2 * k] = of_k.re;
            to[2 * k + 1] = of_k.im;
        }
    };
    const auto root = [&](int64_t k) BK_INLINED { return FftRoot<R>{roots.c[k], roots.s[k]}; };
    if (of.kind == 1) return copy([&](int64_t j, bool is_upper) BK_INLINED { return fn.template copied<1>(row, j, is_upper); });
    if (of.kind == 2) return copy([&](int64_t j, bool is_upper) BK_INLINED { return fn.template copied<2>(row, j, is_upper); });
    if (of.kind == 4) return store_pairs(0, [&](int64_t k) BK_INLINED { return fn.template pair<4>(row, k, root(k)); });
    const FftValue<R> first = fn.template pair<3>(row, 0, root(0));
    to[0] = first.re;
    to[1] = first.im;
    store_pairs(1, [&](int64_t k) BK_INLINED { return fn.template pair<3>(row, k, root(k)); });
}

template <class R>
BK_HD void behind_row(const CosineBehind<R>& fn, const R* BK_RESTRICT row, R* BK_RESTRICT y) {
    const FftCosineRows of = fn.of;
    const CosineRoots<R> roots = fn.roots;
    const int64_t n = of.n;
    const auto root = [&](int64_t k) BK_INLINED { return FftRoot<R>{roots.c[k], roots.s[k]}; };
    if (of.kind == 1) {
        BK_VECTOR_LOOP
        for (int64_t k = 0; k < n; ++k) y[k] = fn.first_kind(row, k);
    } else if (of.kind == 2) {
        const int64_t last = of.is_sine ? n - 1 : 0, step = of.is_sine ? -1 : 1;
        y[last] = fn.second_kind(row, 0, false, root(0));
        BK_VECTOR_LOOP
        for (int64_t at = 1; at <= n / 2; ++at) y[last + step * at] = fn.second_kind(row, at, false, root(at));
        BK_VECTOR_LOOP
        for (int64_t at = n / 2 + 1; at < n; ++at) y[last + step * at] = fn.second_kind(row, at, true, root(at));
    } else if (of.kind == 3) {
        BK_VECTOR_LOOP
        for (int64_t k = 0; k < n / 2; ++k) {
            y[2 * k] = fn.third_kind(row, k, false);
            y[2 * k + 1] = fn.third_kind(row, k, true);
        }
        if (n % 2 == 1) y[n - 1] = fn.third_kind(row, n / 2, false);
    } else if (of.is_whole()) {
        BK_VECTOR_LOOP
        for (int64_t k = 0; k < n; ++k) y[k] = fn.fourth_kind_whole(row, k, root(k));
    } else {
        BK_VECTOR_LOOP
        for (int64_t at = 0; at < n / 2; ++at) {
            y[2 * at] = fn.fourth_kind(row, at, false, root(at));
            y[n - 1 - 2 * at] = fn.fourth_kind(row, at, true, root(at));
        }
    }
}

// `table` has cosine_root_count numbers.
template <class R>
BK_COLD Status cosine_before(const Launch&, const FftCosineRows& of, const R* x, R* table, R* out) {
    const CosineBefore<R> fn{of, tabulated(CosineRoots<R>::before(of), table), x};
    const int64_t length = of.before();
    parallel_ranges(of.rows, std::max<int64_t>(1, (1 << 14) / of.n), [&](int64_t begin, int64_t end) BK_INLINED {
        for (int64_t r = begin; r < end; ++r) before_row(fn, x + r * of.n, out + r * length);
    });
    return Status::kOk;
}

template <class R>
BK_COLD Status cosine_behind(const Launch&, const FftCosineRows& of, const R* b, R* table, R* y) {
    const CosineBehind<R> fn{of, tabulated(CosineRoots<R>::behind(of), table), b};
    const int64_t length = of.behind();
    parallel_ranges(of.rows, std::max<int64_t>(1, (1 << 14) / of.n), [&](int64_t begin, int64_t end) BK_INLINED {
        for (int64_t r = begin; r < end; ++r) behind_row(fn, b + r * length, y + r * of.n);
    });
    return Status::kOk;
}

}  // namespace bk
