// SPDX-License-Identifier: Apache-2.0
// Threads take tiles of rows of one head. A tile of c is accumulated in the compute type, in blocks of columns that the
// compiler vectorises where b's rows are contiguous.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/dense/products.h"

namespace bk {

constexpr int64_t kProductRows = 8, kProductColumns = 64;  // of a tile

// One tile: rows i.. and columns j.. of head matrices (batch b, group g).
template <class T>
BK_HD void product_tile(const HeadProducts<T>& p, int64_t b, int64_t g, int64_t i, int64_t j) {
    using C = compute_t<T>;
    C sums[kProductRows][kProductColumns] = {};
    const int64_t rows = std::min(kProductRows, p.m - i), columns = std::min(kProductColumns, p.n - j);
    C b_row[kProductColumns] = {};
    for (int64_t h = g * p.summed; h < (g + 1) * p.summed; ++h)
        for (int64_t k = 0; k < p.k; ++k) {
            const T* const from = p.b.at(b, h, k, j);
            if (p.b.column == 1)
                for (int64_t c = 0; c < columns; ++c) b_row[c] = widen(from[c]);
            else
                for (int64_t c = 0; c < columns; ++c) b_row[c] = widen(from[c * p.b.column]);
            for (int64_t r = 0; r < rows; ++r) {
                const C factor = widen(*p.a.at(b, h, i + r, k));
                for (int64_t c = 0; c < kProductColumns; ++c) sums[r][c] += factor * b_row[c];
            }
        }
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
            T* const to = p.c.at(b, g, i + r, j + c);
            const T value = narrow<T>(sums[r][c] * static_cast<C>(p.alpha));
            *to = p.adds ? narrow<T>(widen(*to) + widen(value)) : value;
        }
}

template <class T>
Status multiply_heads(const Launch&, const HeadProducts<T>& p) {
    const int64_t tiles_m = ceil_div(p.m, kProductRows), tiles_n = ceil_div(p.n, kProductColumns);
    const int64_t tiles = p.batch * p.groups * tiles_m * tiles_n;
    const int64_t work = kProductRows * kProductColumns * std::max<int64_t>(p.k * p.summed, 1);
    parallel_ranges(tiles, ceil_div<int64_t>(65536, work), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
            const int64_t head = t / (tiles_m * tiles_n), within = t % (tiles_m * tiles_n);
            product_tile(p, head / p.groups, head % p.groups, within / tiles_n * kProductRows,
                         within % tiles_n * kProductColumns);
        }
    });
    return Status::kOk;
}

// The sum of a[j] b[j], in the order of 16 lanes.
template <class T>
BK_HD compute_t<T> dot_of(const T* a, const T* b, int64_t n) {
    constexpr int kLanes = 16;
    compute_t<T> lane[kLanes] = {};
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes)
        for (int l = 0; l < kLanes; ++l) lane[l] += widen(a[j + l]) * widen(b[j + l]);
    for (; j < n; ++j) lane[j % kLanes] += widen(a[j]) * widen(b[j]);
    for (int width = kLanes / 2; width > 0; width /= 2)
        for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
    return lane[0];
}

template <class T>
Status score_gradients(const Launch&, int64_t rows, int64_t columns, const T* attn, const T* da, T* ds) {
    parallel_ranges(rows, grain_for(3 * columns * size_of<T>()), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            const int64_t at = r * columns;
            const compute_t<T> sum = dot_of(attn + at, da + at, columns);
            for (int64_t j = at; j < at + columns; ++j) ds[j] = narrow<T>(widen(attn[j]) * (widen(da[j]) - sum));
        }
    });
    return Status::kOk;
}

template <class T>
Status row_dots(const Launch&, const AttentionExtents& e, const HeadsView<const T>& y, const HeadsView<const T>& dy, T* dots) {
    parallel_ranges(e.batch * e.heads * e.q_len, grain_for(2 * e.d_v * size_of<T>()), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            const int64_t i = r % e.q_len, head = r / e.q_len;
            const int64_t b = head / e.heads, h = head % e.heads;
            dots[r] = narrow<T>(dot_of(y.at(b, h, i), dy.at(b, h, i), e.d_v));
        }
    });
    return Status::kOk;
}

}  // namespace bk
