// Rows on their way from global memory: a queue for each thread, of its own columns, so that no thread waits for another.
//
// Pieces of 8 and 16 bytes travel to shared memory by cp.async (sm_80) and cost no registers while they do; narrower ones are
// loaded when they are taken.
#pragma once

#include <cstdint>

#include "core/async_copy.cuh"
#include "core/rows/run_parts.cuh"

namespace bk {

constexpr int kRowBatch = 4;  // rows that are sent and taken at once

template <class T, int N, int kStages>
struct RowRing {
    static constexpr int kBytes = sizeof(Vec<T, N>);
    static constexpr bool kAsync = kBytes >= 8;
    Vec<T, N> slot[kAsync ? kStages * kRowBatch : 1][kRunThreads];
};

// Rows [first, last) of `source` in order, a batch at a time. send() starts a batch, take() gives the oldest one sent;
// between them the caller commits and waits (async_copy.cuh).
template <class Source, int N, int kStages>
class RowQueue {
    using T = typename Source::Element;
    using Ring = RowRing<T, N, kStages>;

public:
    BK_DEVICE RowQueue(Ring& ring, const Source& source, int64_t columns, int64_t column, uint32_t first, uint32_t last)
        : ring_(ring), source_(source), columns_(columns), column_(column), next_(first), last_(last) {
        if (Ring::kAsync) fetch_index();
    }

    // After the values of the batch taken before have been used: their place is sent to.
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

    // Rows that do not exist are left as they are.
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
