// Rows that indices name, found by comparing each index with all others: no memory is needed beside the results.
#pragma once

#include <cstdint>

#include "core/rows/team.h"
#include "embedding/embedding_sparse.h"

namespace bk {

// The positions that bags keep, of which offsets are sorted.
template <class T, class I>
struct ComparedRows {
    BagShape shape;
    const T* dout;
    const I* indices;
    IdArray offsets;
    const T* scales;  // null: none
    SparseRows<T, I> out;

    BK_HD bool keeps(int64_t k) const { return shape.is_in_bag(offsets, k) && shape.keeps(indices[k]); }
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
Status sparse_rows_in_place(const Launch& launch, const BagShape& shape, const T* dout, const I* indices, IdArray offsets,
                            const T* scales, const SparseRows<T, I>& out) {
    const ComparedRows<T, I> problem{shape, dout, indices, offsets, scales, out};
    // Teams are as many as positions, so small ones fill a GPU.
    constexpr int64_t bytes = 512;
    const int64_t n = shape.total_indices;
    BK_TRY(run_teams(launch, n, bytes, PlaceRows<T, I>{problem}));
    BK_TRY(run_teams(launch, n, bytes, SumComparedRows<T, I>{problem}));
    return run_teams(launch, 1, bytes, CloseRanks<I>{out.rows, out.count, n});
}

}  // namespace bk
