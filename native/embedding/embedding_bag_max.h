// SPDX-License-Identifier: Apache-2.0
// embedding_bag with max: the elementwise maximum of each bag's rows, and the gradient of the table.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "core/scatter/scatter_reduce.h"
#include "embedding/bag_shape.h"

namespace bk {

// Output of row indices, -1 for none, of either width, so that kernels are not instantiated for both.
struct RowIndexOutput {
    void* rows;
    bool is_wide;

    explicit RowIndexOutput(int32_t* given) : rows(given), is_wide(false) {}
    explicit RowIndexOutput(int64_t* given) : rows(given), is_wide(true) {}
    BK_HD void put(int64_t i, int32_t row) const {
        if (is_wide)
            static_cast<int64_t*>(rows)[i] = row;
        else
            static_cast<int32_t*>(rows)[i] = row;
    }
};

template <class T, class I>
Status embedding_bag_max(const Launch& launch, const BagShape& shape, const T* weight, const I* indices, IdArray offsets,
                         T* out, RowIndexOutput out_index);

template <class T, class I, class O>
Status embedding_bag_max_or_none(const Launch& launch, const BagShape& shape, const T* weight, const I* indices,
                                 const O* offsets, T* out, O* out_index) {
    if (shape.total_indices > 0 && shape.num_embeddings > 0)
        return embedding_bag_max(launch, shape, weight, indices, IdArray(offsets), out, RowIndexOutput(out_index));
    const int64_t cells = int64_t{shape.num_bags} * shape.embedding_dim;
    BK_TRY(write_zeros(launch, cells, out));
    constexpr int64_t words = sizeof(O) / sizeof(int32_t);  // words of -1 are alike
    return pointwise(launch, cells * words, NoRowIndex{}, outputs(reinterpret_cast<int32_t*>(out_index)), inputs());
}

template <class T, class I, class O = int32_t>
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
    Status run(const T* weight, const I* indices, const O* offsets, T* out, O* out_index, const Launch& launch) const {
        return embedding_bag_max_or_none(launch, shape(), weight, indices, offsets, out, out_index);
    }

private:
    BagShape shape() const { return {total_indices, num_embeddings, embedding_dim, num_bags, 0, padding_idx}; }
};

// If include_last_offset is not 0, offsets has one more entry, the end of the last bag.
template <class T, class I, class O = int32_t>
struct EmbeddingBagMaxLastOffset {
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
    Status run(const T* weight, const I* indices, const O* offsets, T* out, O* out_index, const Launch& launch) const {
        return embedding_bag_max_or_none(launch, shape(), weight, indices, offsets, out, out_index);
    }

private:
    BagShape shape() const {
        return {total_indices, num_embeddings, embedding_dim, num_bags, 0, padding_idx, include_last_offset != 0};
    }
};

template <class T, class I>
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
    Status run(const T* dout, const I* out_index, T* dweight, const Launch& launch) const {
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
