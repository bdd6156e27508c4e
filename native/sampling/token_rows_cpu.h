// SPDX-License-Identifier: Apache-2.0
// Threads share the rows.
#pragma once

#include "sampling/row_team_cpu.h"

namespace bk::sampling {

template <class T>
struct Elements {
    const T* x;
    float at(int64_t i) const { return widen(x[i]); }
};

template <class T>
Status run_token_rows(const Launch&, const TokenRows<T>& rows) {
    return for_each_row(rows.batch, [&](int64_t row) {
        RowTeam<Elements<T>> team(rows.vocab);
        team.open({rows.x + row * rows.vocab});
        run_row(rows, row, team);
    });
}

}  // namespace bk::sampling
