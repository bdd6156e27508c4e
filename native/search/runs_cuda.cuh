// SPDX-License-Identifier: Apache-2.0
// Runs on a GPU: a select (core/select) of the heads. The length of a run is its end less its start: each head adds its index
// to the run before and subtracts it from its own, by integer atomics, so that no order matters. Many rows take a block each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "search/runs.h"

namespace bk {

template <class I>
BK_DEVICE void add_to_count(I* count, int64_t change) {
    using Word = std::conditional_t<sizeof(I) == 8, unsigned long long, uint32_t>;
    atomicAdd(reinterpret_cast<Word*>(count), static_cast<Word>(change));
}

template <class Bits, class I>
struct RunStores : RunOutputs<Bits, I> {
    BK_DEVICE void operator()(int64_t run, int64_t index) const {
        this->put_head(run, index);
        if (this->counts == nullptr) return;
        if (run < this->limit) add_to_count(this->counts + run, -index);
        if (run > 0 && run <= this->limit) add_to_count(this->counts + run - 1, index);
    }
    BK_DEVICE void total(int64_t runs) const {
        *this->counter = static_cast<I>(runs);
        if (this->counts != nullptr && runs <= this->limit) add_to_count(this->counts + runs - 1, this->n);
    }
};

template <class Bits, class I>
Status find_runs(const Launch& launch, const RunHeads<Bits>& heads, const RunOutputs<Bits, I>& outputs) {
    if (outputs.counts != nullptr)
        BK_TRY(fill_bytes(launch, outputs.counts, 0, sizeof(I) * static_cast<size_t>(outputs.limit)));
    return select_indices(launch, outputs.n, heads, RunStores<Bits, I>{outputs});
}

template <class Bits, class I>
__global__ void __launch_bounds__(kSelectThreads)
    run_rows_kernel(const __grid_constant__ RunHeads<Bits> all_heads, const __grid_constant__ RunOutputs<Bits, I> all_outputs) {
    constexpr int kItems = kSelectItems<RunHeads<Bits>>, kTile = kSelectThreads * kItems;
    const int64_t row = blockIdx.x, n = all_outputs.n;
    const RunHeads<Bits> heads = heads_of_row(all_heads, row, n);
    const RunStores<Bits, I> sink{outputs_of_row(all_outputs, row)};
    int64_t carry = 0;
    for (int64_t tile = 0; tile * kTile < n; ++tile) {
        if (tile > 0) __syncthreads();
        int own = 0;
        select_tile<kSelectThreads, kItems>(heads, sink, n, tile, [&](int total) {
            own = total;
            return carry;
        });
        carry += own;
    }
    if (threadIdx.x == 0) sink.total(carry);
}

template <class Bits, class I>
Status find_runs_of_rows(const Launch& launch, int64_t batch, const RunHeads<Bits>& heads, const RunOutputs<Bits, I>& outputs) {
    constexpr int64_t kLongRow = 1 << 16, kFewRows = 32;
    if (batch == 1 || (outputs.n >= kLongRow && batch < kFewRows)) {
        for (int64_t row = 0; row < batch; ++row)
            BK_TRY(find_runs(launch, heads_of_row(heads, row, outputs.n), outputs_of_row(outputs, row)));
        return Status::kOk;
    }
    if (outputs.counts != nullptr)
        BK_TRY(fill_bytes(launch, outputs.counts, 0, sizeof(I) * static_cast<size_t>(batch * outputs.limit)));
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(batch)), dim3(kSelectThreads)}, run_rows_kernel<Bits, I>,
                         heads, outputs);
}

}  // namespace bk
