// Maxima of embedding rows, a bag of indices each, and the gradient of the table.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "core/rows/scatter_reduce.h"
#include "embedding/bag_shape.h"

namespace bk {

struct NoRow {
    BK_HD int32_t operator()() const { return -1; }
};

template <class T, class I>
Status embedding_bag_max(const Launch& launch, const BagShape& shape, const T* weight, const I* indices, const int32_t* offsets,
                         T* out, int32_t* out_index);

template <class T, class I>
struct EmbeddingBagMax {
    int32_t total_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    int32_t num_bags;
    int64_t padding_idx;

    Work work() const {
        if (num_bags == 0 || embedding_dim == 0) return Work::kNone;
        return total_indices == 0 || num_embeddings == 0 ? Work::kZeros : Work::kAll;
    }
    Status check() const { return shape().check(); }
    Status run(const T* weight, const I* indices, const int32_t* offsets, T* out, int32_t* out_index,
               const Launch& launch) const {
        if (work() == Work::kAll) return embedding_bag_max(launch, shape(), weight, indices, offsets, out, out_index);
        const int64_t cells = int64_t{num_bags} * embedding_dim;
        BK_TRY(write_zeros(launch, cells, out));
        return pointwise(launch, cells, NoRow{}, outputs(out_index), inputs());
    }

private:
    BagShape shape() const { return {total_indices, num_embeddings, embedding_dim, num_bags, 0, padding_idx}; }
};

template <class T>
struct EmbeddingBagMaxBackward {
    int32_t num_embeddings;
    int32_t embedding_dim;
    int32_t num_bags;

    Work work() const { return num_embeddings == 0 || embedding_dim == 0 || num_bags == 0 ? Work::kNone : Work::kAll; }
    Status check() const {
        return require_non_negative(
            {{"num_embeddings", num_embeddings}, {"embedding_dim", embedding_dim}, {"num_bags", num_bags}});
    }
    size_t workspace_size() const { return scatter_reduce_workspace<ScatterSum<compute_t<T>>, T>(layout()); }
    Status run(const T* dout, const int32_t* out_index, T* dweight, const Launch& launch) const {
        return scatter_reduce<ScatterSum<compute_t<T>>>(launch, layout(), dout, out_index, dweight);
    }

private:
    ScatterLayout layout() const {
        ScatterLayout s{{}, num_bags, {embedding_dim, embedding_dim, embedding_dim}, num_embeddings, -1};
        s.cells.append(embedding_dim, {1, 1, 1});
        return s;
    }
};

}  // namespace bk
