// SPDX-License-Identifier: Apache-2.0
// embedding_bag: the sum or mean of the table rows of each bag of indices.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "embedding/bag_shape.h"

namespace bk {

// scales: a weight per index; may be null.
template <class T, class I>
Status embedding_bag(const Launch& launch, const BagShape& shape, const T* weight, const I* indices, IdArray offsets,
                     const T* scales, T* out);

// With kHasLast offsets has one more entry, the end of the last bag.
template <class T, class I, class O = int32_t, bool kHasLast = false>
struct EmbeddingBag {
    int32_t total_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    int32_t num_bags;
    int32_t mode;
    int64_t padding_idx;

    Work work() const {
        if (num_bags == 0 || embedding_dim == 0) return Work::kNone;
        return total_indices == 0 || num_embeddings == 0 ? Work::kZeros : Work::kAll;
    }
    Status check() const { return shape().check(); }
    int64_t offset_count() const { return int64_t{num_bags} + kHasLast; }
    Status run(const T* weight, const I* indices, const O* offsets, T* out, const Launch& launch) const {
        if (work() == Work::kZeros) return write_zeros(launch, int64_t{num_bags} * embedding_dim, out);
        return embedding_bag<T, I>(launch, shape(), weight, indices, IdArray(offsets), nullptr, out);
    }

private:
    BagShape shape() const { return {total_indices, num_embeddings, embedding_dim, num_bags, mode, padding_idx, kHasLast}; }
};

// The weighted sum: each row times the weight of its index.
template <class T, class I, class O = int32_t>
struct EmbeddingBagWeighted {
    int32_t total_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    int32_t num_bags;
    int32_t include_last_offset;
    int64_t padding_idx;

    Work work() const {
        if (num_bags == 0 || embedding_dim == 0) return Work::kNone;
        return total_indices == 0 || num_embeddings == 0 ? Work::kZeros : Work::kAll;
    }
    Status check() const { return shape().check(); }
    int64_t offset_count() const { return int64_t{num_bags} + (include_last_offset != 0); }
    Status run(const T* weight, const I* indices, const O* offsets, const T* per_sample_weights, T* out,
               const Launch& launch) const {
        if (work() == Work::kZeros) return write_zeros(launch, int64_t{num_bags} * embedding_dim, out);
        return embedding_bag(launch, shape(), weight, indices, IdArray(offsets), per_sample_weights, out);
    }

private:
    BagShape shape() const {
        return {total_indices, num_embeddings, embedding_dim, num_bags, 0, padding_idx, include_last_offset != 0};
    }
};

}  // namespace bk
