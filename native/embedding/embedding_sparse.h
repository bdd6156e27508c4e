// SPDX-License-Identifier: Apache-2.0
// Sparse gradients of tables: the distinct rows that indices name, ascending, and the sum of the gradients of each.
//
// With a workspace indices are sorted (CUDA) or grouped by counting (CPU). Without one only the results are memory: a
// GPU compares each index with all others, the CPU sorts positions in `rows`.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "embedding/bag_shape.h"
#include "embedding/embedding_bag_backward.h"

namespace bk {

// rows [total_indices] and values [total_indices, embedding_dim]; past *count rows are -1 and values 0.
template <class T, class I>
struct SparseRows {
    I* rows;
    T* values;
    I* count;
};

template <class T, class I>
size_t sparse_rows_workspace(const BagShape& shape, bool is_scaled);

template <class T, class I>
Status sparse_rows_of_bags(const Launch& launch, const BagShape& shape, const T* dout, const I* indices, IdArray offsets,
                           const T* scales, const SparseRows<T, I>& out);

template <class T, class I>
Status clear_sparse_rows(const Launch& launch, const BagShape& shape, const SparseRows<T, I>& out) {
    if (shape.total_indices == 0) return Status::kOk;
    constexpr int64_t words = sizeof(I) / sizeof(int32_t);  // words of -1 are alike
    BK_TRY(
        pointwise(launch, shape.total_indices * words, NoRowIndex{}, outputs(reinterpret_cast<int32_t*>(out.rows)), inputs()));
    if (shape.embedding_dim == 0) return Status::kOk;
    return write_zeros(launch, int64_t{shape.total_indices} * shape.embedding_dim, out.values);
}

template <class T, class I>
Status sparse_rows_in_place(const Launch& launch, const BagShape& shape, const T* dout, const I* indices, IdArray offsets,
                            const T* scales, const SparseRows<T, I>& out);

// --- Ops -------------------------------------------------------------------------------------------------------------

template <class T, class I>
Status sparse_rows(const Launch& launch, const BagShape& shape, const T* dout, const I* indices, IdArray offsets,
                   const T* scales, const SparseRows<T, I>& out, size_t needed) {
    const bool found = workspace_holds(launch, needed);
    BK_TRY(clear_sparse_rows(launch, shape, out));
    if (found) return sparse_rows_of_bags(launch, shape, dout, indices, offsets, scales, out);
    return sparse_rows_in_place(launch, shape, dout, indices, offsets, scales, out);
}

template <class T, class I, class O = int32_t>
struct EmbeddingBagSparseBackward {
    int32_t total_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    int32_t num_bags;
    int32_t mode;
    int32_t include_last_offset;
    int32_t scale_grad_by_freq;
    int64_t padding_idx;

    Work work() const {
        return num_bags == 0 || embedding_dim == 0 || total_indices == 0 || num_embeddings == 0 ? Work::kZeros : Work::kAll;
    }
    Status check() const { return shape().check(); }
    int64_t offset_count() const { return int64_t{num_bags} + (include_last_offset != 0); }
    size_t workspace_size() const { return work() == Work::kAll ? sparse_rows_workspace<T, I>(shape(), true) : 0; }
    Status run(const T* dout, const I* indices, const O* offsets, const T* per_sample_weights, I* rows, T* values, I* count,
               const Launch& launch) const {
        const SparseRows<T, I> out{rows, values, count};
        if (work() == Work::kAll)
            return sparse_rows(launch, shape(), dout, indices, IdArray(offsets), per_sample_weights, out, workspace_size());
        BK_TRY(clear_sparse_rows(launch, shape(), out));
        return write_zeros(launch, 1, count);
    }

private:
    BagShape shape() const {
        return {total_indices, num_embeddings,           embedding_dim,          num_bags, mode,
                padding_idx,   include_last_offset != 0, scale_grad_by_freq != 0};
    }
};

// The sparse gradient of embedding: every index is a bag.
template <class T, class I>
struct EmbeddingSparseBackward {
    int32_t num_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    int32_t scale_grad_by_freq;
    int64_t padding_idx;

    Work work() const { return num_indices == 0 || embedding_dim == 0 || num_embeddings == 0 ? Work::kZeros : Work::kAll; }
    Status check() const {
        return require_non_negative(
            {{"num_indices", num_indices}, {"num_embeddings", num_embeddings}, {"embedding_dim", embedding_dim}});
    }
    size_t workspace_size() const { return work() == Work::kAll ? sparse_rows_workspace<T, I>(shape(), false) : 0; }
    Status run(const T* dout, const I* indices, I* rows, T* values, I* count, const Launch& launch) const {
        const SparseRows<T, I> out{rows, values, count};
        if (work() == Work::kAll)
            return sparse_rows<T, I>(launch, shape(), dout, indices, IdArray{}, nullptr, out, workspace_size());
        BK_TRY(clear_sparse_rows(launch, shape(), out));
        return write_zeros(launch, 1, count);
    }

private:
    BagShape shape() const {
        return {num_indices, num_embeddings, embedding_dim, num_indices, 0, padding_idx, false, scale_grad_by_freq != 0};
    }
};

}  // namespace bk
