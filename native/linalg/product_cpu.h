// SPDX-License-Identifier: Apache-2.0
// Tiles on the CPU: a block of a is packed once for a range of columns, and some columns of b at a time; the microkernel has
// MR x NR sums in registers. Real and imaginary parts are packed apart.
#pragma once

#include <algorithm>

#include "core/abi/launch.h"
#include "linalg/product.h"

namespace bk::linalg {

template <class S>
struct ProductBlocks {
    using R = real_t<S>;
    static constexpr int kParts = kIsComplex<S> ? 2 : 1;
    static constexpr int kMr = 64 / static_cast<int>(sizeof(R)),
                         kNr = kIsComplex<S> ? 4 : 8;  // a vector of 64 bytes, and columns
    static constexpr int kKc = 64;
    static constexpr int kMc = 16384 / (kKc * static_cast<int>(sizeof(S))) / kMr * kMr;
    static constexpr int kNc = 256;  // columns of a task
};

// Packs rows [0, count) of x, each of kc elements, in groups of G with zeros behind: to[group][k][part][lane].
template <class S, int G>
BK_HD void pack_rows(const Matrix<const S>& x, int64_t count, int64_t kc, bool conjugates, real_t<S>* to) {
    constexpr int kParts = kIsComplex<S> ? 2 : 1;
    for (int64_t first = 0; first < count; first += G) {
        const int lanes = static_cast<int>(count - first < G ? count - first : G);
        for (int64_t k = 0; k < kc; ++k) {
            real_t<S>* BK_RESTRICT const at = to + (first * kc + k * G) * kParts;
            const S* const from = &x(first, k);
            if (lanes == G && x.row == 1) {
                for (int i = 0; i < G; ++i) {
                    at[i] = real(from[i]);
                    if constexpr (kParts == 2) at[G + i] = conjugates ? -imaginary(from[i]) : imaginary(from[i]);
                }
                continue;
            }
            for (int i = 0; i < G; ++i) {
                const S value = i < lanes ? from[i * x.row] : S(real_t<S>(0));
                at[i] = real(value);
                if constexpr (kParts == 2) at[G + i] = conjugates ? -imaginary(value) : imaginary(value);
            }
        }
    }
}

// c (rows x columns at (i, j) of the problem) = sums, or c - sums.
template <class S>
BK_HD void multiply_panels(int64_t kc, const real_t<S>* a, const real_t<S>* b, int rows, int columns, bool subtracts,
                           bool is_first, int64_t above, const Matrix<S>& c) {
    using R = real_t<S>;
    constexpr int kMr = ProductBlocks<S>::kMr, kNr = ProductBlocks<S>::kNr, kParts = ProductBlocks<S>::kParts;
    R sum[kNr][kParts][kMr];
    for (int j = 0; j < kNr; ++j)
        for (int part = 0; part < kParts; ++part)
            for (int i = 0; i < kMr; ++i) sum[j][part][i] = R(0);
    for (int64_t k = 0; k < kc; ++k) {
        const R* BK_RESTRICT const x = a + k * kMr * kParts;
        const R* BK_RESTRICT const y = b + k * kNr * kParts;
        for (int j = 0; j < kNr; ++j) {
            if constexpr (kParts == 1) {
                for (int i = 0; i < kMr; ++i) sum[j][0][i] = math::fma(x[i], y[j], sum[j][0][i]);
            } else {
                for (int i = 0; i < kMr; ++i) {
                    sum[j][0][i] = math::fma(x[i], y[j], sum[j][0][i]);
                    sum[j][1][i] = math::fma(x[i], y[kNr + j], sum[j][1][i]);
                    sum[j][0][i] = math::fma(-x[kMr + i], y[kNr + j], sum[j][0][i]);
                    sum[j][1][i] = math::fma(x[kMr + i], y[j], sum[j][1][i]);
                }
            }
        }
    }
    for (int j = 0; j < columns; ++j)
        for (int i = 0; i < rows; ++i) {
            if (i + above < j) continue;
            S value;
            if constexpr (kParts == 1)
                value = sum[j][0][i];
            else
                value = {sum[j][0][i], sum[j][1][i]};
            S& to = c(i, j);
            to = subtracts ? to - value : is_first ? value : to + value;
        }
}

template <class S>
struct ProductTask {
    const ProductProblem<S>& p;
    int64_t row_blocks, column_blocks;

    BK_HD void operator()(int64_t task) const {
        using B = ProductBlocks<S>;
        using R = real_t<S>;
        alignas(64) R packed_a[B::kMc * B::kKc * B::kParts];
        alignas(64) R packed_b[B::kNr * B::kKc * B::kParts];
        const int64_t b = task / (row_blocks * column_blocks), within = task % (row_blocks * column_blocks);
        const int64_t i0 = within % row_blocks * B::kMc, j0 = within / row_blocks * B::kNc;
        const int64_t rows = std::min<int64_t>(p.m - i0, B::kMc), columns = std::min<int64_t>(p.n - j0, B::kNc);
        if (p.is_lower && i0 + rows <= j0) return;
        const Matrix<const S> from_a = p.a[b].at(i0, 0), from_b = p.b[b].at(0, j0);
        const Matrix<S> to = p.c[b].at(i0, j0);
        for (int64_t k0 = 0; k0 < p.k; k0 += B::kKc) {
            const int64_t kc = std::min<int64_t>(p.k - k0, B::kKc);
            pack_rows<S, B::kMr>(from_a.at(0, k0), rows, kc, p.conjugates_a, packed_a);
            for (int64_t j = 0; j < columns; j += B::kNr) {
                if (p.is_lower && i0 + rows <= j0 + j) break;
                const int n = static_cast<int>(std::min<int64_t>(columns - j, B::kNr));
                pack_rows<S, B::kNr>(from_b.at(k0, j).transposed(), n, kc, p.conjugates_b, packed_b);
                for (int64_t i = 0; i < rows; i += B::kMr)
                    multiply_panels<S>(kc, packed_a + i * kc * B::kParts, packed_b,
                                       static_cast<int>(std::min<int64_t>(rows - i, B::kMr)), n, p.subtracts, k0 == 0,
                                       p.is_lower ? i0 + i - (j0 + j) : B::kNr, to.at(i, j));
            }
        }
        if (p.k == 0 && !p.subtracts)
            for (int64_t j = 0; j < columns; ++j)
                for (int64_t i = 0; i < rows; ++i)
                    if (!p.is_lower || i0 + i >= j0 + j) to(i, j) = S(R(0));
    }
};

template <class S>
Status product(const Launch&, const ProductProblem<S>& p) {
    using B = ProductBlocks<S>;
    if (p.batch == 0 || p.m == 0 || p.n == 0) return Status::kOk;
    const ProductTask<S> task{p, ceil_div<int64_t>(p.m, B::kMc), ceil_div<int64_t>(p.n, B::kNc)};
    const int64_t flops = std::min<int64_t>(p.m, B::kMc) * std::min<int64_t>(p.n, B::kNc) * std::max<int64_t>(p.k, 1);
    parallel_ranges(p.batch * task.row_blocks * task.column_blocks, grain_for(flops / 4), [&](int64_t begin, int64_t end) {
        for (int64_t each = begin; each < end; ++each) task(each);
    });
    return Status::kOk;
}

}  // namespace bk::linalg
