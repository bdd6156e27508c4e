// SPDX-License-Identifier: Apache-2.0
// Multi-stage load pipeline over rows. Each thread has its own queue for its own columns, so no block barrier is
// needed. Vectors of 8 and 16 bytes go to shared memory by cp.async (sm_80) and take no registers in flight; narrower
// ones are loaded when they are consumed.
#pragma once

#include <cstdint>

#include "core/intrinsics/async_copy.cuh"
#include "core/segmented/segment_partials.cuh"

namespace bk {

constexpr int kRowBatch = 4;  // rows per pipeline stage

template <class T, int N, int kStages>
struct RowRing {
    static constexpr int kBytes = sizeof(Vec<T, N>);
    static constexpr bool kAsync = kBytes >= 8;
    Vec<T, N> slot[kAsync ? kStages * kRowBatch : 1][kSegmentThreads];
};

// Rows [first, last) of `source` in order, kRowBatch at a time. send() issues a batch, take() returns the oldest one
// issued; the caller commits and waits for copy groups in between (async_copy.cuh).
template <class Source, int N, int kStages>
class RowQueue {
    using T = typename Source::Element;
    using Ring = RowRing<T, N, kStages>;

public:
    BK_DEVICE RowQueue(Ring& ring, const Source& source, int64_t columns, int64_t column, uint32_t first, uint32_t last)
        : ring_(ring), source_(source), columns_(columns), column_(column), next_(first), last_(last) {
        if (Ring::kAsync) fetch_index();
    }

    // Call after the values of the last take() have been used: their stage is overwritten.
    BK_DEVICE void send() {
        if constexpr (Ring::kAsync) {
#pragma unroll
            for (int u = 0; u < kRowBatch; ++u)
                if (next_ + u < last_)
                    start_copy<Ring::kBytes>(&ring_.slot[to_ * kRowBatch + u][threadIdx.x], address(u), policy_);
            next_ += kRowBatch;
            to_ = to_ + 1 == kStages ? 0 : to_ + 1;
            fetch_index();
        }
    }

    // Leaves value[u] of rows past the end unspecified.
    BK_DEVICE void take(Vec<T, N> (&value)[kRowBatch]) {
        if constexpr (Ring::kAsync) {
#pragma unroll
            for (int u = 0; u < kRowBatch; ++u) value[u] = ring_.slot[from_ * kRowBatch + u][threadIdx.x];
            from_ = from_ + 1 == kStages ? 0 : from_ + 1;
        } else {
            fetch_index();
#pragma unroll
            for (int u = 0; u < kRowBatch; ++u)
                if (next_ + u < last_) value[u] = load<N>(address(u));
            next_ += kRowBatch;
        }
    }

private:
    BK_DEVICE const T* address(int u) const { return source_.rows + index_[u] * columns_ + column_; }

    BK_DEVICE void fetch_index() {
#pragma unroll
        for (int u = 0; u < kRowBatch; ++u)
            if (next_ + u < last_) index_[u] = source_.index(next_ + u);
    }

    Ring& ring_;
    const Source& source_;
    const int64_t columns_, column_;
    uint32_t next_;
    const uint32_t last_;
    int to_ = 0, from_ = 0;
    uint32_t index_[kRowBatch];
    const uint64_t policy_ = cache_policy<Source::kReused>();
};

}  // namespace bk
