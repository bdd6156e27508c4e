// SPDX-License-Identifier: Apache-2.0
// embedding_renorm: rows that indices name and whose p-norm exceeds max_norm are scaled down to it, each once.
#pragma once

#include <cstdint>
#include <limits>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/collectives/team.h"
#include "core/copy/row_copies.h"
#include "core/gather/distinct_rows.h"
#include "core/math/half_power.h"
#include "core/math/math.h"

namespace bk {

// Elects one index per row. Races do not matter: the result of a row depends on the row alone.
constexpr int64_t kIndicesPerTeam = 2048;

template <class I>
struct ElectRepresentatives {
    const I* indices;
    int32_t* representative;
    int32_t num_indices, num_embeddings;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t first = item * kIndicesPerTeam, remaining = num_indices - first;
        for (int64_t k = team.rank; k < (remaining < kIndicesPerTeam ? remaining : kIndicesPerTeam); k += team.size) {
            const int64_t row = static_cast<int64_t>(indices[first + k]);
            if (row < 0 || row >= num_embeddings) continue;
#if BK_IN_KERNEL
            representative[row] = static_cast<int32_t>(first + k);
#else
            __atomic_store_n(representative + row, static_cast<int32_t>(first + k), __ATOMIC_RELAXED);
#endif
        }
    }
};

// The p-norm, computed from x / max|x|, whose powers neither overflow nor all vanish.
template <class T>
struct RenormRow {
    using C = compute_t<T>;
    static constexpr C kMaxFinite = std::numeric_limits<C>::max();

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
        if (!(largest > 0) || largest > kMaxFinite || p > kMaxFinite) return largest + nan_of(team, x);
        C sum = 0;
        for (int64_t d = team.rank; d < columns; d += team.size) sum += power(math::fabs<C>(widen(x[d])) / largest);
        sum = team.sum(sum);
        return largest * (p == 1 ? sum : p == 2 ? math::sqrt<C>(sum) : math::pow<C>(sum, 1 / p));
    }
    // NaN if an element is NaN, else 0.
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

// Renormalises the rows of elected indices.
template <class T, class I>
struct RenormRepresentatives {
    const I* indices;
    const int32_t* representative;
    int32_t num_embeddings;
    RenormRow<T> renorm;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t row = static_cast<int64_t>(indices[item]);
        if (row >= 0 && row < num_embeddings && representative[row] == item) renorm(team, row);
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
        return num_indices < 2 ? 0 : static_cast<size_t>(num_embeddings) * sizeof(int32_t) + 3;  // + 3 for alignment
    }
    Status run(const T* weight, const I* indices, T* out, const Launch& launch) const {
        int32_t* const representative = num_indices < 2 ? nullptr : workspace_array<int32_t>(launch, num_embeddings);
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
        if (representative == nullptr) return run_distinct_rows(launch, indices, num_indices, num_embeddings, bytes, renorm);
        const ElectRepresentatives<I> choose{indices, representative, num_indices, num_embeddings};
        BK_TRY(run_teams(launch, ceil_div<int64_t>(num_indices, kIndicesPerTeam), kIndicesPerTeam * 8, choose));
        return run_teams(launch, num_indices, bytes,
                         RenormRepresentatives<T, I>{indices, representative, num_embeddings, renorm});
    }
};

}  // namespace bk
