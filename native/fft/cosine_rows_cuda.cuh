// SPDX-License-Identifier: Apache-2.0
// Elements before and behind the Fourier transform of a cosine transform on a GPU: a thread each, with roots of its own.
#pragma once

#include <cstdint>

#include "core/pointwise/pointwise.h"
#include "fft/cosine_rows.h"

namespace bk {

// Element i of all rows: Own::element(row, k) with the row's elements.
template <class Own, class R>
struct CosineElements {
    Own fn;
    const R* rows;
    int64_t row_length, row_results;

    struct Segment {
        const CosineElements& all;
        const R* row;
        int64_t first, count;
        BK_HD R operator()(int64_t k) const { return element_of(all.fn, row, first + k); }
    };
    BK_HD Segment at(int64_t i) const {
        const int64_t row = i / row_results, first = i - row * row_results;
        return {*this, rows + row * row_length, first, row_results - first};
    }
};

template <class R>
BK_HD R element_of(const CosineBefore<R>& fn, const R* row, int64_t j) {
    if (fn.of.kind == 1) return fn.template copied<1>(row, j, j >= fn.first_upper());
    if (fn.of.kind == 2) return fn.template copied<2>(row, j, j >= fn.first_upper());
    const FftRoot<R> root = fn.roots(j / 2);
    const FftValue<R> pair = fn.of.kind == 3 ? fn.template pair<3>(row, j / 2, root) : fn.template pair<4>(row, j / 2, root);
    return j % 2 == 0 ? pair.re : pair.im;
}

template <class R>
BK_HD R element_of(const CosineBehind<R>& fn, const R* row, int64_t k) {
    const int64_t n = fn.of.n;
    if (fn.of.kind == 1) return fn.first_kind(row, k);
    if (fn.of.kind == 2) {
        const int64_t at = fn.of.is_sine ? n - 1 - k : k;
        return fn.second_kind(row, at, 2 * at > n, fn.roots(at));
    }
    if (fn.of.kind == 3) return fn.third_kind(row, k / 2, k % 2 == 1);
    if (fn.of.is_whole()) return fn.fourth_kind_whole(row, k, fn.roots(k));
    const int64_t at = k % 2 == 0 ? k / 2 : (n - 1 - k) / 2;
    return fn.fourth_kind(row, at, k % 2 == 1, fn.roots(at));
}

template <class R>
int64_t cosine_root_count(const FftCosineRows&) {
    return 0;
}

template <class R>
Status cosine_before(const Launch& launch, const FftCosineRows& of, const R* x, R*, R* out) {
    const CosineBefore<R> fn{of, CosineRoots<R>::before(of), x};
    const CosineElements<CosineBefore<R>, R> all{fn, x, of.n, of.before()};
    return pointwise(launch, of.rows * of.before(), all, outputs(out), inputs());
}

template <class R>
Status cosine_behind(const Launch& launch, const FftCosineRows& of, const R* b, R*, R* y) {
    const CosineBehind<R> fn{of, CosineRoots<R>::behind(of), b};
    const CosineElements<CosineBehind<R>, R> all{fn, b, of.behind(), of.n};
    return pointwise(launch, of.rows * of.n, all, outputs(y), inputs());
}

}  // namespace bk
