// SPDX-License-Identifier: Apache-2.0
// embedding: a row gather from a table, and its gradient, a row scatter-add.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/gather/gather_rows.h"
#include "core/pointwise/pointwise.h"
#include "core/scatter/scatter_reduce.h"
#include "core/types/complex.h"

namespace bk {

struct EmbeddingShape {
    int64_t num_indices;
    int32_t num_embeddings, embedding_dim;
    int64_t padding_idx;

    Status check() const {
        return require_non_negative(
            {{"num_indices", num_indices}, {"num_embeddings", num_embeddings}, {"embedding_dim", embedding_dim}});
    }
    bool has_rows() const { return num_indices > 0 && embedding_dim > 0; }
};

template <class T, class I>
struct Embedding {
    int64_t num_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    int64_t padding_idx;

    Work work() const { return !shape().has_rows() ? Work::kNone : num_embeddings == 0 ? Work::kZeros : Work::kAll; }
    Status check() const { return shape().check(); }
    Status run(const T* weight, const I* indices, T* out, const Launch& launch) const {
        const int64_t columns = embedding_dim * kWords<T>;
        if (work() == Work::kZeros) return write_zeros(launch, num_indices * columns, words_of(out));
        return gather_rows(launch, GatherShape{num_indices, columns, num_embeddings, padding_idx}, words_of(weight), indices,
                           words_of(out));
    }

private:
    EmbeddingShape shape() const { return {num_indices, num_embeddings, embedding_dim, padding_idx}; }
};

template <class T, class I>
struct EmbeddingBackward {
    int64_t num_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    int64_t padding_idx;

    Work work() const { return all_or_none(shape().has_rows() ? num_embeddings : 0); }
    Status check() const { return shape().check(); }
    size_t workspace_size() const { return scatter_reduce_workspace<ScatterSum<compute_t<T>>, T>(layout()); }
    Status run(const T* dout, const I* indices, T* dweight, const Launch& launch) const {
        return scatter_reduce<ScatterSum<compute_t<T>>>(launch, layout(), dout, indices, dweight);
    }

private:
    EmbeddingShape shape() const { return {num_indices, num_embeddings, embedding_dim, padding_idx}; }
    ScatterLayout layout() const {
        ScatterLayout s{{}, num_indices, {embedding_dim, 1, embedding_dim}, num_embeddings, padding_idx};
        s.cells.append(embedding_dim, {1, 0, 1});
        return s;
    }
};

}  // namespace bk
