// SPDX-License-Identifier: Apache-2.0
// A cluster of blocks for each row, as of the samplers. Each block makes the tests itself, since they are few.
#pragma once

#include "sampling/row_team_cuda.cuh"
#include "sampling/speculative.h"

namespace bk::sampling {

template <class T>
__global__ void __launch_bounds__(kThreads, 2) speculative_kernel(SpeculativeRows<T> rows, Split split) {
    __shared__ RowMemory memory;
    RowTeam<ExcessElements<T>> team(split, rows.vocab, memory);
    verify_row(rows, row_of_block(split), team);
    team.close();
}

template <class T>
__global__ void __launch_bounds__(kThreads, 2) tree_kernel(TreeRows<T> rows, Split split) {
    __shared__ RowMemory memory;
    RowTeam<ExcessElements<T>> team(split, rows.vocab, memory);
    verify_tree(rows, row_of_block(split), team);
    team.close();
}

template <class T>
Status run_speculative(const Launch& launch, const SpeculativeRows<T>& rows) {
    return launch_rows(launch, rows.batch, choose_split(rows.vocab), 0, speculative_kernel<T>, rows);
}

template <class T>
Status run_tree(const Launch& launch, const TreeRows<T>& rows) {
    return launch_rows(launch, rows.batch, choose_split(rows.vocab), 0, tree_kernel<T>, rows);
}

}  // namespace bk::sampling
