// SPDX-License-Identifier: Apache-2.0
// KV-cache append: copies new key and value rows to cache rows [offset, offset + new_len) of each batch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/operand.h"
#include "core/types/complex.h"
#include "core/types/vec.h"

namespace bk {

// A plane is one head of one batch: row l of its new_len source rows goes to row offset + l of max_len cache rows.
struct CacheShape {
    int64_t batch, heads, new_len, max_len;

    int64_t rows() const { return batch * heads * new_len; }
};

// Keys or values, as rows of bytes.
struct CacheRows {
    const char* source;
    char* cache;
    int64_t row_bytes;
};

Status append_rows(const Launch& launch, const CacheShape& shape, const int64_t* offsets, const CacheRows (&both)[2]);

template <class T>
struct KvCacheAppend {
    int32_t batch;
    int32_t heads;
    int32_t new_len;
    int32_t max_cache_len;
    int32_t d_k;
    int32_t d_v;

    Work work() const {
        const bool is_empty = batch == 0 || heads == 0 || new_len == 0 || max_cache_len == 0 || (d_k == 0 && d_v == 0);
        return is_empty ? Work::kNone : Work::kAll;
    }
    Status check() const {
        return require_non_negative({{"batch", batch},
                                     {"heads", heads},
                                     {"new_len", new_len},
                                     {"max_cache_len", max_cache_len},
                                     {"d_k", d_k},
                                     {"d_v", d_v}});
    }
    Status run(const T* k_new, const T* v_new, const int64_t* cache_offsets, T* k_cache, T* v_cache,
               const Launch& launch) const {
        const auto rows = [](const T* source, T* cache, int32_t d) -> CacheRows {
            return {reinterpret_cast<const char*>(source), reinterpret_cast<char*>(cache), d * size_of<T>()};
        };
        return append_rows(launch, {batch, heads, new_len, max_cache_len}, cache_offsets,
                           {rows(k_new, k_cache, d_k), rows(v_new, v_cache, d_v)});
    }
};

}  // namespace bk
