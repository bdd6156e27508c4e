// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quantize/floats/nf4.h"

namespace bk::floats {

template <class T>
Status run_row_pairs(const Launch& launch, int64_t items, int64_t bytes, const RowPairsJob<T>& job) {
    return run_teams(launch, items, bytes, job, true);
}

}  // namespace bk::floats
