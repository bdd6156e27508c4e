// SPDX-License-Identifier: Apache-2.0
// Runs on the CPU: a select (core/select) of the heads, whose sink leaves starts in counts; then starts become lengths.
#pragma once

#include <algorithm>
#include <cstdint>

#include "search/runs.h"

namespace bk {

template <class Bits, class I>
struct RunStores : RunOutputs<Bits, I> {
    int64_t* end;  // start of the first run that has no slot

    BK_HD void operator()(int64_t run, int64_t index) const {
        this->put_head(run, index);
        if (run < this->limit && this->counts != nullptr) this->counts[run] = static_cast<I>(index);
        if (run == this->limit) *end = index;
    }
    BK_HD void total(int64_t runs) const { *this->counter = static_cast<I>(runs); }
};

// counts holds the starts of runs; the last one ends at `end`.
template <class I>
void starts_to_lengths(I* counts, int64_t runs, int64_t limit, int64_t end) {
    for (int64_t r = 0; r + 1 < runs; ++r) counts[r] = static_cast<I>(counts[r + 1] - counts[r]);
    if (runs > 0) counts[runs - 1] = static_cast<I>(end - counts[runs - 1]);
    std::fill(counts + runs, counts + limit, I(0));
}

template <class Bits, class I>
Status find_runs(const Launch& launch, const RunHeads<Bits>& heads, const RunOutputs<Bits, I>& outputs) {
    int64_t end = outputs.n;
    BK_TRY(select_indices(launch, outputs.n, heads, RunStores<Bits, I>{outputs, &end}));
    if (outputs.counts != nullptr)
        starts_to_lengths(outputs.counts, std::min<int64_t>(*outputs.counter, outputs.limit), outputs.limit, end);
    return Status::kOk;
}

template <class Bits, class I>
Status find_runs_of_rows(const Launch& launch, int64_t batch, const RunHeads<Bits>& heads, const RunOutputs<Bits, I>& outputs) {
    const auto one = [&](int64_t row) {
        return find_runs(launch, heads_of_row(heads, row, outputs.n), outputs_of_row(outputs, row));
    };
    if (batch < 2 * thread_count()) {
        for (int64_t row = 0; row < batch; ++row) BK_TRY(one(row));
        return Status::kOk;
    }
    split_ranges(batch, ceil_div<int64_t>(16384, outputs.n), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) static_cast<void>(one(row));  // it cannot fail
    });
    return Status::kOk;
}

}  // namespace bk
