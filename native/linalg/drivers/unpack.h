// SPDX-License-Identifier: Apache-2.0
// Parts of packed factorisations as dense matrices. Items are some columns of a matrix each, and the permutation of one.
#pragma once

#include "linalg/loops.h"
#include "linalg/problem.h"

namespace bk::linalg {

constexpr int64_t kUnpackedColumns = 16;

template <class S>
struct UnpackJob {
    UnpackProblem<S> p;
    int64_t chunks;

    BK_LINALG void operator()(const MatrixTeam& team, int64_t item, char*) const {
        const int64_t b = item / chunks, first = item % chunks * kUnpackedColumns, least = p.m < p.n ? p.m : p.n;
        const Matrix<const S> a = p.packed[b];
        const S zero = S(real_t<S>(0)), one = S(real_t<S>(1));
        const auto write = [&](const Matrices<S>& to, int64_t rows, int64_t columns, const auto& value) {
            if (to.data == nullptr || first >= columns) return;
            const Matrix<S> matrix = to[b];
            const int64_t count = columns - first < kUnpackedColumns ? columns - first : kUnpackedColumns;
            for_elements(team, rows, count, is_by_rows(matrix),
                         [&](int64_t i, int64_t j) { matrix(i, first + j) = value(i, first + j); });
        };
        write(p.l, p.m, least, [&](int64_t i, int64_t j) { return i > j ? a(i, j) : i == j ? one : zero; });
        write(p.u, p.u_rows, p.n, [&](int64_t i, int64_t j) { return i <= j && i < p.m ? a(i, j) : zero; });
        if (p.p.data == nullptr || first != 0) return;
        // Column j of P^T, the exchanges of rows undone: a thread has whole columns.
        const Matrix<S> matrix = p.p[b];
        const int32_t* const pivots = p.pivots + b * least;
        for (int64_t j = team.rank; j < p.m; j += team.size) {
            int64_t row = j;
            for (int64_t k = least - 1; k >= 0; --k) {
                const int64_t other = int64_t{pivots[k]} - 1;
                row = row == k ? other : row == other ? k : row;
            }
            for (int64_t i = 0; i < p.m; ++i) matrix(i, j) = i == row ? one : zero;
        }
    }
};

template <class S>
Status unpack(const Launch& launch, const UnpackProblem<S>& p) {
    const int64_t chunks = std::max<int64_t>(ceil_div(std::max(p.n, int64_t{1}), kUnpackedColumns), 1);
    return run_matrices(launch, p.batch * chunks, std::max(p.m, p.u_rows), 0, nullptr, p.m * kUnpackedColumns,
                        UnpackJob<S>{p, chunks});
}

}  // namespace bk::linalg
