// SPDX-License-Identifier: Apache-2.0
// Threads share the rows.
#pragma once

#include "sampling/row_team_cpu.h"
#include "sampling/speculative.h"

namespace bk::sampling {

template <class T>
Status run_speculative(const Launch&, const SpeculativeRows<T>& rows) {
    return for_each_row(rows.batch, [&](int64_t row) {
        RowTeam<ExcessElements<T>> team(rows.vocab);
        verify_row(rows, row, team);
    });
}

template <class T>
Status run_tree(const Launch&, const TreeRows<T>& rows) {
    return for_each_row(rows.batch, [&](int64_t row) {
        RowTeam<ExcessElements<T>> team(rows.vocab);
        verify_tree(rows, row, team);
    });
}

}  // namespace bk::sampling
