// Rows of a table that are longer than a bound, cut to it: those that indices name, each once.
#pragma once

#include <cstdint>
#include <limits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/math/half_power.h"
#include "core/math/math.h"
#include "core/pointwise/row_copies.h"
#include "core/rows/distinct_rows.h"
#include "core/rows/team.h"

namespace bk {

// Of the indices of a row one is chosen. Which one does not matter: what becomes of a row follows from the row alone.
constexpr int64_t kOwnersOfTeam = 2048;

template <class I>
struct ChooseOwners {
    const I* indices;
    int32_t* owner;
    int32_t num_indices, num_embeddings;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t first = item * kOwnersOfTeam, left = num_indices - first;
        for (int64_t k = team.rank; k < (left < kOwnersOfTeam ? left : kOwnersOfTeam); k += team.size) {
            const int64_t row = static_cast<int64_t>(indices[first + k]);
            if (row < 0 || row >= num_embeddings) continue;
#if BK_IN_KERNEL
            owner[row] = static_cast<int32_t>(first + k);
#else
            __atomic_store_n(owner + row, static_cast<int32_t>(first + k), __ATOMIC_RELAXED);
#endif
        }
    }
};

// The norm of order p, from quotients by the greatest magnitude, whose powers neither overflow nor vanish together.
template <class T>
struct RenormRow {
    using C = compute_t<T>;
    static constexpr C kMost = std::numeric_limits<C>::max();

    T* rows;
    int64_t columns;
    C max_norm, p;

    BK_HD void operator()(const Team& team, int64_t row) const {
        T* const x = rows + row * columns;
        const C norm = norm_of(team, x);
        if (!(norm > max_norm)) return;
        const C scale = max_norm / (norm + C(1e-7));
        for (int64_t d = team.rank; d < columns; d += team.size) x[d] = narrow<T>(widen(x[d]) * scale);
    }

private:
    BK_HD C norm_of(const Team& team, const T* x) const {
        C largest = 0;
        for (int64_t d = team.rank; d < columns; d += team.size) {
            const C size = math::fabs<C>(widen(x[d]));
            largest = size > largest ? size : largest;
        }
        largest = team.largest(largest);
        if (!(largest > 0) || largest > kMost || p > kMost) return largest + nan_of(team, x);
        C sum = 0;
        for (int64_t d = team.rank; d < columns; d += team.size) sum += power(math::fabs<C>(widen(x[d])) / largest);
        sum = team.sum(sum);
        return largest * (p == 1 ? sum : p == 2 ? math::sqrt<C>(sum) : math::pow<C>(sum, 1 / p));
    }
    // NaN where an element is, else 0.
    BK_HD C nan_of(const Team& team, const T* x) const {
        C sum = 0;
        for (int64_t d = team.rank; d < columns; d += team.size) {
            const C value = widen(x[d]);
            if (!(value == value)) sum = value;
        }
        return team.sum(sum);
    }
    BK_HD C power(C x) const { return p == 1 ? x : p == 2 ? x * x : math::pow<C>(x, p); }
};

// The rows of indices that own them.
template <class T, class I>
struct RenormOwned {
    const I* indices;
    const int32_t* owner;
    int32_t num_embeddings;
    RenormRow<T> renorm;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t row = static_cast<int64_t>(indices[item]);
        if (row >= 0 && row < num_embeddings && owner[row] == item) renorm(team, row);
    }
};

template <class T, class I>
struct EmbeddingRenorm {
    int32_t num_indices;
    int32_t num_embeddings;
    int32_t embedding_dim;
    double max_norm;
    double norm_type;

    Work work() const { return all_or_none(int64_t{num_embeddings} * embedding_dim); }
    Status check() const {
        BK_TRY(require_non_negative(
            {{"num_indices", num_indices}, {"num_embeddings", num_embeddings}, {"embedding_dim", embedding_dim}}));
        if (!(max_norm >= 0)) return fail(Status::kInvalidProblem, "max_norm is %g, must be >= 0", max_norm);
        if (!(norm_type > 0)) return fail(Status::kInvalidProblem, "norm_type is %g, must be > 0", norm_type);
        return Status::kOk;
    }
    size_t workspace_size() const {
        return num_indices < 2 ? 0 : static_cast<size_t>(num_embeddings) * sizeof(int32_t) + 3;  // which aligns them
    }
    Status run(const T* weight, const I* indices, T* out, const Launch& launch) const {
        int32_t* const owner = num_indices < 2 ? nullptr : workspace_array<int32_t>(launch, num_embeddings);
        if (weight != out) {
            CopyBatch batch(launch, sizeof(T));
            CopyLayout all;
            all.append(int64_t{num_embeddings} * embedding_dim, {1, 1});
            BK_TRY(batch.add(all, weight, out));
            BK_TRY(batch.flush());
        }
        if (num_indices == 0) return Status::kOk;
        using C = compute_t<T>;
        const RenormRow<T> renorm{out, embedding_dim, static_cast<C>(max_norm), static_cast<C>(norm_type)};
        const int64_t bytes = int64_t{embedding_dim} * static_cast<int64_t>(sizeof(T));
        if (owner == nullptr) return run_distinct_rows(launch, indices, num_indices, num_embeddings, bytes, renorm);
        const ChooseOwners<I> choose{indices, owner, num_indices, num_embeddings};
        BK_TRY(run_teams(launch, ceil_div<int64_t>(num_indices, kOwnersOfTeam), kOwnersOfTeam * 8, choose));
        return run_teams(launch, num_indices, bytes, RenormOwned<T, I>{indices, owner, num_embeddings, renorm});
    }
};

}  // namespace bk
