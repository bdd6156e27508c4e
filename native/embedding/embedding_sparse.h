// Gradients of tables as the rows that indices name, in ascending order and each once, and what is added to them.
//
// With a workspace indices are brought together by a sort (CUDA) or by counting (CPU). Without one each index is compared
// with all others, which needs no memory beside the results.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/pointwise.h"
#include "core/rows/team.h"
#include "embedding/bag_shape.h"
#include "embedding/embedding_bag_backward.h"

namespace bk {

// rows [total_indices] and values [total_indices, embedding_dim]; behind *count of them rows are -1 and values 0.
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

// rows: -1, values: 0.
template <class T, class I>
Status clear_sparse_rows(const Launch& launch, const BagShape& shape, const SparseRows<T, I>& out) {
    if (shape.total_indices == 0) return Status::kOk;
    constexpr int64_t words = sizeof(I) / sizeof(int32_t);  // of -1 all alike
    BK_TRY(pointwise(launch, shape.total_indices * words, NoRow{}, outputs(reinterpret_cast<int32_t*>(out.rows)), inputs()));
    if (shape.embedding_dim == 0) return Status::kOk;
    return write_zeros(launch, int64_t{shape.total_indices} * shape.embedding_dim, out.values);
}

// --- Without a workspace ---------------------------------------------------------------------------------------------

// The positions that bags keep, of which offsets are sorted.
template <class T, class I>
struct ComparedRows {
    BagShape shape;
    const T* dout;
    const I* indices;
    IdArray offsets;
    const T* scales;  // null: none
    SparseRows<T, I> out;

    BK_HD bool keeps(int64_t k) const {
        const bool is_in_bag = offsets.ids == nullptr || (offsets[0] <= k && k < shape.end(offsets));
        return is_in_bag && shape.keeps(indices[k]);
    }
    // How many positions have a smaller row; -1 where an earlier one has the row of k, too.
    BK_HD int64_t place_of(const Team& team, int64_t k) const {
        const int64_t row = indices[k];
        int64_t smaller = 0, earlier = 0;
        for (int64_t j = team.rank; j < shape.total_indices; j += team.size) {
            if (!keeps(j)) continue;
            smaller += indices[j] < row;
            earlier += j < k && indices[j] == row;
        }
        const int64_t both = team.sum(smaller + (earlier << 32));
        return both >> 32 > 0 ? -1 : both;
    }
};

// Each row to the place that it has among all positions in order, so that places between them stay empty.
template <class T, class I>
struct PlaceRows : ComparedRows<T, I> {
    BK_HD void operator()(const Team& team, int64_t k) const {
        if (!this->keeps(k)) return;
        const int64_t place = this->place_of(team, k);
        if (place >= 0 && team.rank == 0) this->out.rows[place] = this->indices[k];
    }
};

// Sums of rows, each to the number that the row has.
template <class T, class I>
struct SumComparedRows : ComparedRows<T, I> {
    using C = compute_t<T>;

    BK_HD void operator()(const Team& team, int64_t k) const {
        if (!this->keeps(k)) return;
        const int64_t place = this->place_of(team, k), row = this->indices[k];
        if (place < 0) return;
        int32_t before = 0;
        for (int64_t p = team.rank; p < place; p += team.size) before += this->out.rows[p] >= 0;
        const int64_t number = team.sum(before), columns = this->shape.embedding_dim;
        const C often = this->shape.is_by_frequency ? static_cast<C>(frequency_of(this->shape, this->indices, row)) : C(1);
        for (int64_t c = team.rank; c < columns; c += team.size) {
            C sum = 0;
            for (int64_t j = k; j < this->shape.total_indices; ++j)
                if (this->indices[j] == row && this->keeps(j)) sum += term(j, c) / often;
            this->out.values[number * columns + c] = narrow<T>(sum);
        }
    }

private:
    BK_HD C term(int64_t j, int64_t column) const {
        const bool has_offsets = this->offsets.ids != nullptr;
        const int64_t bag = has_offsets ? this->shape.bags_until(this->offsets, j) - 1 : j;
        C x = widen(this->dout[bag * this->shape.embedding_dim + column]);
        if (this->shape.is_mean()) {
            const BagShape::Range range = this->shape.bag(this->offsets, bag);
            int32_t kept = 0;
            for (int64_t i = range.first; i < range.last; ++i) kept += this->shape.keeps(this->indices[i]);
            x = widen(narrow<T>(x / static_cast<C>(kept)));
        }
        return this->scales == nullptr ? x : x * widen(this->scales[j]);
    }
};

// Rows without the empty places between them, and how many they are.
template <class I>
struct CloseRanks {
    I* rows;
    I* count;
    int64_t places;

    BK_HD void operator()(const Team& team, int64_t) const {
        if (team.rank != 0) return;
        int64_t found = 0;
        for (int64_t p = 0; p < places; ++p) {
            const I row = rows[p];
            if (row < 0) continue;
            rows[p] = -1;
            rows[found++] = row;
        }
        *count = static_cast<I>(found);
    }
};

template <class T, class I>
Status compare_rows(const Launch& launch, const ComparedRows<T, I>& problem) {
    // Teams are as many as positions, so small ones fill a GPU.
    constexpr int64_t bytes = 512;
    const int64_t n = problem.shape.total_indices;
    BK_TRY(run_teams(launch, n, bytes, PlaceRows<T, I>{problem}));
    BK_TRY(run_teams(launch, n, bytes, SumComparedRows<T, I>{problem}));
    return run_teams(launch, 1, bytes, CloseRanks<I>{problem.out.rows, problem.out.count, n});
}

// --- Ops -------------------------------------------------------------------------------------------------------------

template <class T, class I>
Status sparse_rows(const Launch& launch, const BagShape& shape, const T* dout, const I* indices, IdArray offsets,
                   const T* scales, const SparseRows<T, I>& out, size_t needed) {
    bool found = false;
    BK_TRY(find_workspace(launch, needed, &found));
    BK_TRY(clear_sparse_rows(launch, shape, out));
    if (found) return sparse_rows_of_bags(launch, shape, dout, indices, offsets, scales, out);
    return compare_rows(launch, ComparedRows<T, I>{shape, dout, indices, offsets, scales, out});
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

// Of rows by index: every index is a bag.
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
