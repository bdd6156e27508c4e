// SPDX-License-Identifier: Apache-2.0
// Rows, ranks and results of order statistics as kernels take them.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/topk/rank_rule.h"
#include "core/topk/top_k_rows.cuh"

namespace bk {

template <class Bits>
struct RankTable {
    RowTable<Bits> rows;
    RankRule rule;
    RankOutputs<Bits> outputs;
    int64_t query_step;

    BK_DEVICE void set(const DeviceRow<Bits>& row, int64_t query, const RankChoice& index) const {
        outputs.set(row.value_at + query * query_step, row.index_at + query * query_step, row.x, row.step, index);
    }
};

}  // namespace bk
