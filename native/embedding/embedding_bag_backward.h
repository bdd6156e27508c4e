// Gradient of embedding_bag: adds each bag's gradient to the rows of its indices.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "embedding/bag_shape.h"

namespace bk {

template <class T, class I>
size_t embedding_bag_backward_workspace(const BagShape& shape);

template <class T, class I>
Status embedding_bag_backward(const Launch& launch, const BagShape& shape, const T* dout, const I* indices,
                              const int32_t* offsets, T* dweight);

template <class T, class I>
struct EmbeddingBagBackward {
    int32_t total_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    int32_t num_bags;
    int32_t mode;
    int64_t padding_idx;

    Work work() const {  // what nothing is added to stays as it is
        return num_bags == 0 || embedding_dim == 0 || total_indices == 0 || num_embeddings == 0 ? Work::kNone : Work::kAll;
    }
    Status check() const { return shape().check(); }
    size_t workspace_size() const { return embedding_bag_backward_workspace<T, I>(shape()); }
    Status run(const T* dout, const I* indices, const int32_t* offsets, T* dweight, const Launch& launch) const {
        return embedding_bag_backward(launch, shape(), dout, indices, offsets, dweight);
    }

private:
    BagShape shape() const { return {total_indices, num_embeddings, embedding_dim, num_bags, mode, padding_idx}; }
};

}  // namespace bk
