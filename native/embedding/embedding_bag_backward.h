// SPDX-License-Identifier: Apache-2.0
// Gradients of embedding_bag: of the table, a scatter-add of each bag's gradient to the rows of its indices, and of the
// weights.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/pointwise/pointwise.h"
#include "embedding/bag_shape.h"

namespace bk {

template <class T, class I>
size_t embedding_bag_backward_workspace(const BagShape& shape, bool is_scaled);

// Counts the indices that name a row, if there is no memory to count all rows at once.
template <class I>
BK_HD int32_t frequency_of(const BagShape& shape, const I* indices, int64_t row) {
    int32_t found = 0;
    for (int64_t k = 0; k < shape.total_indices; ++k) found += static_cast<int64_t>(indices[k]) == row;
    return found;
}

// scales: a weight per index; may be null.
template <class T, class I>
Status embedding_bag_backward(const Launch& launch, const BagShape& shape, const T* dout, const I* indices, IdArray offsets,
                              const T* scales, T* dweight);

// Gradient of the weights: dscales[k] = dot(dout[bag of k], weight[indices[k]]).
template <class T, class I>
Status embedding_bag_scales_backward(const Launch& launch, const BagShape& shape, const T* dout, const T* weight,
                                     const I* indices, IdArray offsets, T* dscales);

// With kHasLast offsets has one more entry, the end of the last bag.
template <class T, class I, class O = int32_t, bool kHasLast = false>
struct EmbeddingBagBackward {
    int32_t total_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    int32_t num_bags;
    int32_t mode;
    int64_t padding_idx;

    Work work() const {  // nothing to add: dweight stays as it is
        return num_bags == 0 || embedding_dim == 0 || total_indices == 0 || num_embeddings == 0 ? Work::kNone : Work::kAll;
    }
    Status check() const { return shape().check(); }
    int64_t offset_count() const { return int64_t{num_bags} + kHasLast; }
    size_t workspace_size() const { return embedding_bag_backward_workspace<T, I>(shape(), false); }
    Status run(const T* dout, const I* indices, const O* offsets, T* dweight, const Launch& launch) const {
        return embedding_bag_backward<T, I>(launch, shape(), dout, indices, IdArray(offsets), nullptr, dweight);
    }

private:
    BagShape shape() const { return {total_indices, num_embeddings, embedding_dim, num_bags, mode, padding_idx, kHasLast}; }
};

template <class T, class I, class O = int32_t>
struct EmbeddingBagWeightedBackward {
    int32_t total_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    int32_t num_bags;
    int32_t include_last_offset;
    int64_t padding_idx;

    Work work() const {
        return num_bags == 0 || embedding_dim == 0 || total_indices == 0 || num_embeddings == 0 ? Work::kNone : Work::kAll;
    }
    Status check() const { return shape().check(); }
    int64_t offset_count() const { return int64_t{num_bags} + (include_last_offset != 0); }
    size_t workspace_size() const { return embedding_bag_backward_workspace<T, I>(shape(), true); }
    Status run(const T* dout, const I* indices, const O* offsets, const T* per_sample_weights, T* dweight,
               const Launch& launch) const {
        return embedding_bag_backward(launch, shape(), dout, indices, IdArray(offsets), per_sample_weights, dweight);
    }

private:
    BagShape shape() const {
        return {total_indices, num_embeddings, embedding_dim, num_bags, 0, padding_idx, include_last_offset != 0};
    }
};

// Any mode; scaled by frequency if scale_grad_by_freq is not 0; per_sample_weights may be null.
template <class T, class I, class O = int32_t>
struct EmbeddingBagDenseBackward {
    int32_t total_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    int32_t num_bags;
    int32_t mode;
    int32_t include_last_offset;
    int32_t scale_grad_by_freq;
    int64_t padding_idx;

    Work work() const {
        return num_bags == 0 || embedding_dim == 0 || total_indices == 0 || num_embeddings == 0 ? Work::kNone : Work::kAll;
    }
    Status check() const { return shape().check(); }
    int64_t offset_count() const { return int64_t{num_bags} + (include_last_offset != 0); }
    size_t workspace_size() const { return embedding_bag_backward_workspace<T, I>(shape(), true); }
    Status run(const T* dout, const I* indices, const O* offsets, const T* per_sample_weights, T* dweight,
               const Launch& launch) const {
        return embedding_bag_backward(launch, shape(), dout, indices, IdArray(offsets), per_sample_weights, dweight);
    }

private:
    BagShape shape() const {
        return {total_indices, num_embeddings,           embedding_dim,          num_bags, mode,
                padding_idx,   include_last_offset != 0, scale_grad_by_freq != 0};
    }
};

// The gradient of embedding: every index is a bag.
template <class T, class I>
struct EmbeddingDenseBackward {
    int32_t num_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    int32_t scale_grad_by_freq;
    int64_t padding_idx;

    Work work() const { return num_indices == 0 || embedding_dim == 0 || num_embeddings == 0 ? Work::kNone : Work::kAll; }
    Status check() const {
        return require_non_negative(
            {{"num_indices", num_indices}, {"num_embeddings", num_embeddings}, {"embedding_dim", embedding_dim}});
    }
    size_t workspace_size() const { return embedding_bag_backward_workspace<T, I>(shape(), false); }
    Status run(const T* dout, const I* indices, T* dweight, const Launch& launch) const {
        return embedding_bag_backward<T, I>(launch, shape(), dout, indices, IdArray{}, nullptr, dweight);
    }

private:
    BagShape shape() const {
        return {num_indices, num_embeddings, embedding_dim, num_indices, 0, padding_idx, false, scale_grad_by_freq != 0};
    }
};

template <class T, class I, class O = int32_t>
struct EmbeddingBagWeightsBackward {
    int32_t total_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    int32_t num_bags;
    int32_t include_last_offset;
    int64_t padding_idx;

    Work work() const {
        if (total_indices == 0) return Work::kNone;
        return num_bags == 0 || embedding_dim == 0 || num_embeddings == 0 ? Work::kZeros : Work::kAll;
    }
    Status check() const { return shape().check(); }
    int64_t offset_count() const { return int64_t{num_bags} + (include_last_offset != 0); }
    Status run(const T* dout, const T* weight, const I* indices, const O* offsets, T* dper_sample_weights,
               const Launch& launch) const {
        if (work() == Work::kZeros) return write_zeros(launch, total_indices, dper_sample_weights);
        return embedding_bag_scales_backward(launch, shape(), dout, weight, indices, IdArray(offsets), dper_sample_weights);
    }

private:
    BagShape shape() const {
        return {total_indices, num_embeddings, embedding_dim, num_bags, 0, padding_idx, include_last_offset != 0};
    }
};

}  // namespace bk
