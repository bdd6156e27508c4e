// SPDX-License-Identifier: Apache-2.0
// The triangle T of a block of reflectors: H_0 H_1 ... H_(n-1) = I - V T V^H (Schreiber and Van Loan 1989).
#pragma once

#include "linalg/loops.h"

namespace bk::linalg {

// t, upper, n x n with zeros below, from the vectors below the diagonal of v, whose ones are not read, and their factors. Rows
// of v: m. Row j of t has the sums of step j until the end. The caller has a barrier in front.
template <class S>
BK_LINALG void build_triangle(const MatrixTeam& team, int64_t m, int64_t n, const Matrix<const S>& v, bool conjugates_v,
                              const S* tau, bool conjugates_tau, const Matrix<S>& t) {
    for (int64_t j = 0; j < n; ++j) {
        const S factor = conj_if(conjugates_tau, tau[j]);
        for (int64_t i = team.group; i < j; i += team.groups) {
            S sum = team.lane == 0 ? conj_if(!conjugates_v, v(j, i)) : S(0);
            for (int64_t r = j + 1 + team.lane; r < m; r += team.lanes)
                sum = add_product(sum, conj_if(!conjugates_v, v(r, i)), conj_if(conjugates_v, v(r, j)));
            sum = team.sum_of_lanes(sum);
            if (team.lane == 0) t(j, i) = sum;
        }
        team.sync();
        for (int64_t i = team.rank; i <= j; i += team.size) {
            S sum = S(0);
            for (int64_t k = i; k < j; ++k) sum = add_product(sum, t(i, k), t(j, k));
            t(i, j) = i < j ? -(factor * sum) : factor;
        }
        team.sync();
    }
    for_elements(team, n, n, is_by_rows(t), [&](int64_t i, int64_t j) {
        if (i > j) t(i, j) = S(0);
    });
}

}  // namespace bk::linalg
