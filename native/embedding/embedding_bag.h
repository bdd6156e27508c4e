// Sums or means of embedding rows, a bag of indices each.
#pragma once

#include <cstdint>

#include "core/launch.h"
#include "embedding/bag_shape.h"

namespace bk {

template <class T, class I>
Status embedding_bag(const Launch& launch, const BagShape& shape, const T* weight, const I* indices, const int32_t* offsets,
                     T* out);

template <class T, class I>
struct EmbeddingBag {
    int32_t total_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    int32_t num_bags;
    int32_t mode;
    int64_t padding_idx;

    int64_t count() const { return num_bags; }
    Status check() const { return shape().check(); }
    Status run(const T* weight, const I* indices, const int32_t* offsets, T* out, const Launch& launch) const {
        return embedding_dim == 0 ? Status::kOk : embedding_bag(launch, shape(), weight, indices, offsets, out);
    }

private:
    BagShape shape() const { return {total_indices, num_embeddings, embedding_dim, num_bags, mode, padding_idx}; }
};

}  // namespace bk
