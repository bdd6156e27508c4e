// SPDX-License-Identifier: Apache-2.0
// A cluster of blocks for each row (sm_90), or one block. Each block caches its range of the row in shared memory where that
// fits, so that memory is read once.
#pragma once

#include "core/types/vec.h"
#include "sampling/row_team_cuda.cuh"

namespace bk::sampling {

// Elements of a block's range: in memory, or in the cache once they have been loaded.
template <class T>
struct CachedElements {
    using Element = T;
    static constexpr int kLanes = kVectorLanes<T>;
    const T* x;
    T* cache;  // or null

    BK_DEVICE bool has_vectors() const { return reinterpret_cast<uintptr_t>(x) % kVectorBytes == 0; }
    template <int N>
    BK_DEVICE Vec<T, N> load(int64_t i) const {
        return bk::load<N>(x + i);
    }
    template <int N>
    BK_DEVICE void keep(int64_t i, const Vec<T, N>& values) const {
        if (cache != nullptr) store<N>(cache + i, values);
    }
    BK_DEVICE float at(int64_t i) const { return widen(cache != nullptr ? cache[i] : x[i]); }
};

template <class T>
__global__ void __launch_bounds__(kThreads, 2) token_rows_kernel(TokenRows<T> rows, Split split) {
    __shared__ RowMemory memory;
    BK_LAUNCH_SHARED(uint4, cache);
    const int64_t row = row_of_block(split);
    RowTeam<CachedElements<T>> team(split, rows.vocab, memory);
    team.open({rows.x + row * rows.vocab + team.first(), split.is_cached ? reinterpret_cast<T*>(cache) : nullptr});
    run_row(rows, row, team);
    team.close();
}

template <class T>
Status run_token_rows(const Launch& launch, const TokenRows<T>& rows) {
    Split split = choose_split(rows.vocab);
    const int64_t bytes = split.block_tokens * static_cast<int64_t>(sizeof(T));
    constexpr int64_t kReserved = static_cast<int64_t>(sizeof(RowMemory)) + 1024;  // the system's kibibyte too
    split.is_cached = bytes <= max_shared_bytes(device_arch()) - kReserved;
    return launch_rows(launch, rows.batch, split, split.is_cached ? bytes : 0, token_rows_kernel<T>, rows);
}

}  // namespace bk::sampling
