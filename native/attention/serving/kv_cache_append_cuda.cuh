// SPDX-License-Identifier: Apache-2.0
// A thread copies kAppendUnroll words of new rows, in flight together. One launch serves keys, then values, in words as
// wide as all rows allow.
#pragma once

#include <cstdint>

#include "attention/serving/kv_cache_append.h"
#include "core/math/fastdiv.h"

namespace bk {

constexpr int kAppendThreads = 256;
constexpr int kAppendUnroll = 4;

// Words of keys and of values, and fast divisors of their indices.
template <class Index>
struct AppendWalk {
    int64_t words[2];
    FastDiv<Index> by_row[2];  // words of a row
    FastDiv<Index> by_new, by_heads;
    int64_t max_len;
};

template <class Word, class Index>
__global__ void __launch_bounds__(kAppendThreads) append_kernel(const Word* k_new, const Word* v_new, const int64_t* offsets,
                                                                Word* k_cache, Word* v_cache, AppendWalk<Index> walk) {
    const int64_t first = int64_t{blockIdx.x} * (kAppendThreads * kAppendUnroll) + threadIdx.x;
    Word value[kAppendUnroll];
    Word* to[kAppendUnroll];
#pragma unroll
    for (int u = 0; u < kAppendUnroll; ++u) {
        int64_t word = first + u * kAppendThreads;
        to[u] = nullptr;
        if (word >= walk.words[0] + walk.words[1]) continue;
        const bool is_value = word >= walk.words[0];
        word -= is_value ? walk.words[0] : 0;
        const FastDiv<Index>& by_row = is_value ? walk.by_row[1] : walk.by_row[0];
        const auto row = by_row(static_cast<Index>(word));
        const auto plane = walk.by_new(row.quotient);
        const int64_t offset = offsets[walk.by_heads(plane.quotient).quotient], l = static_cast<int64_t>(plane.remainder);
        if (offset < -l || offset >= walk.max_len - l) continue;
        value[u] = (is_value ? v_new : k_new)[word];
        const int64_t cache_row = static_cast<int64_t>(plane.quotient) * walk.max_len + offset + l;
        to[u] = (is_value ? v_cache : k_cache) + (cache_row * static_cast<int64_t>(by_row.divisor()) + row.remainder);
    }
#pragma unroll
    for (int u = 0; u < kAppendUnroll; ++u)
        if (to[u] != nullptr) *to[u] = value[u];
}

template <class Word, class Index>
Status launch_append(const Launch& launch, const CacheShape& shape, const int64_t* offsets, const CacheRows (&both)[2]) {
    AppendWalk<Index> walk{};
    for (int k = 0; k < 2; ++k) {
        const int64_t per_row = both[k].row_bytes / static_cast<int64_t>(sizeof(Word));
        walk.words[k] = shape.rows() * per_row;
        walk.by_row[k] = FastDiv<Index>(std::max<int64_t>(per_row, 1));
    }
    walk.by_new = FastDiv<Index>(shape.new_len);
    walk.by_heads = FastDiv<Index>(shape.heads);
    walk.max_len = shape.max_len;
    const int64_t words = walk.words[0] + walk.words[1], blocks = ceil_div<int64_t>(words, kAppendThreads * kAppendUnroll);
    if (blocks > kMaxGridX)
        return fail(Status::kUnsupported, "batch is %lld: the rows are too many for one launch",
                    static_cast<long long>(shape.batch));
    const auto pointer = [](const char* p) { return reinterpret_cast<const Word*>(p); };
    const auto cache = [](char* p) { return reinterpret_cast<Word*>(p); };
    return launch_kernel(launch, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kAppendThreads)}, append_kernel<Word, Index>,
                         pointer(both[0].source), pointer(both[1].source), offsets, cache(both[0].cache), cache(both[1].cache),
                         walk);
}

template <class Word>
Status append_words(const Launch& launch, const CacheShape& shape, const int64_t* offsets, const CacheRows (&both)[2]) {
    const int64_t words = shape.rows() * ((both[0].row_bytes + both[1].row_bytes) / static_cast<int64_t>(sizeof(Word)));
    return words < int64_t{1} << 31 ? launch_append<Word, uint32_t>(launch, shape, offsets, both)
                                    : launch_append<Word, uint64_t>(launch, shape, offsets, both);
}

inline Status append_rows(const Launch& launch, const CacheShape& shape, const int64_t* offsets, const CacheRows (&both)[2]) {
    uint64_t bits = kVectorBytes;  // the lowest bit is the widest word that divides addresses and rows
    for (const CacheRows& rows : both)
        if (rows.row_bytes > 0)
            bits |= reinterpret_cast<uintptr_t>(rows.source) | reinterpret_cast<uintptr_t>(rows.cache) |
                    static_cast<uint64_t>(rows.row_bytes);
    switch (bits & (~bits + 1)) {
        case 16: return append_words<uint4>(launch, shape, offsets, both);
        case 8: return append_words<uint2>(launch, shape, offsets, both);
        case 4: return append_words<uint32_t>(launch, shape, offsets, both);
        case 2: return append_words<uint16_t>(launch, shape, offsets, both);
        default: return append_words<uint8_t>(launch, shape, offsets, both);
    }
}

}  // namespace bk
