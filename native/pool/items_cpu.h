// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pool/items.h"

namespace bk::pool {

template <class Job>
Status run_items(const Launch&, int64_t count, int64_t bytes, const Job& job) {
    parallel_ranges(count, grain_for(bytes), [&](int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end; ++item) job(item);
    });
    return Status::kOk;
}

}  // namespace bk::pool
