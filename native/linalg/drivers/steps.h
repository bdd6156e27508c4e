// SPDX-License-Identifier: Apache-2.0
// Steps of blocked algorithms on matrices in memory, which do not fit into fast memory: copies, exchanges of rows, NaN.
// Items are some columns of a matrix each.
#pragma once

#include "linalg/loops.h"
#include "linalg/problem.h"
#include "linalg/product.h"

namespace bk::linalg {

constexpr int64_t kStepColumns = 32;

// Rows and columns of a block: the largest that fits into fast memory as a square, 32 to 64.
template <class S>
constexpr int64_t block_of() {
    int64_t nb = 64;
    while (nb > 32 && !is_fast(slot_bytes_of((nb | 1) * nb, sizeof(S)))) nb -= 16;
    return nb;
}

// f(b, first column, columns) for all items.
template <class F>
struct ColumnsJob {
    F f;
    int64_t n, chunks;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t item, char*) const {
        const int64_t first = item % chunks * kStepColumns;
        f(team, item / chunks, first, n - first < kStepColumns ? n - first : kStepColumns);
    }
};

template <class F>
Status for_columns(const Launch& launch, int64_t batch, int64_t m, int64_t n, const F& f) {
    const int64_t chunks = ceil_div(n, kStepColumns);
    return run_matrices(launch, batch * chunks, m, 0, nullptr, m * kStepColumns, ColumnsJob<F>{f, n, chunks});
}

enum class Copies : int32_t { kAll, kLower, kLowerAndZeros, kIdentity };

template <class S>
struct CopyStep {
    Copies what;
    int64_t m;
    Matrices<const S> from;
    Matrices<S> to;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, int64_t first, int64_t count) const {
        const Matrix<S> target = to[b].at(0, first);
        const Matrix<const S> source = what == Copies::kIdentity ? Matrix<const S>{nullptr, 0, 0} : from[b].at(0, first);
        const Copies how = what;
        const auto copy_one = [&](int64_t i, int64_t j) {
            if (how == Copies::kIdentity)
                target(i, j) = S(real_t<S>(i == first + j ? 1 : 0));
            else if (how == Copies::kAll || i >= first + j)
                target(i, j) = source(i, j);
            else if (how == Copies::kLowerAndZeros)
                target(i, j) = S(real_t<S>(0));
        };
        // A transposition on the CPU by a few rows at a time, which the first level of the cache holds whatever their pitch.
        const bool transposes = !kIsOneLoop && is_by_rows(target) && !is_by_rows(source);
        const int64_t rows = transposes ? 8 : m;
        for (int64_t begin = 0; begin < m; begin += rows)
            for_elements(team, m - begin < rows ? m - begin : rows, count, is_by_rows(target),
                         [&](int64_t i, int64_t j) { copy_one(begin + i, j); });
    }
};

// to = from, m x n; nothing to do where both are the same memory, but for zeros.
template <class S>
Status copy(const Launch& launch, Copies what, int64_t batch, int64_t m, int64_t n, const Matrices<const S>& from,
            const Matrices<S>& to) {
    const bool is_same = from.data == to.data && from.each == to.each && from.row == to.row && from.column == to.column;
    if (is_same && (what == Copies::kAll || what == Copies::kLower)) return Status::kOk;
    return for_columns(launch, batch, m, n, CopyStep<S>{what, m, from, to});
}

// Exchanges rows first + k and pivots[first + k] - 1 of columns, for k < count in this order, or reversed.
template <class S>
struct ExchangeStep {
    int64_t first, count, rows;
    const int32_t* pivots;
    int64_t pivot_step;
    bool is_reversed;
    Matrices<S> x;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, int64_t column, int64_t columns) const {
        const Matrix<S> to = x[b].at(0, column);
        const int32_t* const own = pivots + b * pivot_step;
        const auto exchange = [&](int64_t k, int64_t begin, int64_t end) {
            const int64_t i = first + (is_reversed ? count - 1 - k : k), other = int64_t{own[i]} - 1;
            if (other == i || other < 0 || other >= rows) return;
            for (int64_t j = begin; j < end; ++j) swap_values(to(i, j), to(other, j));
        };
        if (!kIsOneLoop && !is_by_rows(to)) {  // whole rows on the CPU
            for (int64_t k = 0; k < count; ++k) exchange(k, 0, columns);
            return;
        }
        for (int64_t j = team.rank; j < columns; j += team.size)
            for (int64_t k = 0; k < count; ++k) exchange(k, j, j + 1);
    }
};

template <class S>
struct NanStep {
    int64_t m;
    const int32_t* info;
    bool is_lower;
    Matrices<S> x;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t b, int64_t first, int64_t count) const {
        if (info[b] == 0) return;
        const Matrix<S> to = x[b].at(0, first);
        const bool lower = is_lower;
        for_elements(team, m, count, is_by_rows(to), [&](int64_t i, int64_t j) {
            if (!lower || i >= first + j) to(i, j) = not_a_number<S>();
        });
    }
};

}  // namespace bk::linalg
