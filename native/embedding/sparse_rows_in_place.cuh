// SPDX-License-Identifier: Apache-2.0
// Distinct rows by comparing each index with all others: no memory but the results.
#pragma once

#include <cstdint>

#include "core/collectives/team.h"
#include "embedding/embedding_sparse.h"

namespace bk {

// Kept positions; offsets are sorted.
template <class T, class I>
struct ComparedRows {
    BagShape shape;
    const T* dout;
    const I* indices;
    IdArray offsets;
    const T* scales;  // null: none
    SparseRows<T, I> out;

    BK_HD bool keeps(int64_t k) const { return shape.is_in_bag(offsets, k) && shape.keeps(indices[k]); }
    // The number of positions with a smaller row; -1 if an earlier position has the same row.
    BK_HD int64_t sparse_slot(const Team& team, int64_t k) const {
        const int64_t row = indices[k];
        int64_t smaller = 0, earlier = 0;
        for (int64_t j = team.rank; j < shape.total_indices; j += team.size) {
            if (!keeps(j)) continue;
            smaller += indices[j] < row;
            earlier += j < k && indices[j] == row;
        }
        const int64_t packed = team.sum(smaller + (earlier << 32));
        return packed >> 32 > 0 ? -1 : packed;
    }
};

// Writes each row at its slot among all positions; slots of duplicates stay empty.
template <class T, class I>
struct WriteSparseSlots : ComparedRows<T, I> {
    BK_HD void operator()(const Team& team, int64_t k) const {
        if (!this->keeps(k)) return;
        const int64_t slot = this->sparse_slot(team, k);
        if (slot >= 0 && team.rank == 0) this->out.rows[slot] = this->indices[k];
    }
};

// Sums each row's gradients into the value row of the row's rank.
template <class T, class I>
struct SumRowGradients : ComparedRows<T, I> {
    using C = compute_t<T>;

    BK_HD void operator()(const Team& team, int64_t k) const {
        if (!this->keeps(k)) return;
        const int64_t slot = this->sparse_slot(team, k), row = this->indices[k];
        if (slot < 0) return;
        int32_t before = 0;
        for (int64_t p = team.rank; p < slot; p += team.size) before += this->out.rows[p] >= 0;
        const int64_t rank = team.sum(before), columns = this->shape.embedding_dim;
        const C frequency = this->shape.is_by_frequency ? static_cast<C>(frequency_of(this->shape, this->indices, row)) : C(1);
        for (int64_t c = team.rank; c < columns; c += team.size) {
            C sum = 0;
            for (int64_t j = k; j < this->shape.total_indices; ++j)
                if (this->indices[j] == row && this->keeps(j)) sum += summand(j, c) / frequency;
            this->out.values[rank * columns + c] = narrow<T>(sum);
        }
    }

private:
    BK_HD C summand(int64_t j, int64_t column) const {
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

// Compacts the rows and writes their count.
template <class I>
struct CompactRows {
    I* rows;
    I* count;
    int64_t slots;

    BK_HD void operator()(const Team& team, int64_t) const {
        if (team.rank != 0) return;
        int64_t found = 0;
        for (int64_t p = 0; p < slots; ++p) {
            const I row = rows[p];
            if (row < 0) continue;
            rows[p] = -1;
            rows[found++] = row;
        }
        *count = static_cast<I>(found);
    }
};

template <class T, class I>
Status sparse_rows_in_place(const Launch& launch, const BagShape& shape, const T* dout, const I* indices, IdArray offsets,
                            const T* scales, const SparseRows<T, I>& out) {
    const ComparedRows<T, I> problem{shape, dout, indices, offsets, scales, out};
    // There are as many teams as positions, so that small ones fill a GPU.
    constexpr int64_t bytes = 512;
    const int64_t n = shape.total_indices;
    BK_TRY(run_teams(launch, n, bytes, WriteSparseSlots<T, I>{problem}));
    BK_TRY(run_teams(launch, n, bytes, SumRowGradients<T, I>{problem}));
    return run_teams(launch, 1, bytes, CompactRows<I>{out.rows, out.count, n});
}

}  // namespace bk
