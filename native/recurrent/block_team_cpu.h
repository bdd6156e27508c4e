// SPDX-License-Identifier: Apache-2.0
// Worker w has the items w, w + workers and so on, and its own scratch.
#pragma once

#include "recurrent/block_team.h"

namespace bk::recurrent {

template <class Body>
BK_TEAM void with_vectors(const Body& body) {
    dispatch_range([&](int64_t, int64_t) { body(); }, 0, 1);
}

template <class Job>
Status run_with_scratch(const Launch&, int64_t items, int64_t floats, float* workers, const Job& job) {
    const int64_t count = std::min(items, kWorkers);
    split_ranges(count, 1, [&](int64_t begin, int64_t end) {
        for (int64_t worker = begin; worker < end; ++worker)
            for (int64_t item = worker; item < items; item += count) job(Team{workers + worker * floats}, item);
    });
    return Status::kOk;
}

}  // namespace bk::recurrent
